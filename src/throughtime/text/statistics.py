"""Statistics of running text: n-grams, coverage, Zipf's law, entropy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

ZIPF_RANKS = (10, 1000)  # without the few function words above and the rare words below


@dataclass(frozen=True)
class Running:
    """The tokens of some texts as ids; n-grams do not cross from one text into the next."""

    ids: Ids  # [tokens]
    types: list[str]  # the token of each id, in the order of first appearance
    lengths: Counts  # [texts]

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], joined: bool = False) -> Running:
        """Number the tokens of texts; with `joined`, they are parts of one text.

        >>> Running.of([["to", "be"], ["or", "not", "to", "be"]]).ids.tolist()
        [0, 1, 2, 3, 0, 1]
        """
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        parts = [np.fromiter(map(numbers.__getitem__, text), np.int32, len(text)) for text in texts]
        ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        lengths = [len(ids)] if joined else [len(ids_of_text) for ids_of_text in parts]
        return cls(ids, list(numbers), np.array(lengths, dtype=np.int64))


@dataclass(frozen=True)
class Ngrams:
    """The n-grams of a text, the most frequent first; those with equal counts in order of appearance."""

    n: int
    grams: Ids  # [distinct, n]
    counts: Counts  # [distinct]
    types: list[str]

    @property
    def distinct(self) -> int:
        """The number of different n-grams."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """The number of n-grams, including repetitions."""
        return int(self.counts.sum())

    @property
    def possible(self) -> int:
        """The number of n-grams that are possible with these types: |V|^n."""
        return int(len(self.types) ** self.n)

    def top(self, size: int) -> list[tuple[tuple[str, ...], int]]:
        """The most frequent n-grams and their counts."""
        grams = [tuple(self.types[number] for number in gram) for gram in self.grams[:size]]
        return list(zip(grams, self.counts[:size].tolist(), strict=True))


def ngram_counts(tokens: Running | Sequence[str], n: int) -> Ngrams:
    """Count the n-grams of running tokens.

    >>> ngram_counts("to be or not to be".split(), 2).top(2)
    [(('to', 'be'), 2), (('be', 'or'), 1)]
    """
    running = tokens if isinstance(tokens, Running) else Running.of([tokens])
    ids = running.ids.astype(np.int64)
    # An n-gram begins where n tokens of the same text are left.
    room = np.repeat(np.cumsum(running.lengths), running.lengths) - np.arange(len(ids))
    starts = np.flatnonzero(room >= n)
    # The key of an n-gram combines the number of its first n - 1 tokens with its last: no overflow.
    keys = ids[starts]
    for step in range(1, n):
        _, prefix = np.unique(keys, return_inverse=True)
        keys = prefix * max(len(running.types), 1) + ids[starts + step]
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    grams = ids[starts[first[order]][:, None] + np.arange(n)]
    return Ngrams(n, grams.astype(np.int32), counts[order].astype(np.int64), running.types)


def coverage(counts: Counts, sizes: Sequence[int] = (100, 1000, 10000)) -> dict[int, float]:
    """Compute the share of all tokens that the most frequent types cover; `counts` are sorted, largest first.

    >>> coverage(np.array([6, 3, 1]), sizes=(1, 2))
    {1: 0.6, 2: 0.9}
    """
    total = max(int(counts.sum()), 1)
    return {size: int(counts[:size].sum()) / total for size in sizes}


class ZipfFit(NamedTuple):
    """The line log(frequency) = log(scale) - exponent * log(rank)."""

    exponent: float
    scale: float

    def frequency(self, rank: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The frequency on the line at a rank."""
        return np.asarray(self.scale * np.asarray(rank, dtype=np.float64) ** -self.exponent)


def zipf_fit(counts: Counts, ranks: tuple[int, int] = ZIPF_RANKS) -> ZipfFit | None:
    """Fit Zipf's law by least squares on logarithms over a range of ranks; None for fewer than 3 types.

    >>> round(zipf_fit(np.array([6000 / rank for rank in range(1, 1001)])).exponent, 6)
    1.0
    """
    first, last = ranks
    kept = counts[first - 1 : last]
    if len(kept) < 3:
        return None
    x = np.log(np.arange(first, first + len(kept)))
    slope, intercept = np.polyfit(x, np.log(kept), 1)
    return ZipfFit(float(-slope), float(np.exp(intercept)))


def surprisal(counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The surprisal -ln p of each type, in nats; that of a type with count 0 is infinite."""
    checked = np.asarray(counts)
    if checked.ndim != 1 or (checked.size and checked.dtype.kind not in "iuf"):
        raise InputError("counts", f"are {checked.dtype} of shape {checked.shape}, expected a row of numbers")
    if not (np.isfinite(checked) & (checked >= 0)).all():
        raise InputError("counts", "hold a number that is negative or not finite; give counts of 0 or more")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(checked.sum()) - np.log(checked), dtype=np.float64)


def entropy(counts: npt.ArrayLike) -> float:
    """The mean surprisal of a token, in nats.

    >>> round(bits(entropy([2, 2, 2, 2, 0])), 12)
    2.0
    """
    surprisals, checked = surprisal(counts), np.asarray(counts)
    seen = checked > 0
    return float(checked[seen] @ surprisals[seen] / max(checked.sum(), 1e-300))


def bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / math.log(2)
