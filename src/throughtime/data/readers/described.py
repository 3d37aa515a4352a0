"""Texts with a vector of numbers each, in JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.data.readers.labelled import TEXT, json_objects, text_of
from throughtime.data.readers.reader import Kind
from throughtime.data.records import Described
from throughtime.data.source import BadRecords
from throughtime.errors import InputError

VECTOR = "vector"
LARGEST = 1e30


class DescribedText:
    """JSON lines such as {"vector": [0.1, -2], "text": "a cold wet day"}; all vectors have one length."""

    name: ClassVar[str] = "described"
    kind: ClassVar[Kind] = "described"
    columns: ClassVar[tuple[str, ...]] = Described._fields

    def __init__(self, text: str = TEXT, vector: str = VECTOR) -> None:
        self.text, self.vector = text, vector

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Described]:
        """Yield one `Described` for each line of each file."""
        width = 0
        for path in paths:
            for number, fields in json_objects(path, bad):
                try:
                    record = Described(text_of(fields, self.text), vector_of(fields, self.vector, width))
                except ValueError as fault:
                    bad.found(InputError(str(path), str(fault), line=number))
                else:
                    width = width or len(record.vector)
                    yield record


def vector_of(fields: dict[str, Any], name: str, width: int) -> tuple[float, ...]:
    """The numbers in a field, as many as `width` where that is not 0."""
    numbers = fields.get(name)
    good = isinstance(numbers, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < LARGEST
        for number in numbers
    )
    if not good or not numbers:
        raise ValueError(f"has no field {name!r} with a list of finite numbers")
    if width and len(numbers) != width:
        raise ValueError(f"has {len(numbers)} numbers in {name!r}, the first line has {width}")
    return tuple(float(number) for number in numbers)
