"""Say in one line what was read: how many records, and from which columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from throughtime.data.readers.panel import Roles, choose_series
from throughtime.data.readers.series import SeriesTable
from throughtime.data.readers.tabular import TableReader
from throughtime.data.source import BadRecords
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset

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

    >>> from throughtime.data.datasets import open_dataset
    >>> describe_data(open_dataset({"Deutsch": ["Hallo."], "English": ["Hello."]}, kind="pairs"))
    'data: 1 pair, column Deutsch -> column English'
    """
    from throughtime.data.memory import MEMORY

    name = "data" if dataset.name.startswith(MEMORY) else dataset.name
    if dataset.kind == "series":
        return f"{name}: {_describe_series(dataset, roles or Roles())}"
    count = sum(
        1 for part in dataset.stored for _ in dataset.reader.read(dataset.stored[part], _quiet(dataset))
    )
    columns = [f"column {column}" for column in dataset.columns.values()]
    if not columns and isinstance(dataset.reader, TableReader):
        columns = [f"column {place}" for place in dataset.reader.open(dataset.tables[0])[1].places]
    languages = " -> ".join(dataset.languages)
    read = " -> ".join(columns[:2]) + "".join(f", {column}" for column in columns[2:])
    if languages and [*dataset.columns.values()] != [*dataset.languages]:
        read = f"{read} ({languages})" if read else languages
    return ", ".join([f"{name}: {format_count(count, UNITS[dataset.kind])}", *([read] if read else [])])


def _describe_series(dataset: Dataset, roles: Roles) -> str:
    if not isinstance(dataset.reader, SeriesTable):
        return "one series"
    roles = roles._replace(target=roles.target or dataset.reader.values)
    rows, names = 0, set[str]()
    for table in dataset.tables:
        reader, layout, target, _ = choose_series(table, roles, dataset.reader)
        for _, row in reader.any_rows(table, _quiet(dataset)):
            rows += 1
            names.add(row.unique_id)
    columns = {"series": layout.identifier, "times": layout.time}
    read = [f"{what} in column {layout.names[each]}" for what, each in columns.items() if each is not None]
    read.append(f"values in column{'s' * (len(target) > 1)} {' and '.join(target)}")
    read += [f"known: {one}" for one in roles.known] + [f"past: {one}" for one in roles.past]
    return ", ".join(
        [f"{format_count(rows, 'row')} of {len(names):,} series", *(read if layout.header else ())]
    )


def _quiet(dataset: Dataset) -> BadRecords:
    return BadRecords(dataset.bad.skip)
