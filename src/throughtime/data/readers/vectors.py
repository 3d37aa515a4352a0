"""Sequences of vectors in tables with a row for each step, and in files of arrays."""

from __future__ import annotations

import zipfile
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from throughtime.data.readers.columns import choose_columns, find_usual
from throughtime.data.readers.dates import TIME_NAMES
from throughtime.data.readers.layout import MISSING, like_number
from throughtime.data.readers.series import SeriesTable
from throughtime.data.readers.tables import SHOWN, DataTable
from throughtime.data.records import Kind
from throughtime.data.source import BadRecords, MemoryFile, Place, text_suffix
from throughtime.data.vectors import VectorSequence, divide_arrays
from throughtime.errors import InputError, first_line
from throughtime.files import limit_unpacked
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset

STEPS = TIME_NAMES | {"t", "step", "frame"}
"""Usual names of the column that orders the rows of a sequence."""


class VectorTable(SeriesTable):
    """Sequences of vectors: a table with a row for each step, or arrays X, y and lengths in a file .npz.

    The column `identifier` names the sequence of a row and `label` its label: where that is the same in all
    rows of a sequence, it is that of the whole. Rows are sorted by the column `time`, if there is one, else
    they stay in their order. `values` are the columns of numbers, by default all others that hold numbers;
    an empty cell is a gap. Without `labelled` there is no column of labels.
    """

    name: ClassVar[str] = "vectors"
    kind: ClassVar[Kind] = "vectors"
    suffixes: ClassVar[tuple[str, ...]] = (".npz",)

    def __init__(
        self,
        identifier: str | None = None,
        time: str | None = None,
        label: str | None = None,
        values: tuple[str, ...] = (),
        date_format: str | None = None,
        labelled: bool = True,
    ) -> None:
        super().__init__(time, identifier, tuple(values), missing=True, date_format=date_format)
        self.label, self.labelled = label, labelled
        self._known: dict[str, Sequence[Any]] = {}

    def read(self, paths: Sequence[Place], bad: BadRecords) -> Iterator[Any]:
        """Yield the sequences of each file, in the order in which they begin."""
        for path in paths:
            if str(path) not in self._known:
                self._known[str(path)] = self._read_all(path)
            yield from bad.keep(self._known[str(path)])

    def names(self, path: Place) -> dict[str, Any]:
        """Return the columns of a table by what they hold; `features` are several."""
        if not _is_table(path):
            return {}
        table = DataTable(path)
        given = {"id": self.identifier, "time": self.time, "label": self.label}
        chosen = choose_columns(table, "vectors" if self.labelled else "sequences", given, True).names
        usual = [name for name in table.first if name.lower() in STEPS and name not in chosen.values()]
        if self.time is None and usual:
            chosen = {**chosen, "time": usual[0]}
        features = self.values or find_numbers(table, {*chosen.values()})
        if not features:
            raise InputError(str(path), "has no column of numbers beside those of id, time and label", line=1)
        return {**chosen, "features": features}

    def _read_all(self, path: Place) -> Sequence[Any]:
        if isinstance(path, MemoryFile):
            return self._read_table(path) if isinstance(path.items[0], list) else path.items
        if _is_table(path):
            return self._read_table(path)
        try:
            with path.open("rb") as file, zipfile.ZipFile(file) as packed:
                limit_unpacked(file, path, sum(entry.file_size for entry in packed.infolist()))
            with np.load(path, allow_pickle=False) as arrays:
                return divide_arrays(dict(arrays), str(path))
        except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(str(path), f"cannot be read as arrays of numpy: {first_line(error)}") from None

    def _read_table(self, path: Place) -> list[Any]:
        """Return the sequences of a table, after the errors of the rows that cannot be read."""
        columns = self.names(path)
        features, time, label = columns["features"], columns.get("time"), columns.get("label")
        table = DataTable(path)
        first = table.first
        # Times such as 0.02 are numbers, and others dates, of which a table of series knows the forms.
        clock = time is not None and find_numbers(table, {*first} - {time}) == (time,)
        values = (*features, time) if clock else features
        series = SeriesTable(
            None if clock else time, columns["id"], values, missing=True, date_format=self.date_format
        )
        layout, rows = series.open_rows(path)
        items: list[Any] = []
        steps: dict[str, tuple[array[float], list[Any], list[str]]] = {}
        for number, cells in rows:
            try:
                if isinstance(cells, InputError):
                    raise cells
                row = layout.row(number, cells)
                tag = "" if label is None else cells[first.index(label)].strip()
                if label is not None and tag.lower() in MISSING:
                    raise InputError(str(path), f"has no label in column {label!r}", line=number)
            except InputError as error:
                items.append(error)
                continue
            numbers, moments, tags = steps.setdefault(row.unique_id, (array("d"), [], []))
            numbers.extend(row.values[: len(features)])
            tags.append(tag)
            if time is not None:
                moments.append(row.values[-1] if clock else row.moment)
        for name, (numbers, moments, tags) in steps.items():
            order = sorted(range(len(moments)), key=moments.__getitem__) or range(len(tags))
            if len({*moments}) < len(moments):
                items.append(InputError(str(path), f"has two rows of the sequence {name!r} of the same time"))
                continue
            vectors = np.array(numbers).reshape(len(tags), len(features))[order]
            labels = [] if label is None else [tags[step] for step in order]
            items.append(VectorSequence.of(vectors, labels, name, features))
        return items


