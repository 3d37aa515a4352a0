"""Which sentence pairs are worth learning from; what is dropped is counted by its reason."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from throughtime.data.records import Pair
from throughtime.errors import InputError

Length = Callable[[str], int]
Rule = Callable[[Pair], bool]  # whether to drop the pair


def count_words(text: str) -> int:
    """How many words separated by white space.

    >>> count_words("Va vite !")
    3
    """
    return len(text.split())


LENGTHS: dict[str, Length] = {"words": count_words, "characters": len}


class PairFilters:
    """Drops pairs that are empty, identical, too long, too unlike in length, or there already.

    `length` measures a side for `max_length` and `max_ratio`: words, characters, or a tokenizer's count.
    `duplicates` drops a pair that came before, `same_source` also another translation of the same source.

    >>> filters = PairFilters(max_length=3, identical=True)
    >>> pairs = [Pair("Go.", "Va !"), Pair("OK", "OK"), Pair("He is here now.", "Il est là.")]
    >>> list(filters.apply(pairs))
    [Pair(source='Go.', target='Va !')]
    >>> filters.report()
    'kept 1 of 3 pairs: 1 identical sides, 1 too long'
    """

    def __init__(
        self,
        *,
        max_length: int | None = None,
        max_ratio: float | None = None,
        length: Length = count_words,
        empty: bool = False,
        identical: bool = False,
        duplicates: bool = False,
        same_source: bool = False,
    ) -> None:
        if max_length is not None and max_length < 1:
            raise InputError("max_length", f"is {max_length}, expected at least 1")
        if max_ratio is not None and max_ratio < 1:
            raise InputError(
                "max_ratio", f"is {max_ratio:g}, expected at least 1, the longer over the shorter"
            )
        self.max_length, self.max_ratio, self.length = max_length, max_ratio, length
        self.empty, self.identical = empty, identical
        self.duplicates, self.same_source = duplicates, same_source
        self.kept = 0
        self.counts: Counter[str] = Counter()

    def apply(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs that pass. Counts add up over calls; duplicates are those of one call."""
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
        """Whether any filter was asked for."""
        return bool(self._rules())

    @property
    def dropped(self) -> int:
        """How many pairs were dropped so far, for whatever reason."""
        return self.counts.total()

    def report(self) -> str:
        """One sentence: how many passed, and what became of the others."""
        kept = f"kept {self.kept:,} of {self.kept + self.dropped:,} pairs"
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.counts.most_common())
        return f"{kept}: {reasons}" if reasons else kept

    def _rules(self) -> list[tuple[str, Rule]]:
        # Duplicates come last: only what passed everything else is worth remembering.
        rules: list[tuple[str, Rule, bool]] = [
            ("empty side", _has_empty_side, self.empty),
            ("identical sides", _has_identical_sides, self.identical),
            ("too long", self._is_too_long, self.max_length is not None),
            ("length ratio", self._is_lopsided, self.max_ratio is not None),
            ("same source", _Seen(lambda pair: pair.source), self.same_source),
            ("duplicate", _Seen("\0".join), self.duplicates),
        ]
        return [(reason, drops) for reason, drops, wanted in rules if wanted]

    def _is_too_long(self, pair: Pair) -> bool:
        assert self.max_length is not None
        return max(map(self.length, pair)) > self.max_length

    def _is_lopsided(self, pair: Pair) -> bool:
        assert self.max_ratio is not None
        shorter, longer = sorted(map(self.length, pair))
        return longer > self.max_ratio * max(shorter, 1)


def _has_empty_side(pair: Pair) -> bool:
    return not (pair.source.strip() and pair.target.strip())


def _has_identical_sides(pair: Pair) -> bool:
    return pair.source.strip() == pair.target.strip()


class _Seen:
    """Whether a text came before. Remembers 16 bytes of each, not the text: corpora are long."""

    def __init__(self, key: Callable[[Pair], str]) -> None:
        self.key = key
        self.digests: set[bytes] = set()

    def __call__(self, pair: Pair) -> bool:
        digest = hashlib.blake2b(self.key(pair).encode(), digest_size=16).digest()
        if digest in self.digests:
            return True
        self.digests.add(digest)
        return False
