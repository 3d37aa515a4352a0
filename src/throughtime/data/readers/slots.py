"""Slot filling: words, their slots and the sentence's intent in three parallel files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.moses import parallel_lines
from throughtime.data.readers.reader import Kind
from throughtime.data.records import Tagged
from throughtime.data.source import BadRecords
from throughtime.errors import InputError

FILES = ("seq.in", "seq.out", "label")


class SlotFiles:
    """Reads a folder with `seq.in`, `seq.out` and `label`, or these three files in this order.

    Words and slots are separated by any number of spaces, also at the ends of a line.
    """

    name: ClassVar[str] = "slots"
    kind: ClassVar[Kind] = "tags"
    columns: ClassVar[tuple[str, ...]] = Tagged._fields

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Tagged]:
        """Yield one `Tagged` for each line of the three files, folder after folder."""
        if len(paths) == len(FILES) and not any(path.is_dir() for path in paths):
            triples = [tuple(paths)]
        else:
            triples = [tuple(path / name for name in FILES) for path in paths]
            if not_folders := [path for path in paths if not path.is_dir()]:
                problem = "is no folder; give a folder with seq.in, seq.out and label, or these three files"
                raise InputError(str(not_folders[0]), problem)
        for triple in triples:
            yield from _sentences(triple, bad)


def _sentences(paths: tuple[Path, ...], bad: BadRecords) -> Iterator[Tagged]:
    for number, (words_line, tags_line, label_line) in parallel_lines(paths, bad):
        words, tags = _parted(words_line), _parted(tags_line)
        label = label_line.strip()
        if not words:
            bad.found(InputError(str(paths[0]), "has no words", line=number))
        elif len(words) != len(tags):
            problem = f"does not match, {len(words)} words here but {len(tags)} slots in {paths[1].name}"
            bad.found(InputError(str(paths[0]), problem, line=number))
        elif not label:
            bad.found(InputError(str(paths[2]), "has no label", line=number))
        else:
            yield Tagged(words, tags, label)


def _parted(line: str) -> tuple[str, ...]:
    # Not str.split(): a no-break space is part of a word.
    return tuple(part for part in line.replace("\t", " ").split(" ") if part)
