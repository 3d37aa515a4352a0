"""Sentence BLEU as in lecture notes (`notes_bleu`), with every step of the computation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from throughtime.errors import check_whole


@dataclass(frozen=True)
class NgramMatches:
    """The number of n-grams of one length in a prediction, and how many of them are in the label.

    `matches` is clipped: an n-gram counts at most as often as it occurs in the label.
    """

    n: int
    matches: int
    total: int

    @classmethod
    def count(cls, prediction: Sequence[str], label: Sequence[str], n: int) -> NgramMatches:
        """Count the n-grams of length n and their matches."""
        check_whole("n", n)
        ngrams, reference_ngrams = _ngrams(prediction, n), _ngrams(label, n)
        return cls(
            n, sum(min(count, reference_ngrams[gram]) for gram, count in ngrams.items()), ngrams.total()
        )

    @property
    def precision(self) -> float:
        """p_n; 0 if the prediction is shorter than n."""
        return self.matches / self.total if self.total else 0.0

    @property
    def exponent(self) -> float:
        """1 / 2^n: a low precision of longer n-grams lowers the score less."""
        return 0.5**self.n

    @property
    def factor(self) -> float:
        """The factor in the score: p_n^(1/2^n)."""
        return float(self.precision**self.exponent)


@dataclass(frozen=True)
class NotesBleu:
    """The steps of the formula for one sentence; `value` is the score.

    `ngrams` has the matches for n = 1 to `k`. If k was not given and the prediction is longer than the
    longest match, the next n follows, with no matches.
    """

    prediction_length: int
    label_length: int
    k: int
    ngrams: tuple[NgramMatches, ...]

    @property
    def brevity_penalty(self) -> float:
        """exp(min(0, 1 - len_label / len_pred)), below 1 for a prediction that is shorter than the label."""
        if not self.prediction_length:
            return 0.0
        return math.exp(min(0.0, 1 - self.label_length / self.prediction_length))

    @property
    def value(self) -> float:
        """The brevity penalty times all factors; 0 if nothing matches."""
        factors = math.prod(one.factor for one in self.ngrams[: self.k])
        return self.brevity_penalty * factors if self.k else 0.0


def ngram_precision(prediction: Sequence[str], label: Sequence[str], n: int) -> float:
    """p_n: the share of the prediction's n-grams found in the label, each at most as often as there.

    >>> [round(ngram_precision("ABBCD", "ABCDEF", n), 3) for n in (1, 2, 3, 4)]
    [0.8, 0.75, 0.333, 0.0]
    """
    return NgramMatches.count(prediction, label, n).precision


def notes_bleu_steps(prediction: Sequence[str], label: Sequence[str], k: int | None = None) -> NotesBleu:
    """The steps to `notes_bleu`: clipped counts, precisions, exponents, brevity penalty.

    >>> steps = notes_bleu_steps("ABBCD", "ABCDEF")
    >>> [f"{one.matches}/{one.total}" for one in steps.ngrams], steps.k, round(steps.brevity_penalty, 4)
    (['4/5', '3/4', '1/3', '0/2'], 3, 0.8187)
    """
    if k is not None:
        check_whole("k", k)
    longest = len(prediction) if k is None else min(k, len(prediction))
    ngrams: list[NgramMatches] = []
    for n in range(1, longest + 1):
        ngrams.append(NgramMatches.count(prediction, label, n))
        if k is None and not ngrams[-1].matches:
            break  # if no n-gram of this length matches, no longer one does
    chosen = longest if k is not None else sum(one.matches > 0 for one in ngrams)
    return NotesBleu(len(prediction), len(label), chosen, tuple(ngrams))


def notes_bleu(prediction: Sequence[str], label: Sequence[str], k: int | None = None) -> float:
    r"""Sentence BLEU as lecture notes, such as *Dive into Deep Learning*, define it: from 0 to 1.

    exp(min(0, 1 - len_label / len_pred)) \prod_{n=1}^{k} p_n^{1/2^n}

    By default, k is the length of the longest matching n-gram; a given k is at most the length of the
    prediction. A prediction that is empty or matches nothing scores 0.

    >>> round(notes_bleu("ABBCD", "ABCDEF", k=2), 4), round(notes_bleu("ABBCD", "ABCDEF", k=3), 4)
    (0.6815, 0.594)
    """
    return notes_bleu_steps(prediction, label, k).value


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
