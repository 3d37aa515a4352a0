"""`throughtime data convert`: any file that a reader knows, as CSV, TSV or JSON lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from throughtime.cli.options import OptionalCount, read_pairs
from throughtime.cli.output import Outcome, as_command, say
from throughtime.errors import InputError
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.convert import PairFilters
    from throughtime.data.source import BadRecords


class FilterOptions(TypedDict):
    """Which pairs to drop: the fields of `PairFilters`.

    Filters for pairs:
        max_length: Drop pairs with a side longer than N.
        max_ratio: Drop pairs in which one side is more than X times as long as the other.
        empty: Drop pairs with an empty side.
        identical: Drop pairs whose sides are equal.
        duplicates: Drop repeated pairs.
        same_source: Keep only the first translation of each source.
    """

    max_length: OptionalCount
    max_ratio: Annotated[float | None, typer.Option(min=1)]
    empty: Annotated[bool, typer.Option("--drop-empty")]
    identical: Annotated[bool, typer.Option("--drop-identical")]
    duplicates: Annotated[bool, typer.Option("--drop-duplicates")]
    same_source: Annotated[bool, typer.Option("--drop-same-source")]


@as_command
def convert(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT")],
    out: Annotated[Path, typer.Option("--out", "-o")],
    reader: str | None = None,
    reader_option: Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE")] = None,
    split: str = "all",
    skip_bad: bool = False,
    force: bool = False,
    length: str = "words",
    **filtering: Unpack[FilterOptions],
) -> Outcome:
    """Convert a corpus to CSV, TSV or JSON lines, one record per row.

    The columns are source and target for pairs; english, hsk, mandarin and pinyin for the HSK deck; words,
    tags and label for tagged sentences; unique_id, ds and y for series; text for plain lines. CSV starts with
    their names, TSV does not.

    [bold]Examples[/bold]

      throughtime data convert hsk-en-zh.txt --out hsk.csv

      throughtime data convert train.en train.fr --out train.tsv --max-ratio 2 --drop-duplicates

    Args:
        inputs: A file, two parallel files, a folder with seq.in, seq.out and label, or a name such as
            `hsk-en-zh`. Files may be .gz, .xz or .zip (`pairs.zip!fra.txt` names a file of an archive).
        out: File to write: .csv, .tsv or .jsonl.
        reader: How to read the input: {throughtime.data.readers:READERS}; by default detected.
        reader_option: Option of the reader, such as source=en; repeatable.
        force: Overwrite the output if it exists.

    Filters for pairs:
        length: Unit of lengths: words or characters.
    """
    from throughtime.data.convert import LENGTHS, PairFilters, check_output, write_records
    from throughtime.errors import unknown

    check_output(out, force)
    if length not in LENGTHS:
        raise unknown("length", length, LENGTHS)
    filters = PairFilters(length=LENGTHS[length], **filtering)
    options = read_pairs(reader_option or [], "--option")
    kind, records, bad = _open_records(inputs, reader, options, split, skip_bad)
    if filters.active:
        if kind != "pairs":
            raise InputError(inputs[0], f"is read as {kind}, and filters are for pairs; leave them out")
        records = filters.apply(records)
    first = next(records, None)
    if first is None:
        why = [bad.report()] * bool(bad.count) + [filters.report()] * filters.active
        raise InputError(str(out), "; ".join(["not written, as no record is left to write", *why]))
    written, columns = write_records(itertools.chain([first], records), out, force)
    return _outcome(out, kind, written, columns, bad, filters)


def _open_records(
    inputs: list[str], reader: str | None, options: dict[str, str], split: str, skip_bad: bool
) -> tuple[str, Iterator[Any], BadRecords]:
    """Kind and records of the input, and where its bad records are counted."""
    from throughtime.data.datasets import is_path, list_files, open_dataset
    from throughtime.data.readers import build_reader, guess_reader
    from throughtime.data.readers.columns import kind_of
    from throughtime.data.source import BadRecords

    corpus = len(inputs) == 1 and not is_path(inputs[0])
    if corpus and options:
        problem = f"is for files, but {inputs[0]} is a corpus of the catalogue; leave it out"
        raise InputError("--option", problem)
    if len(inputs) == 1 and not options:
        dataset = open_dataset(inputs[0], reader=reader, skip_bad=skip_bad)
        if split == "all" or corpus or "all" not in dataset.stored:
            records = dataset.records(split)  # begins to count the bad ones anew
            return dataset.kind, records, dataset.bad
    if split != "all":
        raise InputError("--split", "is for corpora and folders of splits; files are converted whole")
    paths = [path for name in inputs for path in list_files(name)]
    built = build_reader(reader if reader is not None else guess_reader(paths, kind_of(options)), options)
    bad = BadRecords(skip_bad)
    return built.kind, built.read(paths, bad), bad


def _outcome(
    out: Path, kind: str, written: int, columns: tuple[str, ...], bad: BadRecords, filters: PairFilters
) -> Outcome:
    if bad.count:
        say(bad.report())
    if filters.active:
        say(filters.report())
    values = {"out": str(out), "kind": kind, "columns": columns, "written": written}
    values |= {"skipped": bad.count, "skipped_reasons": dict(bad.reasons)}
    values |= {"dropped": filters.num_dropped, "dropped_reasons": dict(filters.counts)}
    return Outcome(values, [f"wrote {format_count(written, 'record')} ({', '.join(columns)}) to {out}"])
