"""Write records to a file in another format."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from throughtime.errors import InputError, unknown
from throughtime.files import check_file, whole_file

Record = Any  # one of the named tuples of `throughtime.data.records`


def write_records(
    records: Iterable[Record], out: Path | str, force: bool = False
) -> tuple[int, tuple[str, ...]]:
    r"""Write records as CSV, TSV or JSON lines, depending on the suffix; return their number and columns.

    CSV starts with a header and TSV does not, as their readers expect. Words and tags are joined by spaces,
    but stay lists in JSON.

    >>> import tempfile
    >>> from throughtime.data.records import Pair
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
