"""Check values from a JSON file against a type, as configurations are checked, but without pydantic."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from throughtime.errors import InputError

Size = Annotated[int, 0, 1_000_000_000]
"""A number of things, or the id of one."""
_NAMES = {
    int: "a whole number",
    float: "a finite number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
    list: "a list",
    dict: "a table of keys and values",
}


def check_values(values: Any, kind: Any, where: str) -> None:
    """Refuse values that are not of a type made of TypedDicts, lists, tables, texts and numbers.

    A range is `Annotated[int, least, most]`.

    >>> check_values({"size": [1, True]}, dict[str, list[int]], "export.json")
    Traceback (most recent call last):
    throughtime.errors.InputError: export.json: size[1] is True: expected a whole number
    """
    problem = _problem(values, kind, "")
    if problem is not None:
        raise InputError(where, problem)


def _problem(value: Any, kind: Any, name: str) -> str | None:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return None
    if origin is Annotated:
        inner, least, most = arguments
        small = _problem(value, inner, name)
        return small or (None if least <= value <= most else _wrong(value, f"{least:,} to {most:,}", name))
    if origin is NotRequired:
        return _problem(value, arguments[0], name)
    if origin in (Union, UnionType):
        problems = [_problem(value, argument, name) for argument in arguments]
        return None if None in problems else problems[0]
    if origin is Literal:
        return None if value in arguments else _wrong(value, " or ".join(map(str, arguments)), name)
    plain = dict if is_typeddict(kind) else origin or kind
    if not _is_a(value, plain):
        return _wrong(value, _NAMES[plain], name)
    if is_typeddict(kind):
        return _problem_of_keys(value, kind, name)
    items = value.items() if plain is dict else enumerate(value) if plain is list else ()
    found = (_problem(one, arguments[-1], _inside(name, key)) for key, one in items)
    return next(filter(None, found), None)


def _problem_of_keys(value: dict[str, Any], kind: Any, name: str) -> str | None:
    hints = get_type_hints(kind, include_extras=True)
    for key in (*hints, *value):
        if key not in value and get_origin(hints[key]) is not NotRequired:
            return f"{_inside(name, key)} is missing"
        if key not in hints:
            return f"{_inside(name, key)} is unknown"
    return next(filter(None, (_problem(value[key], hints[key], _inside(name, key)) for key in value)), None)


def _is_a(value: Any, plain: type) -> bool:
    if plain is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, plain) and (plain is bool or not isinstance(value, bool))


def _inside(name: str, key: str | int) -> str:
    return f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}".removeprefix(".")


def _wrong(value: Any, expected: str, name: str) -> str:
    return f"{name or 'it'} is {value!r:.80}: expected {expected}"
