"""Tables of named things: cells, tasks, tokenizers, search strategies and so on.

A table lists its own entries as `module:attribute`; they are imported when they are first used. Another
package adds to a table with an entry point of the table's group in its pyproject.toml:

    [project.entry-points."throughtime.cells"]
    leaky = "my_package.leaky:LeakyCell"

A script or a notebook adds an entry for the running process: `CELLS.add("leaky", LeakyCell)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from throughtime.errors import InputError, ThroughtimeError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Entry = TypeVar("Entry")
_reported: set[str] = set()


class PluginError(ThroughtimeError):
    """An entry of another package cannot be imported; the message names the package."""


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The entries of one kind by name; `group` is the entry-point group for other packages.

    >>> colours = Registry[str]("alphabet", "example.alphabets", {"latin": "string:ascii_lowercase"})
    >>> colours["latin"][:3], list(colours), "greek" in colours
    ('abc', ['latin'], False)
    >>> colours["latn"]
    Traceback (most recent call last):
    throughtime.errors.InputError: unknown alphabet 'latn'; did you mean 'latin'? Known: latin
    """

    def __init__(self, kind: str, group: str, own: Mapping[str, str]) -> None:
        self.kind, self.group, self._own = kind, group, dict(own)
        self._loaded: dict[str, Entry] = {}
        self._added: dict[str, Entry] = {}

    @property
    def own(self) -> tuple[str, ...]:
        """The names of our own entries."""
        return tuple(self._own)

    @cached_property
    def outside(self) -> dict[str, EntryPoint]:
        """The entries of other packages, not yet imported; none of them can take a name of our own."""
        from importlib.metadata import entry_points  # slow to import, and not needed for our own entries

        return {point.name: point for point in entry_points(group=self.group) if point.name not in self._own}

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry for the running process; the same name again replaces it.

        >>> colours = Registry[str]("alphabet", "example.alphabets", {"latin": "string:ascii_lowercase"})
        >>> colours.add("greek", "αβγ")
        >>> colours["greek"], list(colours)
        ('αβγ', ['latin', 'greek'])
        >>> colours.add("latin", "xyz")
        Traceback (most recent call last):
        throughtime.errors.InputError: name: is 'latin', an alphabet of throughtime; choose another name
        """
        if name in self._own:
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise InputError(
                "name", f"is {name!r}, {article} {self.kind} of throughtime; choose another name"
            )
        self._added[name] = entry

    def __getitem__(self, name: str) -> Entry:
        """Import and return an entry; an unknown name raises an error that offers the nearest one."""
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            self._loaded[name] = self._import(name)
        return self._loaded[name]

    def _import(self, name: str) -> Entry:
        if name in self._own:
            module, _, attribute = self._own[name].partition(":")
            return cast(Entry, getattr(import_module(module), attribute))
        if name not in self.outside:
            self.__dict__.pop("outside", None)  # a package may have been installed since: look again
        if name not in self.outside:
            raise unknown(self.kind, name, self)
        point = self.outside[name]
        try:
            return cast(Entry, point.load())
        except Exception as error:
            package = point.dist.name if point.dist is not None else point.module
            reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")
            raise PluginError(
                f"the {self.kind} {name!r} of the package {package} cannot be imported ({reason}); "
                "repair or uninstall that package"
            ) from error

    def available(self) -> dict[str, Entry]:
        """Return all entries by name; those that cannot be imported are left out, with one warning each."""
        entries = {}
        for name in self:
            try:
                entries[name] = self[name]
            except PluginError as error:
                if str(error) not in _reported:
                    _reported.add(str(error))
                    print(f"warning: {error}", file=sys.stderr)
        return entries

    def __contains__(self, name: object) -> bool:
        """Whether there is an entry of this name; nothing is imported."""
        return name in self._own or name in self._added or name in self.outside

    def __iter__(self) -> Iterator[str]:
        """The names, our own first."""
        return iter(dict.fromkeys((*self._own, *self._added, *self.outside)))

    def __len__(self) -> int:
        """The number of entries."""
        return len(list(iter(self)))
