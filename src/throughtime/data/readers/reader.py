"""What a reader is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol

from throughtime.data.source import BadRecords

Kind = Literal["text", "pairs", "tags", "series", "cards", "labelled", "described"]


class Reader(Protocol):
    """Files in, records out. The options of a reader are the arguments of its constructor."""

    name: ClassVar[str]
    kind: ClassVar[Kind]
    columns: ClassVar[tuple[str, ...]]

    def read(self, paths: Sequence[Any], bad: BadRecords) -> Iterator[Any]:
        """Yield the records in the files' order; a bad one goes to `bad`, which refuses or counts it."""
        ...
