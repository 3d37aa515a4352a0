r"""From counts to probabilities: every smoothing is an interpolation with a shorter context.

    P(w | c) = own(c, w) + back(c) * P(w | c shortened)        if the context c was counted
             = P(w | c shortened)                              if it was not

with P(w) = base(w) at the bottom. A smoothing is the choice of own, back and base; a new one is one class and
one line in `SMOOTHINGS`, or an entry point of the group `throughtime.smoothings`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from throughtime.errors import InputError, check_number
from throughtime.ngram.counts import Floats, Ints, NgramCounts
from throughtime.registry import Registry


class Interpolation(NamedTuple):
    """A fitted smoothing: base, own and back of the equation above.

    `own` and `back` have one array for each length of n-grams. Index n - 1 belongs to n-grams of length n,
    whose counts are in `counts.levels[n - 1]`; index 0 is not used and may hold an empty array.

    - `base` [V] is P(w); it is 0 for the words of `counts.never`, and sums to 1.
    - `own[n - 1]` has a number for each n-gram of length n.
    - `back[n - 1]` has a number for each n-gram of length n - 1, which is a context c here. Added to the
      sum of `own` over all continuations of c, it is 1. NaN marks a context that was never continued: after
      it, the next shorter context decides.
    - With `shortened_to_nothing`, every length is mixed with P(w) instead of with the next shorter context.
      From order 3 on, such a model cannot be written as an ARPA file.
    - `own` is never negative. With `replaces`, `own` is P(w | c) itself, and only words that do not follow c
      take the shorter context, with the weight of an ARPA file: it is for stored probabilities alone.
    """

    base: Floats
    own: tuple[Floats, ...]
    back: tuple[Floats, ...]
    shortened_to_nothing: bool
    replaces: bool = False

    @classmethod
    def collect(
        cls, levels: Iterable[tuple[Floats, Floats]], *, shortened_to_nothing: bool = False
    ) -> Interpolation:
        """Build it from base and own of each length, with the weights of their contexts."""
        shares, back = zip(*levels, strict=True)
        return cls(shares[0], (np.empty(0), *shares[1:]), back, shortened_to_nothing)


class Smoothing(Protocol):
    """Turns counts into an interpolation."""

    name: ClassVar[str]

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Choose own, back and base for these counts.

        Counts may be files as large as the memory: go through a level by slices, as `divide` does, without
        arrays of its length besides the result. `Interpolation.collect` puts the lengths together, one at a
        time. The numbers that a user gives with `--strengths` are the keyword `strengths` of the class.
        """
        ...


@dataclass(frozen=True)
class Fixed:
    """Probabilities that are stored instead of counts: those of an ARPA file or of a pruned model."""

    interpolation: Interpolation
    name: ClassVar[str] = "arpa"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Return the probabilities."""
        return self.interpolation


def count_predicted(counts: NgramCounts) -> Floats:
    """Counts of single words; those that are never predicted count 0."""
    single = counts.levels[0].count.astype(np.float64)
    single[list(counts.never)] = 0.0
    return single


def uniform(counts: NgramCounts) -> Floats:
    """The uniform distribution 1/m over the words that can come next."""
    flat = np.full(counts.vocabulary_size, 1.0 / (counts.vocabulary_size - len(counts.never)))
    flat[list(counts.never)] = 0.0
    return flat


@dataclass(frozen=True)
class RelativeFrequency:
    """P(w | c) = n(c, w) / n(c); after a context that was not counted, the shorter one decides."""

    name: ClassVar[str] = "relative-frequency"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Divide counts: recursive smoothing without pseudo-counts."""
        return Dirichlet((0.0,)).fit(counts)


@dataclass(frozen=True)
class Laplace:
    r"""Laplace smoothing that mixes every order with the probabilities of single words.

    `strengths` are e_1, e_2, ...; the last one is used for all longer n-grams too.

    P(w) = (n(w) + e_1/m) / (n + e_1),   P(w | c) = (n(c, w) + e_n P(w)) / (n(c) + e_n)
    """

    strengths: tuple[float, ...] = (1.0,)
    name: ClassVar[str] = "laplace"
    shortened_to_nothing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that there are strengths and that none is negative."""
        values: Any = self.strengths
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InputError("strengths", f"is {values!r}, expected a list of numbers of 0 or more")
        strengths = tuple(check_number("strengths", strength) for strength in values)
        if not strengths:
            raise InputError("strengths", "is empty, expected numbers of 0 or more")
        object.__setattr__(self, "strengths", strengths)

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Add e_n pseudo-counts, in proportion to the probabilities after the shorter context."""
        return Interpolation.collect(self.estimate(counts), shortened_to_nothing=self.shortened_to_nothing)

    def estimate(self, counts: NgramCounts) -> Iterator[tuple[Floats, Floats]]:
        """Yield base, then own of each length with the weights of its contexts."""
        single, e = count_predicted(counts), self._strength(1)
        yield (single + e * uniform(counts)) / (single.sum() + e), np.empty(0)
        for n in range(2, counts.order + 1):
            yield divide(counts, n, counts.levels[n - 1].count, partial(self._share, self._strength(n)))

    @staticmethod
    def _share(strength: float, count: Ints, number: Ints) -> tuple[Floats, Floats]:
        seen = np.bincount(number, count)
        total = seen + strength
        return count / total[number], np.where(seen > 0, strength / total, np.nan)

    def _strength(self, n: int) -> float:
        return self.strengths[min(n, len(self.strengths)) - 1]


