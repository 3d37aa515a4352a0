"""Names of a package that are imported when they are first used: importing the package costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def import_lazily(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__all__`, `__getattr__` and `__dir__` of a package.

    `homes` has the public names, separated by spaces, that each module of the package holds; `modules` are
    modules that are names themselves.

    >>> names, get, _ = import_lazily("collections", {"abc": "Mapping Sequence"})
    >>> names, get("Mapping").__name__
    (['Mapping', 'Sequence'], 'Mapping')
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    modules = tuple(modules)

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    def list_names() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *home, *modules})

    return [*home], get, list_names
