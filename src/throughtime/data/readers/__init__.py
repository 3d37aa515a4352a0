"""Readers: files to records. A reader is one class in one file and one line in `READERS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from throughtime.data.readers.columns import ColumnTags
from throughtime.data.readers.conllu import ConlluTags
from throughtime.data.readers.csv_pairs import CsvPairs
from throughtime.data.readers.described import DescribedText
from throughtime.data.readers.guess import guess_reader
from throughtime.data.readers.hsk import HskCards, HskPairs
from throughtime.data.readers.jsonl import JsonlPairs
from throughtime.data.readers.labelled import LabelledText
from throughtime.data.readers.moses import MosesPairs
from throughtime.data.readers.options import read_options
from throughtime.data.readers.plain import PlainText
from throughtime.data.readers.reader import Kind, Reader
from throughtime.data.readers.series import Series, SeriesTable, read_series
from throughtime.data.readers.slots import SlotFiles
from throughtime.data.readers.tsv import TsvPairs
from throughtime.errors import unknown

__all__ = ["READERS", "Kind", "Reader", "Series", "build_reader", "read_series", "reader_for"]

READERS: dict[str, type[Reader]] = {
    PlainText.name: PlainText,
    TsvPairs.name: TsvPairs,
    CsvPairs.name: CsvPairs,
    JsonlPairs.name: JsonlPairs,
    MosesPairs.name: MosesPairs,
    HskCards.name: HskCards,
    HskPairs.name: HskPairs,
    ColumnTags.name: ColumnTags,
    ConlluTags.name: ConlluTags,
    SlotFiles.name: SlotFiles,
    SeriesTable.name: SeriesTable,
    LabelledText.name: LabelledText,
    DescribedText.name: DescribedText,
}


def build_reader(name: str, options: Mapping[str, object] | None = None) -> Reader:
    """The reader of this name; options given as text, as on a command line, are read as their types say.

    >>> build_reader("tsv", {"source": "1", "target": "0"}).source
    1
    """
    if name not in READERS:
        raise unknown("reader", name, READERS)
    return read_options(READERS[name], options or {})


def reader_for(paths: Sequence[Path | str]) -> Reader:
    """The reader, with its default options, that the files' suffixes and first lines suggest.

    >>> reader_for(["train.en", "train.fr"]).name
    'moses'
    """
    return build_reader(guess_reader(paths).name)
