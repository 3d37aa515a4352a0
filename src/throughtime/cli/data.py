"""`throughtime data`: list corpora, show one and download it, and preview files as tasks read them."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.output import BOLD, Outcome, as_command, build_table, download_bars
from throughtime.cli.usage import Command, Group
from throughtime.errors import ThroughtimeError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from throughtime.data.catalogue import Corpus, CorpusFile, CorpusPart
    from throughtime.data.dataset import Dataset


data_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="List, show and download corpora, and convert files of your own."
)

Name = Annotated[str, typer.Argument(metavar="NAME")]
SAMPLES = 3
FACTS = ("title", "description", "where", "licence", "citation", "home", "preparation")
"""What is known about a corpus."""


@data_app.command("list", cls=Command)
@as_command
def list_corpora() -> Outcome:
    """List the corpora of the catalogue, and whether each is on this machine.

    found: in the folder named by THROUGHTIME_DATA. cache: downloaded before. fetchable: `data fetch NAME`
    downloads it. missing: has to be put in place by hand; `data show NAME` says how.

    [bold]Example[/bold]

      throughtime data list
    """
    from throughtime.data.catalogue import find, list_files, names, whereabouts

    table = build_table("name", "kind", "size", "licence", "where", **BOLD)
    table.columns[0].no_wrap = True
    rows = []
    for name in names():
        corpus, files = find(name).corpus, list_files(name)
        kind, size, where = find(name).part.kind, sum(file.size for file in files), whereabouts(corpus, files)
        facts = {"title": corpus.title, "kind": kind, "bytes": size, "licence": corpus.licence}
        rows.append({"name": name, **facts, "where": where})
        table.add_row(name, kind, _size(size), corpus.licence, where)
    return Outcome({"corpora": rows}, [table])


@data_app.command(cls=Command)
@as_command
def show(name: Name) -> Outcome:
    """Show a corpus: its splits, files and checksums, licence and citation, and first records.

    Files of your own are shown as `train` reads them.

    [bold]Examples[/bold]

      throughtime data show multi30k/tok

      throughtime data show train.en,train.fr
    """
    from throughtime.data.catalogue import corpus as named
    from throughtime.data.catalogue import find, list_files, whereabouts
    from throughtime.data.datasets import is_path, open_dataset

    if is_path(name):
        dataset = open_dataset(name)
        part = _part(dataset.name, dataset, dataset.reader.name, dataset.stored)
        shown: dict[str, Any] = {
            "name": name,
            "parts": [part],
            "files": [],
            "sample": _read(dataset, SAMPLES),
        }
        return Outcome(shown, _render(shown))
    corpus = named(name)
    several = name == corpus.name and name not in corpus.names
    parts = list(corpus.parts) if several else [find(name).part]
    values = {
        "name": name,
        **{fact: getattr(corpus, fact, None) or None for fact in FACTS},
        "where": whereabouts(corpus, list_files(name)),
        "parts": [_part(corpus.get_part_name(part), part, part.reader, part.splits) for part in parts],
        "files": [_file(corpus, file) for file in list_files(name)],
        "sample": _sample(corpus, parts[0]),
    }
    return Outcome(values, _render(values))


@data_app.command(cls=Command)
@as_command
def fetch(name: Name, force: bool = False) -> Outcome:
    """Check the SHA-256 of a corpus's files, and fetch those that are missing or wrong.

    Files go to the cache folder (THROUGHTIME_CACHE); an interrupted download continues where it stopped.

    [bold]Example[/bold]

      throughtime data fetch ptb

    Args:
        force: Download again, even if the files are right.
    """
    from throughtime.data import catalogue

    corpus, files = catalogue.corpus(name), catalogue.list_files(name)
    if force:
        for file in files:
            catalogue.cached_path(corpus, file).unlink(missing_ok=True)
    unsound = catalogue.find_unsound(corpus, files)
    fetchable = [file for file in unsound if file.address]
    if fetchable:
        with download_bars() as advance:
            catalogue.fetch(corpus, fetchable, advance)
    if len(fetchable) < len(unsound):
        raise catalogue.missing_error(corpus, [file for file in unsound if not file.address])
    values = {
        "name": name,
        "fetched": [file.path for file in unsound],
        "files": [_file(corpus, file) for file in files],
    }
    done = f"{len(unsound)} fetched" if unsound else "nothing to fetch"
    if not files:
        return Outcome(values, [f"{name}: is part of the package; nothing to fetch."])
    count = "its file is" if len(files) == 1 else f"all {len(files)} files are"
    return Outcome(values, [f"{name}: {count} there, SHA-256 verified; {done}."])


def _part(
    name: str, data: CorpusPart | Dataset, reader: str, splits: Mapping[str, Iterable[object]]
) -> dict[str, Any]:
    return {
        "name": name,
        "reader": reader,
        **{key: getattr(data, key) for key in ("kind", "layout", "tokens", "normaliser")},
        "languages": [*filter(None, data.languages)],
        "splits": {split: [*map(str, files)] for split, files in splits.items()},
    }


def _file(corpus: Corpus, file: CorpusFile) -> dict[str, Any]:
    from throughtime.data.catalogue import locate

    path = locate(corpus, file)
    return {
        "path": file.path,
        "bytes": file.size,
        "sha256": file.sha256,
        "address": file.address or None,
        "place": None if path is None else str(path),
    }


def _sample(corpus: Corpus, part: CorpusPart) -> list[dict[str, Any]]:
    """The first records, if the files are on this machine."""
    from throughtime.data.catalogue import list_files, locate
    from throughtime.data.datasets import open_dataset

    name = corpus.get_part_name(part)
    if not all(locate(corpus, file) for file in list_files(name)):
        return []
    return _read(open_dataset(name, download=False), SAMPLES)


def _read(dataset: Dataset, count: int) -> list[dict[str, Any]]:
    records = itertools.islice(dataset.records(), count)
    if dataset.kind == "vectors":
        names = ("name", "steps", "first", "labels")
        shown = (
            (each.name, len(each.values), each.values[0].tolist(), [*dict.fromkeys(each.labels)])
            for each in records
        )
        return [dict(zip(names, row, strict=True)) for row in shown]
    return [record._asdict() for record in records]


def _render(values: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    known = [(Text(fact, "bold"), values[fact]) for fact in FACTS if values.get(fact)]
    facts = build_table("", "", rows=known, show_header=False, **BOLD)
    parts = build_table("name", "kind", "layout", "tokens", "languages", "splits", **BOLD)
    for part in values["parts"]:
        cells = (part[key] for key in ("name", "kind", "layout", "tokens"))
        splits = ", ".join(part["splits"]).replace("all", "train, valid, test (90, 5, 5 %)")
        parts.add_row(*cells, " ".join(part["languages"]), splits)
    shown: list[RenderableType] = [facts, "", parts] if facts.row_count else [parts]
    for file in values["files"]:
        where = file["place"] or file["address"] or "missing"
        title = Text.assemble((file["path"], "bold"), f", {_size(file['bytes'])}, {where}")
        shown += ["", title, f"  SHA-256 {file['sha256']}"]
    if values["sample"]:
        shown += ["", Text("first records", style="bold")]
        shown += [Text(format_record(record)) for record in values["sample"]]
    return shown


def format_record(record: Mapping[str, Any]) -> str:
    """Return the fields of a record in one line, without the label of a sentence that has none.

    >>> format_record({"words": ("a", "day"), "tags": ("DET", "NOUN"), "label": ""})
    'a day | DET NOUN'
    """
    fields = [value for name, value in record.items() if value or name != "label"]
    cells = (" ".join(map(str, field)) if isinstance(field, tuple | list) else str(field) for field in fields)
    return " | ".join(cells)


def _size(count: int) -> str:
    """Bytes as people read them.

    >>> _size(0), _size(2_180), _size(11_669_748)
    ('-', '2.2 kB', '11.7 MB')
    """
    from rich.filesize import decimal

    return decimal(count) if count else "-"


RECORDS = 5


@as_command
def preview(
    data: Annotated[str, typer.Argument(metavar="DATA")],
    date_format: str | None = None,
    skip_bad: bool = False,
) -> Outcome:
    """Show five records of any file as each task would read it, or why a task cannot.

    [bold]Example[/bold]

      throughtime data preview pairs.tsv

    Args:
        data: A file, two parallel files, a folder or a corpus.
    """
    from rich.text import Text

    from throughtime.tasks import TASKS

    tasks: dict[str, list[str]] = {}
    for name, task in TASKS.available().items():
        tasks.setdefault(task.data.replace("texts", "text"), []).append(name)
    values: list[dict[str, Any]] = []
    shown: list[RenderableType] = []
    for kind, names in tasks.items():
        options = {"date_format": date_format if kind == "series" else None, "skip_bad": skip_bad}
        reading = {"tasks": names, **_preview(data, None if kind == "text" else kind, options)}
        values.append(reading)
        shown += [Text(f"train {', '.join(names)}", style="bold"), Text(f"  {reading['read']}")]
        shown += [Text(f"  {format_record(record)}") for record in reading["records"]]
    return Outcome({"data": data, "readings": values}, shown)


def _preview(data: str, kind: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """What was read as this kind of data and the first records, or why it cannot be.

    If columns have to be chosen, those that may be meant are read.
    """
    from throughtime.data.datasets import describe_data, open_dataset

    try:
        dataset = open_dataset(data, kind=kind, **options)
        alike = (kind, *ALIKE.get(kind or "text", ()))
        if (kind is not None or dataset.kind == "vectors") and dataset.kind not in alike:
            return {"read": f"holds {dataset.kind} data, which this task cannot read", "records": []}
        records = _read(dataset, RECORDS)
        if "condition" in dataset.columns:  # which comes first in the heading too
            records = [dict(reversed(record.items())) for record in records]
        return {"read": describe_data(dataset), "records": records}
    except ThroughtimeError as error:
        choices = getattr(error, "choices", {})
        again = _preview(data, kind, options | choices) if choices.keys() - options.keys() else {}
        if again.get("records"):
            words = shlex.join(word for role, name in choices.items() for word in (f"--{role}", str(name)))
            return {**again, "read": f"with {words}: {again['read']}"}
        return {"read": str(error), "records": []}


ALIKE = {"pairs": ("cards",), "labelled": ("pairs", "tags", "vectors"), "tags": ("vectors",)}
ALIKE["described"] = ("labelled", "pairs", "tags")
"""Other kinds of data that a task can read."""