@dataclass(frozen=True)
class Dirichlet(Laplace):
    r"""Recursive Laplace smoothing: P(w | c) = (n(c, w) + e_n P(w | c shortened)) / (n(c) + e_n).

    This is the mean of a hierarchy of Dirichlet priors; it is better than `laplace` from order 3 on.
    """

    name: ClassVar[str] = "dirichlet"
    shortened_to_nothing: ClassVar[bool] = False


@dataclass(frozen=True)
class KneserNey:
    r"""Interpolated modified Kneser-Ney (Chen and Goodman, 1998).

    own(c, w) = max(a(c, w) - D_a, 0) / sum_v a(c, v), where a is the count for the longest
    n-grams and, for shorter ones, the number of different words before the n-gram; n-grams that begin a
    sentence keep their count. D_1, D_2, D_3+ follow from how many n-grams of that length occur once to four
    times.
    """

    name: ClassVar[str] = "kneser-ney"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Discount the counts of each length by D_1, D_2, D_3+, and give the rest to the shorter context."""
        return Interpolation.collect(self.estimate(counts))

    def estimate(self, counts: NgramCounts) -> Iterator[tuple[Floats, Floats]]:
        """Yield base, then own of each length with the weights of its contexts."""
        for n, adjusted in enumerate(adjusted_counts(counts), start=1):
            if n == 1:
                single = adjusted.astype(np.float64)
                single[list(counts.never)] = 0.0
                removed = discounts(single)[single.clip(max=3).astype(np.int64)]
                yield (single - removed + removed.sum() * uniform(counts)) / single.sum(), np.empty(0)
                continue
            levels = divide(counts, n, adjusted, partial(self._share, discounts(adjusted)))
            del adjusted
            yield levels
            del levels  # as large as the next

    @staticmethod
    def _share(discount: Floats, count: Ints, number: Ints) -> tuple[Floats, Floats]:
        removed, total = discount[count.clip(max=3)], np.bincount(number, count)
        sums = total[number]
        return np.where(sums > 0, (count - removed) / sums, 0.0), np.bincount(number, removed) / total


Share = Callable[[Ints, Ints], tuple[Floats, Floats]]
"""Takes counts of n-grams and the numbers of their contexts, and returns own, and the weights of contexts."""


def divide(counts: NgramCounts, n: int, level_counts: Ints, share: Share) -> tuple[Floats, Floats]:
    """Return own of length n and the weights of its contexts, which are NaN where nothing follows."""
    shares, back = np.empty(len(level_counts)), np.full(len(counts.levels[n - 2].keys), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        for part, context in counts.levels[n - 1].slices():
            within = slice(context[0], context[-1] + 1)
            shares[part], back[within] = share(level_counts[part], context - context[0])
    return shares, back


def adjusted_counts(counts: NgramCounts) -> Iterator[Ints]:
    """a(c, w) of Kneser-Ney for the n-grams of each length, from 1 to the order."""
    opens = np.isin(np.arange(counts.vocabulary_size), counts.never)
    links = counts.suffix_links()
    next(links)
    for level, longer in itertools.pairwise(counts.levels):
        different = np.bincount(next(links), minlength=len(level.keys))
        # The first n-grams of a text without sentence marks have no word before them either.
        raw = opens | (different == 0)
        different[raw] = level.count[raw]
        if longer is counts.levels[-1]:
            links.close()  # a level's links are as large as its counts
        yield different
        del different, raw
        following = np.empty(len(longer.keys), bool)
        for part, context in longer.slices():
            following[part] = opens[context]
        opens = following
    yield counts.levels[-1].count


def discounts(adjusted: Ints | Floats) -> Floats:
    """D for counts of 0, 1, 2 and 3 or more; 0.5, 1, 1.5 if the corpus is too small to estimate them."""
    of = [float(np.count_nonzero(adjusted == k)) for k in range(5)]
    if min(of[1:]) == 0:
        return np.array([0.0, 0.5, 1.0, 1.5])
    y = of[1] / (of[1] + 2 * of[2])
    estimated = [k - (k + 1) * y * of[k + 1] / of[k] for k in (1, 2, 3)]
    return np.array([0.0, *(min(max(d, 0.0), k) for k, d in enumerate(estimated, start=1))])


SMOOTHINGS = Registry[Callable[..., Smoothing]](
    "smoothing",
    "throughtime.smoothings",
    {
        "relative-frequency": "throughtime.ngram.smoothing:RelativeFrequency",
        "laplace": "throughtime.ngram.smoothing:Laplace",
        "dirichlet": "throughtime.ngram.smoothing:Dirichlet",
        "kneser-ney": "throughtime.ngram.smoothing:KneserNey",
    },
)


def build_smoothing(name: str, strengths: Iterable[float] = ()) -> Smoothing:
    """Build the smoothing of this name; only some smoothings take `strengths`."""
    kind = SMOOTHINGS[name]
    if isinstance(strengths, list | tuple) and not strengths:
        return kind()
    if "strengths" not in signature(kind).parameters:
        raise InputError("strengths", f"is not an option of {name} smoothing; leave it out")
    return kind(strengths=strengths)
