"""Open data: a corpus of the catalogue, the user's own files, or Python objects; say what was read."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from throughtime.data import catalogue, embedded
from throughtime.data.catalogue import CORPORA
from throughtime.data.dataset import SIDES, Dataset, find_file_language, find_opus_sides, folder_splits
from throughtime.data.memory import KINDS, MEMORY, MemoryReader, open_objects
from throughtime.data.readers import READERS, Reader, build_reader, guess_reader, takes
from throughtime.data.readers.columns import ColumnRoles, kind_of, languages_of
from throughtime.data.readers.panel import Roles, choose_series
from throughtime.data.readers.series import SeriesTable
from throughtime.data.readers.tabular import TableReader
from throughtime.data.readers.vectors import VectorTable, describe_vectors
from throughtime.data.source import (
    BadRecords,
    MemoryFile,
    Place,
    file_of,
    list_members,
    nearest_file,
    text_suffix,
)
from throughtime.errors import InputError, unknown
from throughtime.files import path_exists
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.data.readers.lines import ColumnTags

__all__ = ["Dataset", "open_dataset"]

LAYOUTS = ("lines", "stream")
OPTIONS = {"series": {"id": "identifier", "target": "values"}, "columns": {"words": "word", "tags": "tag"}}
OPTIONS["vectors"] = {"id": "identifier", "tags": "label", "features": "values"}
"""The options of a reader, by role, where they have names of their own."""
DataLike = str | os.PathLike[str] | Dataset | Iterable[Any]
"""Data as `open_dataset` takes them."""


def open_dataset(
    data: DataLike,
    *,
    kind: str | None = None,
    reader: str | None = None,
    layout: str | None = None,
    date_format: str | None = None,
    skip_bad: bool = False,
    strict: bool = True,
    download: bool = True,
    progress: catalogue.FileProgress | None = None,
    **columns: Unpack[ColumnRoles],
) -> Dataset:
    """Open data: the name of a corpus in the catalogue, a path, or Python objects.

    A path is a file, two parallel files joined by a comma, or a folder of files named after their splits,
    such as train.tsv, or train.en and train.fr, in alphabetical order. A corpus of the catalogue takes
    precedence over a file of the same name, unless the name has a separator or a suffix.

    Python objects are a list of texts, of pairs (source, target), of (text, label), of (words, tags) or of
    (condition, text), where a condition is a label or a list of numbers; a pandas or polars DataFrame or a
    list of dicts, with columns named as in files (text and label, source and target, or unique_id, ds and y);
    or a dict of splits, `{"train": [...], "valid": [...], "test": [...]}`. Without splits, they are split as
    files are. A `Dataset` is returned unchanged.

    Args:
        data: What to open.
        kind: What the records are, if that is not clear: text, pairs, labelled, described (a condition and a
            text), tags or series. A list of two strings each, for example, may be pairs or labelled texts.
        reader: The name of a reader, instead of the one that fits the files best.
        layout: `lines` (each line is a text) or `stream` (all lines are one text).
        date_format: The format of the dates of series, as in `strptime`.
        skip_bad: Skip records that cannot be read, instead of raising an error.
        strict: Raise an error for columns that were chosen but that the data do not have; otherwise such
            choices are ignored, for example if a model reads other data than those of its training.
        download: Whether missing files may be downloaded.
        progress: Called during downloads.
        columns: The columns of a table by what they hold: `source` and `target`, `text` and `label`, `words`
            and `tags`, `condition` and `text`, or `id` and `time` of series; by default, they are found by
            their usual names. In other data, source and target are the languages of pairs.

    >>> dataset = open_dataset("embedded/en-fr", source="fr")
    >>> dataset.kind, dataset.languages, dataset.splits
    ('pairs', ('fr', 'en'), ('train', 'valid', 'test'))
    >>> open_dataset([("a fine day", "good"), ("rain again", "bad")] * 50, kind="labelled")
    Dataset('<memory 0e1773cb>': 100 labelled; train, valid, test)
    """
    chosen, bad = _check_choices(kind, columns), BadRecords(skip_bad)
    if kind in ("labelled", "tags") and "id" in chosen:
        kind = "vectors"
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, str | os.PathLike):
        if reader is not None:
            raise InputError("reader", "is for data in files; leave it out")
        dataset = open_objects(data, kind, chosen, bad, strict)
    elif (name := str(data)).startswith(MEMORY):
        problem = f"was given as Python objects in training ({name}), which a run does not store"
        raise InputError("data", f"{problem}; pass the data")
    elif is_path(name):
        reader = "series" if date_format is not None and reader is None else reader
        dataset = _open_path(name, reader, kind or kind_of(chosen), chosen, bad, strict)
    else:
        require = partial(catalogue.require, fetch_missing=download, progress=progress)
        dataset = _open_catalogued(name, reader, chosen, bad, strict, require)
    if date_format is not None:
        dataset.read_dates_as(date_format)
    if layout is not None:
        if layout not in LAYOUTS:
            raise unknown("layout", layout, LAYOUTS)
        dataset.layout = layout
    return dataset


def _check_choices(kind: str | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that were chosen; refuse an unknown role or kind of data."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind of data", kind, KINDS)
    chosen = {role: column for role, column in columns.items() if column is not None}
    if unknown_roles := chosen.keys() - ColumnRoles.__annotations__.keys():
        raise unknown("option of open_dataset", min(unknown_roles), ColumnRoles.__annotations__)
    return chosen


def is_path(name: str) -> bool:
    """Whether a name of data stands for files, not for a corpus of the catalogue."""
    path = Path(name)
    like_path = len(path.parts) > 1 or bool(path.suffix) or "," in name or name.startswith("~")
    if all(path_exists(file_of(piece)) for piece in list_files(name)):
        return like_path or name not in CORPORA
    # What looks like a path and not like a corpus gets the error message for paths.
    return like_path and path.parts[0] not in CORPORA


def list_files(name: str) -> list[Path]:
    """Return the file, or the files side by side, that a name stands for; two for a download of OPUS."""
    whole = Path(name).expanduser()
    if not path_exists(whole):
        return [Path(piece).expanduser() for piece in name.split(",")]
    if whole.is_dir():
        return [whole / side for side in find_opus_sides(path.name for path in whole.iterdir())] or [whole]
    return [Path(f"{whole}!{side}") for side in find_opus_sides(list_members(whole))] or [whole]


def _open_catalogued(
    name: str,
    reader: str | None,
    given: Mapping[str, Any],
    bad: BadRecords,
    strict: bool,
    require: Callable[..., Any],
) -> Dataset:
    """Open a corpus of the catalogue, whose files `require` finds or downloads."""
    if name.partition("/")[0] not in CORPORA:
        raise unknown("file or corpus", name, catalogue.names())
    if strict and (others := [role for role in given if role not in SIDES]):
        problem = f"is for tables, and the columns of {name} are known; leave it out"
        raise InputError(others[0], problem)
    corpus, part = catalogue.find(name)
    name = corpus.get_part_name(part)
    languages = _direction(name, part.languages, *map(given.get, SIDES))
    named = {split: part.paths(split, *languages) for split in part.splits}
    wanted = itertools.chain.from_iterable(named.values())
    places = iter(require(corpus, wanted))
    files: dict[str, tuple[Place, ...]]
    if part.reader == "embedded":
        built: Reader | MemoryReader = MemoryReader(part.kind)
        files = {split: (MemoryFile(embedded.records(part.kind, part.name, split)),) for split in part.splits}
    else:
        built = build_reader(reader or part.reader)
        files = {split: tuple(itertools.islice(places, len(paths))) for split, paths in named.items()}
    # Files named by language come in the order asked for; the columns of a single file may need swapping.
    by_language = any("{source}" in path for paths in part.splits.values() for path in paths)
    return Dataset(
        name,
        built,
        files,
        layout=part.layout,
        tokens=part.tokens,
        normaliser=part.normaliser,
        languages=languages,
        reverse=not by_language and languages != part.languages,
        bad=bad,
    )


def _direction(name: str, known: tuple[str, ...], source: str | None, target: str | None) -> tuple[str, ...]:
    """Return source and target language: those asked for, else the first two that the corpus lists.

    >>> known = ("en", "de", "fr")
    >>> _direction("ted", known, None, None), _direction("ted", known, "de", None)
    (('en', 'de'), ('de', 'en'))
    """
    for language in (source, target):
        if language is not None and not known:
            problem = f"does not hold pairs, so it has no language {language!r}; give other data"
            raise InputError(name, problem)
        if language is not None and language not in known:
            raise InputError(name, str(unknown("language", language, known)))
    if source is not None and source == target:
        problem = f"are both {source!r}; choose two languages of {', '.join(known)}"
        raise InputError("source and target", problem)
    first = source or next((language for language in known if language != target), None)
    second = target or next((language for language in known if language != first), None)
    return (first, second) if first is not None and second is not None else ()


def _open_path(
    name: str, reader: str | None, kind: str | None, given: Mapping[str, Any], bad: BadRecords, strict: bool
) -> Dataset:
    paths, sides = list_files(name), tuple(map(given.get, SIDES))
    if absent := [path for path in paths if not path_exists(file_of(path))]:
        hint = nearest_file(absent[0]) or " give a file, a folder, or a name from `throughtime data list`"
        raise InputError(str(absent[0]), f"does not exist;{hint}")
    if len(paths) == 1 and paths[0].is_dir() and not (paths[0] / "seq.in").exists():
        splits = _folder_files(paths[0], *sides)
    else:
        splits = {"all": tuple(_order_by_direction(paths, *sides))}
    files = next(iter(splits.values()))
    by_name = tuple(find_file_language(path.name) or "" for path in files) if len(files) == 2 else ()
    chosen = reader or guess_reader(files, kind)
    if chosen == "hsk" and reader is None and {*SIDES} & given.keys():
        chosen = "hsk-pairs"
    named = chosen != "columns" or text_suffix(files[0]) == ".tsv"
    names = OPTIONS.get(chosen, {}) if named else {}
    taken = takes(READERS[chosen])
    for role in given if strict else ():
        if names.get(role, role) not in (SIDES if chosen == "moses" else taken):
            problem = f"is {given[role]!r}, but {name} is read by the reader {chosen}, which takes no {role}"
            raise InputError(role, f"{problem}; leave it out")
    options = {names.get(role, role): column for role, column in given.items()}
    built = build_reader(chosen, {option: value for option, value in options.items() if option in taken})
    if chosen == "moses" and all(by_name) and strict:
        _direction(name, by_name, *sides)
    if isinstance(built, VectorTable):
        return Dataset(name, built, splits, columns=built.names(files[0]), bad=bad)
    words = chosen == "columns" and bool(names)
    if not (isinstance(built, TableReader) or words):
        sides = sides if built.kind == "pairs" else (None, None)
        return Dataset(name, built, splits, languages=by_name or languages_of({}, *sides), bad=bad)
    table_reader, columns = _choose(built, files[0], strict)
    languages = languages_of(columns, *sides) if built.kind == "pairs" else ()
    return Dataset(name, table_reader, splits, languages=languages, columns=columns, bad=bad)


def _choose(built: Any, file: Place, strict: bool) -> tuple[TableReader | ColumnTags, dict[str, str]]:
    """Return the reader of a table, and the names of its columns; conditions may be labels."""
    try:
        if not isinstance(built, TableReader):
            return built, built.names(file)
        table, choice = built.open(file)
    except InputError:
        if strict or (isinstance(built, TableReader) and not any(built.columns.values())):
            raise
        return _choose(type(built)(), file, strict=True)
    if choice.header and not any(True for _ in itertools.islice(table.rows(), 1, 2)):
        raise InputError(str(file), "has a header but no rows", line=1)
    if built.kind != "described" or any(isinstance(row[choice.places[0]], list) for row in table.sample[1:2]):
        return built, choice.names
    condition, text = choice.names.values() if choice.names else choice.places
    built = build_reader("labelled", {"text": text, "label": condition})
    return built, choice.names


def _order_by_direction(paths: list[Path], source: str | None, target: str | None) -> list[Path]:
    """Return two parallel files, swapped if their suffixes are the languages asked for in reverse."""
    if len(paths) == 2:
        last, first = (find_file_language(path.name) for path in paths)
        if (source is not None and source == first) or (target is not None and target == last):
            return paths[::-1]
    return paths


def _folder_files(folder: Path, source: str | None, target: str | None) -> dict[str, tuple[Path, ...]]:
    """Return the files of each split in a folder: one file, or two in the languages asked for."""
    splits = folder_splits(folder)
    known = tuple(dict.fromkeys(language for files in splits.values() for language in files if language))
    if len(known) > 2 and (source is None or target is None):
        raise InputError(str(folder), f"holds files in {', '.join(known)}; choose source and target")
    pair = _direction(str(folder), known, source, target) if len(known) > 1 else ()
    chosen = {}
    for split, files in splits.items():
        if pair and not set(pair) <= set(files):
            problem = f"lacks a {split} file in {' or '.join(sorted(set(pair) - set(files)))}"
            raise InputError(str(folder), problem)
        chosen[split] = tuple(files[language] for language in pair) if pair else tuple(files.values())
    return chosen


UNITS = {
    "text": "line",
    "pairs": "pair",
    "cards": "card",
    "labelled": "labelled text",
    "described": "described text",
    "tags": "tagged sentence",
}


def describe_data(dataset: Dataset, roles: Roles | None = None) -> str:
    """Describe the records of a data set; `roles` are the columns of its series.

    >>> describe_data(open_dataset({"Deutsch": ["Hallo."], "English": ["Hello."]}, kind="pairs"))
    'data: 1 pair, column Deutsch -> column English'
    """
    name = "data" if dataset.name.startswith(MEMORY) else dataset.name
    if dataset.kind == "series":
        return f"{name}: {_describe_series(dataset, roles or Roles())}"
    if dataset.kind == "vectors":
        return f"{name}: {describe_vectors(dataset)}"
    count = dataset.count_records()
    columns = [f"column {column}" for column in dataset.columns.values()]
    if not columns and isinstance(dataset.reader, TableReader):
        columns = [f"column {number}" for number in dataset.reader.open(dataset.tables[0])[1].places]
    languages = " -> ".join(dataset.languages)
    read = " -> ".join(columns[:2]) + "".join(f", {column}" for column in columns[2:])
    if languages and [*dataset.columns.values()] != [*dataset.languages]:
        read = f"{read} ({languages})" if read else languages
    return ", ".join([f"{name}: {format_count(count, UNITS[dataset.kind])}", *([read] if read else [])])


def _describe_series(dataset: Dataset, roles: Roles) -> str:
    if not isinstance(dataset.reader, SeriesTable):
        return "one series"
    roles = roles._replace(target=roles.target or dataset.reader.values)
    sizes = Counter(dataset.series_sizes)
    for table in dataset.tables:
        reader, layout, target, _ = choose_series(table, roles, dataset.reader)
        if not dataset.series_sizes:
            rows = reader.any_rows(table, BadRecords(dataset.bad.skip))
            sizes.update(row.unique_id for _, row in rows)
    columns = {"series": layout.identifier, "times": layout.time}
    read = [f"{what} in column {layout.names[each]}" for what, each in columns.items() if each is not None]
    read.append(f"values in column{'s' * (len(target) > 1)} {' and '.join(target)}")
    read += [f"known: {column}" for column in roles.known] + [f"past: {column}" for column in roles.past]
    return ", ".join(
        [f"{format_count(sizes.total(), 'row')} of {len(sizes):,} series", *(read if layout.header else ())]
    )
