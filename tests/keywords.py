"""The keywords of prediction methods, for tests that compare them."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

INTERNAL = {"self", "watch"}


def keywords(method):
    """The public parameters of a method: their kinds and defaults; options by type are written out."""
    found = {}
    for name, one in inspect.signature(method).parameters.items():
        if one.kind is one.VAR_KEYWORD and one.annotation.startswith("Unpack["):
            for option, hint in list_options(method, one.annotation).items():
                found[option] = (one.KEYWORD_ONLY, read_default(hint))
        elif name not in INTERNAL:
            found[name] = (one.kind, one.default)
    return found


def list_options(method, annotation):
    """The options of a `TypedDict` that the module of a method knows by name, with their types."""
    kind = getattr(method, "__func__", method).__globals__[annotation[len("Unpack[") : -1]]
    return get_type_hints(kind, include_extras=True)


def read_default(hint):
    """The default that is declared beside the type of an option, or None."""
    return next((one.default for one in get_args(hint)[1:] if hasattr(one, "default")), None)
