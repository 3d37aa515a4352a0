"""What an export is made of: graphs, what a runner must know besides, and cases to check it by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from throughtime.export.graph import Array, Graph


class Case(NamedTuple):
    """Inputs of one graph, and what the torch model makes of them."""

    part: str
    what: str  # the shapes, in words
    given: Mapping[str, Array]
    expected: Mapping[str, Array]


@dataclass(frozen=True)
class Exported:
    """A model taken apart. Building the graphs costs little, so they are built as often as needed."""

    graphs: Callable[[bool], dict[str, Graph]]
    """The graph of each part by its name; with True, weights in int8."""
    settings: dict[str, Any]
    """What a runner must know that is in no file yet."""
    save: Callable[[Path], None]
    """Writes vocabularies and tokenizers into a folder."""
    cases: Callable[[], Iterable[Case]]
    usage: str
    """The line of Python that shows the runner at work."""


def named(stem: str, values: Iterable[Any]) -> dict[str, Any]:
    """Values under numbered names.

    >>> named("state", ["h", "c"])
    {'state_0': 'h', 'state_1': 'c'}
    """
    return {f"{stem}_{number}": value for number, value in enumerate(values)}
