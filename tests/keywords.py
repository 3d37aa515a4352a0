"""The keywords of prediction methods, for tests that compare them."""

from __future__ import annotations

import inspect

from throughtime.runtime.search import WritingOptions

INTERNAL = {"self", "watch"}


def keywords(method):
    """The public parameters of a method: their kinds and defaults; options by type are written out."""
    found = {}
    for name, one in inspect.signature(method).parameters.items():
        if one.annotation == "Unpack[WritingOptions]":
            found |= dict.fromkeys(WritingOptions.__annotations__, (one.KEYWORD_ONLY, None))
        elif name not in INTERNAL:
            found[name] = (one.kind, one.default)
    return found
