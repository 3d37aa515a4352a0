"""Where records lie: in files that a reader understands, or in the package itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from throughtime.data.records import Line, Observation
from throughtime.data.source import BadRecords, Place, name_items
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.corpora import Part
    from throughtime.data.memory import MemoryReader
    from throughtime.data.readers import Reader, Series


class Store(Protocol):
    """Records by split, in the order and direction they are stored in."""

    kind: str
    files: Mapping[str, tuple[Place, ...]]
    signature: str

    def records(self, split: str, bad: BadRecords) -> Iterator[Any]:
        """The records of a split that is a key of `files`."""

    def series(self, split: str, bad: BadRecords) -> list[Series]:
        """The series of a split that is a key of `files`, whole."""


class FileStore:
    """Files that one reader understands."""

    def __init__(self, reader: Reader | MemoryReader, files: Mapping[str, tuple[Place, ...]]) -> None:
        self.reader, self.files, self.kind = reader, files, str(reader.kind)
        self.signature = f"{reader.name} {sorted(vars(reader).items())}"

    def with_date_format(self, date_format: str) -> FileStore:
        """The same files, read as series with dates in this format."""
        from throughtime.data.readers.series import SeriesTable

        if not isinstance(self.reader, SeriesTable):
            raise InputError("date_format", f"is for tables of series, not for {self.kind}; leave it out")
        chosen, old = self.reader.chosen, self.reader
        options = (chosen.time, chosen.identifier, chosen.values, old.delimiter, old.missing)
        return FileStore(SeriesTable(*options, date_format), self.files)

    def records(self, split: str, bad: BadRecords) -> Iterator[Any]:
        """The records that the reader finds."""
        try:
            yield from self.reader.read(self.files[split], bad)
        except InputError as error:
            raise name_items(error, self.files[split][0]) from None

    def series(self, split: str, bad: BadRecords) -> list[Series]:
        """The series that the reader finds."""
        from throughtime.data.readers.series import SeriesTable, read_series

        table = self.reader if isinstance(self.reader, SeriesTable) else None
        found: list[Series] = []
        for path in self.files[split]:
            try:
                found += read_series(path, table, bad)
            except InputError as error:
                raise name_items(error, path) from None
        return found


class EmbeddedStore:
    """What the package makes itself; there are splits, but no files in them."""

    def __init__(self, part: Part) -> None:
        self.name, self.kind = part.name, part.kind
        self.files: Mapping[str, tuple[Place, ...]] = dict.fromkeys(part.splits, ())
        self.signature = f"embedded {part.name}"

    def records(self, split: str, bad: BadRecords) -> Iterator[Any]:
        """Pairs, lines or observations, as the corpus is."""
        from throughtime.data import embedded

        if self.kind == "pairs":
            return iter(embedded.pairs(self.name, split))
        if self.kind == "series":
            values = embedded.series(self.name)
            return (Observation(self.name, str(time), float(y)) for time, y in enumerate(values, start=1))
        return map(Line, embedded.english(split))

    def series(self, split: str, bad: BadRecords) -> list[Series]:
        """The one series of this name."""
        import numpy as np

        from throughtime.data import embedded
        from throughtime.data.readers import Series

        values = embedded.series(self.name)
        return [Series(self.name, np.arange(1, len(values) + 1), ("y",), values[:, None])]
