"""Whether one system is better than another, or only luckier: paired bootstrap by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from throughtime.errors import InputError
from throughtime.metrics.bleu import bleu_metric
from throughtime.text.texts import check_texts


@dataclass(frozen=True)
class Compared:
    """One system's score beside the first one's."""

    name: str
    value: float
    mean: float  # over the resampled test sets
    interval: float  # half of the 95 % confidence interval
    p_value: float | None  # of a difference like this one by chance; None for the first system


@dataclass(frozen=True)
class Comparison:
    """All systems on one measure, and how it was taken."""

    measure: str
    systems: list[Compared]
    signature: str


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    language: str | None = None,
    samples: int = 1000,
) -> list[Comparison]:
    """BLEU and chrF of each system, each against the first on resampled test sets (Koehn, 2004).

    >>> same = ["a b c d e", "f g h i j"]
    >>> bleu, chrf = paired_bootstrap({"one": same, "two": same}, same, samples=50)
    >>> [round(one.value, 3) for one in bleu.systems], bleu.systems[0].p_value
    ([100.0, 100.0], None)
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise InputError("a comparison", "needs two systems or more")
    for name, translations in systems.items():
        if len(translations) != len(references):
            raise InputError(name, f"has {len(translations)} lines for {len(references)} references")
    references = check_texts(references, "references")
    metrics = {
        "BLEU": bleu_metric(tokenize, lowercase, language, references),
        "chrF": CHRF(lowercase=lowercase),
    }
    named = [(name, translations) for name, translations in systems.items()]
    test = PairedTest(named, metrics, [references], "bs", n_samples=samples)
    signatures, scores = test()
    return [
        Comparison(
            measure,
            [_compared(name, result) for name, result in zip(systems, scores[measure], strict=True)],
            str(signatures[measure]),
        )
        for measure in signatures
    ]


def _compared(name: str, result: Any) -> Compared:
    p_value = None if result.p_value is None else float(result.p_value)
    return Compared(name, float(result.score), float(result.mean), float(result.ci), p_value)
