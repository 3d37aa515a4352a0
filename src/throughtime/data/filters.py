"""Filters for sentence pairs; dropped pairs are counted by reason."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from throughtime.data.records import Pair
from throughtime.errors import InputError

Length = Callable[[str], int]
Rule = Callable[[Pair], bool]  # whether to drop the pair


def count_words(text: str) -> int:
    """Return the number of words separated by white space.

    >>> count_words("Va vite !")
    3
    """
    return len(text.split())


LENGTHS: dict[str, Length] = {"words": count_words, "characters": len}


@dataclass(kw_only=True)
class PairFilters:
    """Drops pairs that are empty, identical, too long, too different in length, or repeated.

    `length` measures a side for `max_length` and `max_ratio`, in words, characters or tokens. `duplicates`
    drops pairs that occurred before, `same_source` also other translations of the same source.

    >>> filters = PairFilters(max_length=3, identical=True)
    >>> pairs = [Pair("Go.", "Va !"), Pair("OK", "OK"), Pair("He is here now.", "Il est là.")]
    >>> list(filters.apply(pairs))
    [Pair(source='Go.', target='Va !')]
    >>> filters.report()
    'kept 1 of 3 pairs: 1 identical sides, 1 too long'
    """

    max_length: int | None = None
    max_ratio: float | None = None
    length: Length = count_words
    empty: bool = False
    identical: bool = False
    duplicates: bool = False
    same_source: bool = False
    kept: int = field(default=0, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        """Raise an error for limits that no pair could meet."""
        if self.max_length is not None and self.max_length < 1:
            raise InputError("max_length", f"is {self.max_length}, expected at least 1")
        if self.max_ratio is not None and self.max_ratio < 1:
            problem = f"is {self.max_ratio:g}, expected at least 1: the longer length over the shorter"
            raise InputError("max_ratio", problem)

    def apply(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs that pass. Counts add up over calls; duplicates are found within one call."""
        rules = self._rules()
        for pair in pairs:
            reason = next((reason for reason, drops in rules if drops(pair)), None)
            if reason is None:
                self.kept += 1
                yield pair
            else:
                self.counts[reason] += 1

    @property
    def active(self) -> bool:
        """Whether any filter is on."""
        return bool(self._rules())

    @property
    def dropped(self) -> int:
        """The number of pairs dropped so far, for any reason."""
        return self.counts.total()

    def report(self) -> str:
        """Return one sentence: the number of pairs kept, and why the others were dropped."""
        kept = f"kept {self.kept:,} of {self.kept + self.dropped:,} pairs"
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.counts.most_common())
        return f"{kept}: {reasons}" if reasons else kept

    def _rules(self) -> list[tuple[str, Rule]]:
        # Duplicates come last: only pairs that pass all other filters need to be remembered.
        rules: list[tuple[str, Rule, bool]] = [
            ("empty side", lambda pair: not all(map(str.strip, pair)), self.empty),
            ("identical sides", lambda pair: len(set(map(str.strip, pair))) == 1, self.identical),
            ("too long", self._is_too_long, self.max_length is not None),
            ("length ratio", self._is_lopsided, self.max_ratio is not None),
            ("same source", _seen_before(lambda pair: pair.source), self.same_source),
            ("duplicate", _seen_before("\0".join), self.duplicates),
        ]
        return [(reason, drops) for reason, drops, wanted in rules if wanted]

    def _is_too_long(self, pair: Pair) -> bool:
        assert self.max_length is not None
        return max(map(self.length, pair)) > self.max_length

    def _is_lopsided(self, pair: Pair) -> bool:
        assert self.max_ratio is not None
        shorter, longer = sorted(map(self.length, pair))
        return longer > self.max_ratio * max(shorter, 1)


def _seen_before(key: Callable[[Pair], str]) -> Rule:
    """Return a rule that drops pairs whose key occurred before; it remembers 16 bytes per key."""
    digests: set[bytes] = set()

    def drops(pair: Pair) -> bool:
        known = len(digests)
        digests.add(hashlib.blake2b(key(pair).encode(), digest_size=16).digest())
        return len(digests) == known

    return drops
