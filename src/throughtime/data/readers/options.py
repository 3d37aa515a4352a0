"""Options of a reader as a person or a table gives them: checked by name, text read as its type says."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from throughtime.data.readers.reader import Reader
from throughtime.errors import InputError, unknown

TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def read_options(reader: type[Reader], options: Mapping[str, object]) -> Reader:
    """The reader built with these options; an unknown one is refused with its nearest neighbour."""
    known = inspect.signature(reader).parameters
    hints = typing.get_type_hints(reader.__init__) if known else {}
    values = {}
    for name, value in options.items():
        if name not in known:
            if not known:
                raise InputError(f"the reader {reader.name}", f"has no options, so not {name!r}")
            raise unknown(f"option of the reader {reader.name}", name, known)
        values[name] = _typed(value, hints[name], f"the reader {reader.name}", name)
    build: Callable[..., Reader] = reader
    return build(**values)


def _typed(value: object, hint: Any, where: str, name: str) -> object:
    """Text as the type that the option wants; what is no text is left as it is."""
    if not isinstance(value, str):
        return value
    wanted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if int in wanted and value.removeprefix("-").isdecimal():
        return int(value)
    if any(typing.get_origin(each) is tuple for each in wanted):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if bool in wanted and value.lower() in TRUTH:
        return TRUTH[value.lower()]
    if str in wanted:
        # A shell passes a tab as the two characters that stand for it.
        return value.replace("\\t", "\t")
    kind = "true or false" if bool in wanted else "a whole number"
    raise InputError(where, f"option {name} is {value!r}, expected {kind}")
