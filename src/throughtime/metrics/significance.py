"""Whether the difference between two systems is significant: paired bootstrap resampling by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from throughtime.errors import InputError
from throughtime.metrics.bleu import bleu_metric
from throughtime.text.texts import check_texts


@dataclass(frozen=True)
class SystemScore:
    """The score of one system, compared with the first one."""

    name: str
    value: float
    mean: float  # over the resampled test sets
    interval: float  # half of the 95 % confidence interval
    p_value: float | None  # probability of such a difference by chance; None for the first system


@dataclass(frozen=True)
class Comparison:
    """The scores of all systems on one measure, and the signature that says how they were computed."""

    measure: str
    systems: list[SystemScore]
    signature: str

    def without_p_values(self) -> Comparison:
        """Return the scores alone, for a test set that says nothing about other data."""
        return replace(self, systems=[replace(system, p_value=None) for system in self.systems])


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    language: str | None = None,
    samples: int = 1000,
) -> list[Comparison]:
    """Compare the BLEU and chrF of each system with the first one on resampled test sets (Koehn, 2004).

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
    signatures, scores = PairedTest(list(systems.items()), metrics, [references], "bs", n_samples=samples)()
    return [
        Comparison(
            measure,
            [_score(name, result) for name, result in zip(systems, scores[measure], strict=True)],
            str(signatures[measure]),
        )
        for measure in signatures
    ]


def _score(name: str, result: Any) -> SystemScore:
    p_value = None if result.p_value is None else float(result.p_value)
    return SystemScore(name, float(result.score), float(result.mean), float(result.ci), p_value)
