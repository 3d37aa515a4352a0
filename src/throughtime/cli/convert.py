"""`throughtime data convert`: any file that a reader knows, as CSV, TSV or JSON lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.output import Outcome, as_command, say
from throughtime.errors import InputError
from throughtime.files import path_exists

if TYPE_CHECKING:
    from throughtime.data.filters import PairFilters
    from throughtime.data.source import BadRecords

FILTERS = "Filters for pairs"
Option = typer.Option


@as_command
def convert(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="A file, two parallel files, a folder with seq.in, or a name such as `hsk-en-zh`. "
            "Files may be .gz, .xz or .zip (`pairs.zip!fra.txt` names one of many).",
        ),
    ],
    out: Annotated[Path, Option("--out", "-o", help="The file to write: .csv, .tsv or .jsonl.")],
    reader: Annotated[
        str | None,
        Option(
            help="How to read the input: text, tsv, csv, jsonl, moses, hsk, hsk-pairs, columns, conllu, "
            "slots, series, labelled or described. Guessed from suffix and first lines if not given."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE", help="An option of the reader, such as `source=en`; may be given again."
        ),
    ] = None,
    split: Annotated[str, Option(help="Which part of a corpus of the catalogue.")] = "all",
    skip_bad: Annotated[
        bool, Option("--skip-bad", help="Skip and count records that cannot be read, not stop.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Overwrite the output if it exists.")] = False,
    max_length: Annotated[
        int | None, Option(help="Drop pairs with a longer side.", min=1, rich_help_panel=FILTERS)
    ] = None,
    max_ratio: Annotated[
        float | None,
        Option(
            help="Drop pairs whose longer side is more times the shorter.", min=1, rich_help_panel=FILTERS
        ),
    ] = None,
    length: Annotated[
        str, Option(help="What lengths count: words or characters.", rich_help_panel=FILTERS)
    ] = "words",
    drop_empty: Annotated[
        bool, Option("--drop-empty", help="Drop pairs with an empty side.", rich_help_panel=FILTERS)
    ] = False,
    drop_identical: Annotated[
        bool, Option("--drop-identical", help="Drop pairs of equal sides.", rich_help_panel=FILTERS)
    ] = False,
    drop_duplicates: Annotated[
        bool, Option("--drop-duplicates", help="Drop pairs that came before.", rich_help_panel=FILTERS)
    ] = False,
    drop_same_source: Annotated[
        bool,
        Option("--drop-same-source", help="Keep one translation of each source.", rich_help_panel=FILTERS),
    ] = False,
) -> Outcome:
    """Convert a corpus to CSV, TSV or JSON lines, one record a row.

    The columns are source and target of pairs; english, hsk, mandarin and pinyin of the HSK deck; words, tags
    and label of tagged sentences; unique_id, ds and y of series; text of plain lines. CSV starts with their
    names, TSV does not.

    Example: throughtime data convert hsk-en-zh.txt --out hsk.csv

    Example: throughtime data convert train.en train.fr --out train.tsv --max-ratio 2 --drop-duplicates
    """
    from throughtime.data.convert import check_output, write_records
    from throughtime.data.filters import LENGTHS, PairFilters
    from throughtime.errors import unknown

    check_output(out, force)
    if length not in LENGTHS:
        raise unknown("length", length, LENGTHS)
    filters = PairFilters(
        max_length=max_length,
        max_ratio=max_ratio,
        length=LENGTHS[length],
        empty=drop_empty,
        identical=drop_identical,
        duplicates=drop_duplicates,
        same_source=drop_same_source,
    )
    kind, records, bad = _opened(inputs, reader, _pairs_of(option or []), split, skip_bad)
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


def _opened(
    inputs: list[str], reader: str | None, options: dict[str, str], split: str, skip_bad: bool
) -> tuple[str, Iterator[Any], BadRecords]:
    """Kind and records of the input, and where its bad records are counted."""
    if len(inputs) == 1 and not _is_file(Path(inputs[0]).expanduser()):
        from throughtime.data.datasets import open_dataset

        if options:
            raise InputError("--option", f"is for files, and {inputs[0]} is a corpus with options of its own")
        dataset = open_dataset(inputs[0], reader=reader, skip_bad=skip_bad)
        return dataset.kind, dataset.records(split), dataset.bad
    if split != "all":
        raise InputError("--split", "is for corpora of the catalogue; a file is converted whole")
    from throughtime.data.readers import build_reader, reader_for
    from throughtime.data.source import BadRecords

    paths = [Path(name).expanduser() for name in inputs]
    built = build_reader(reader if reader is not None else reader_for(paths).name, options)
    bad = BadRecords(skip_bad)
    return built.kind, built.read(paths, bad), bad


def _is_file(path: Path) -> bool:
    """Whether a reader can take it; a suffix means a file even where there is none, for the better error."""
    if not path_exists(path):
        return bool(path.suffix)
    return not path.is_dir() or (path / "seq.in").exists()


def _pairs_of(options: list[str]) -> dict[str, str]:
    pairs = {}
    for option in options:
        name, mark, value = option.partition("=")
        if not mark:
            raise InputError("--option", f"is {option!r}, expected NAME=VALUE, such as source=en")
        pairs[name] = value
    return pairs


def _outcome(
    out: Path, kind: str, written: int, columns: tuple[str, ...], bad: BadRecords, filters: PairFilters
) -> Outcome:
    if bad.count:
        say(bad.report())
    if filters.active:
        say(filters.report())
    values = {
        "out": str(out),
        "kind": kind,
        "columns": columns,
        "written": written,
        "skipped": bad.count,
        "skipped_reasons": dict(bad.reasons),
        "dropped": filters.dropped,
        "dropped_reasons": dict(filters.counts),
    }
    records = "record" if written == 1 else "records"
    return Outcome(values, [f"wrote {written:,} {records} ({', '.join(columns)}) to {out}"])
