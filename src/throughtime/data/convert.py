"""Write records to a file in another format; filters for sentence pairs count dropped pairs by reason."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from throughtime.data.records import Pair
from throughtime.errors import InputError, check_number, check_whole, unknown
from throughtime.files import check_file, whole_file

Record = Any  # one of the named tuples of `throughtime.data.records`


def write_records(
    records: Iterable[Record], out: Path | str, force: bool = False
) -> tuple[int, tuple[str, ...]]:
    r"""Write records as CSV, TSV or JSON lines, depending on the suffix; return their number and columns.

    CSV starts with a header and TSV does not, as their readers expect. Words and tags are joined by spaces,
    but stay lists in JSON.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pairs.csv"
    ...     print(write_records([Pair("Go.", "Va !"), Pair("Run, now!", "Cours !")], file))
    ...     print(file.read_text(), end="")
    (2, ('source', 'target'))
    source,target
    Go.,Va !
    "Run, now!",Cours !
    """
    out = Path(out)
    check_output(out, force)
    records = iter(records)
    first = next(records, None)
    if first is None:
        raise InputError(str(out), "was not written, because there are no records")
    with whole_file(out) as file:
        write = FORMATS[out.suffix.lower()]
        if write is _write_csv:
            csv.writer(file, lineterminator="\n").writerow(first._fields)
        for number, record in enumerate(itertools.chain([first], records), start=1):
            try:
                write(file, record)
            except ValueError as error:
                raise InputError(str(out), f"cannot hold record {number}: {error}") from None
    return number, first._fields


def check_output(out: Path, force: bool) -> None:
    """Raise an error for an unknown format or a file that exists already."""
    if out.suffix.lower() not in FORMATS:
        raise InputError(str(out), str(unknown("output format", out.suffix, FORMATS)))
    check_file(out)
    if out.exists() and not force:
        raise InputError(str(out), "exists already; choose another name, or overwrite it with force=True")


def _write_csv(file: IO[str], record: Record) -> None:
    csv.writer(file, lineterminator="\n").writerow(_cells(record))


def _write_tsv(file: IO[str], record: Record) -> None:
    cells = _cells(record)
    for column, cell in zip(record._fields, cells, strict=True):
        if "\t" in cell or "\n" in cell:
            raise ValueError(f"its {column} contains a tab or a line break; write .csv or .jsonl instead")
    file.write("\t".join(cells) + "\n")


def _write_jsonl(file: IO[str], record: Record) -> None:
    file.write(json.dumps(record._asdict(), ensure_ascii=False) + "\n")


FORMATS: dict[str, Callable[[IO[str], Record], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".jsonl": _write_jsonl,
}


def _cells(record: Record) -> list[str]:
    return [" ".join(map(_word, value)) if isinstance(value, tuple) else str(value) for value in record]


def _word(word: str) -> str:
    if " " in word:
        raise ValueError(f"its word {word!r} contains a space; write .jsonl instead")
    return word


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
        if self.max_length is not None:
            check_whole("max_length", self.max_length)
        if self.max_ratio is not None:
            check_number("max_ratio", self.max_ratio, 1)

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
    def num_dropped(self) -> int:
        """The number of pairs dropped so far, for any reason."""
        return self.counts.total()

    def report(self) -> str:
        """Return one sentence: the number of pairs kept, and why the others were dropped."""
        kept = f"kept {self.kept:,} of {self.kept + self.num_dropped:,} pairs"
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.counts.most_common())
        return f"{kept}: {reasons}" if reasons else kept

    def _rules(self) -> list[tuple[str, Rule]]:
        longest = self.max_length or 0
        # Duplicates come last: only pairs that pass all other filters need to be remembered.
        rules: list[tuple[str, Rule, bool]] = [
            ("empty side", lambda pair: not all(map(str.strip, pair)), self.empty),
            ("identical sides", lambda pair: len(set(map(str.strip, pair))) == 1, self.identical),
            ("too long", lambda pair: max(map(self.length, pair)) > longest, self.max_length is not None),
            ("length ratio", self._is_lopsided, self.max_ratio is not None),
            ("same source", _build_duplicate_rule(lambda pair: pair.source), self.same_source),
            ("duplicate", _build_duplicate_rule("\0".join), self.duplicates),
        ]
        return [(reason, drops) for reason, drops, wanted in rules if wanted]

    def _is_lopsided(self, pair: Pair) -> bool:
        assert self.max_ratio is not None
        shorter, longer = sorted(map(self.length, pair))
        return longer > self.max_ratio * max(shorter, 1)


def _build_duplicate_rule(key: Callable[[Pair], str]) -> Rule:
    """Return a rule that drops pairs whose key occurred before; it remembers 16 bytes per key."""
    digests: set[bytes] = set()

    def drops(pair: Pair) -> bool:
        known = len(digests)
        digests.add(hashlib.blake2b(key(pair).encode(), digest_size=16).digest())
        return len(digests) == known

    return drops
