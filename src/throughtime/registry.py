"""Tables of things that have a name: cells, tasks, tokenizers, search strategies and so on.

A table lists its own entries as `module:attribute`, imported when they are first used. Another package adds
to a table with an entry point of the table's group, in its pyproject.toml:

    [project.entry-points."throughtime.cells"]
    leaky = "my_package.leaky:LeakyCell"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Generic, TypeVar, cast

from throughtime.errors import unknown

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The entries of one kind by name; `group` is the entry-point group of other packages.

    >>> colours = Registry[str]("alphabet", "example.alphabets", {"latin": "string:ascii_lowercase"})
    >>> colours["latin"][:3], list(colours), "greek" in colours
    ('abc', ['latin'], False)
    >>> colours["latn"]
    Traceback (most recent call last):
    throughtime.errors.InputError: unknown alphabet 'latn'; did you mean 'latin'? Known: latin.
    """

    def __init__(self, kind: str, group: str, own: Mapping[str, str]) -> None:
        self.kind, self.group, self._own = kind, group, dict(own)
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def _places(self) -> dict[str, str]:
        """Where each entry is; a name of our own cannot be taken by another package."""
        from importlib.metadata import entry_points  # slow to import, and not needed for our own entries

        return {point.name: point.value for point in entry_points(group=self.group)} | self._own

    def __getitem__(self, name: str) -> Entry:
        """Import and return an entry; an unknown name raises an error that offers the nearest one."""
        if name not in self._loaded:
            place = self._own.get(name) or self._places.get(name)
            if place is None:
                raise unknown(self.kind, name, self)
            module, _, attribute = place.partition(":")
            self._loaded[name] = cast(Entry, getattr(import_module(module), attribute))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is an entry of this name; nothing is imported."""
        return name in self._own or name in self._places

    def __iter__(self) -> Iterator[str]:
        """The names, our own first."""
        return iter(dict.fromkeys([*self._own, *self._places]))

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._places)