def _is_table(path: Place) -> bool:
    return isinstance(path, MemoryFile) or text_suffix(path) != ".npz"


def find_numbers(table: DataTable, others: set[str]) -> tuple[str, ...]:
    """Return the columns beside `others` of which most cells hold numbers."""
    rows = [row for row in table.sample[1:] if len(row) == len(table.first)]
    columns = {name: [str(row[each]).strip() for row in rows] for each, name in enumerate(table.first)}
    held = {name: [cell for cell in cells if cell.lower() not in MISSING] for name, cells in columns.items()}
    return tuple(
        name
        for name, cells in held.items()
        if name not in others and cells and 2 * sum(map(like_number, cells)) > len(cells)
    )


def holds_vectors(table: DataTable) -> bool:
    """Return whether a table has usual names of sequences, which recur, and of labels, and else numbers."""
    names = {role: find_usual(table.first, role) for role in ("id", "label")}
    if None in names.values() or any(find_usual(table.first, role) for role in ("text", "words")):
        return False
    others = {str(name) for name in names.values()} | {name for name in table.first if name.lower() in STEPS}
    rows = [row for row in table.sample[1:] if len(row) == len(table.first)]
    recurs = len({str(row[table.first.index(str(names["id"]))]) for row in rows}) < len(rows)
    return recurs and {*find_numbers(table, others)} == {*table.first} - others != set()


def describe_vectors(dataset: Dataset) -> str:
    """Describe sequences of vectors: their number and size, what their labels are, and gaps."""
    records = [record for split in dataset.stored for record in dataset.records(split)]
    sizes = [len(record.values) for record in records] or [0]
    features = records[0].features if records else ()
    shown = ", ".join(features[:SHOWN]) + (", ..." if len(features) > SHOWN else "")
    whole = all(len({*record.labels}) < 2 for record in records)
    read = ["one label for each sequence" if whole else "a label for each step"] * bool(records[0].labels)
    read += [f"{role} in column {name}" for role, name in dataset.columns.items() if role != "features"]
    if gaps := sum(int(np.isnan(record.values).sum()) for record in records):
        share = gaps / (sum(sizes) * len(features))
        read.append(f"{gaps:,} numbers are missing and interpolated ({share:.1%})")
    steps = f"{min(sizes):,} to {max(sizes):,} steps of {format_count(len(features), 'number')} ({shown})"
    return ", ".join([f"{format_count(len(records), 'sequence')} of {steps}", *read])
