"""Typed configuration: a default lives once, an unknown key is an error that names its nearest neighbour."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from throughtime.errors import InputError


class Config(BaseModel):
    """What a task is built from. It stops at the builders: classes take plain arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Kind = TypeVar("Kind", bound=Config)


def configured(kind: type[Kind], values: Mapping[str, Any], where: str) -> Kind:
    """Build a configuration, or say in one sentence which key of `where` is wrong.

    >>> class Oven(Config):
    ...     degrees: int = 180
    >>> configured(Oven, {"degres": 200}, "oven.yaml")
    Traceback (most recent call last):
    throughtime.errors.InputError: oven.yaml: unknown key 'degres'; did you mean 'degrees'?
    """
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(key, kind.model_fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(kind.model_fields)}"
            raise InputError(where, f"unknown key {key!r}{hint}") from None
        if first["type"] == "missing":
            raise InputError(where, f"the key {key!r} is missing") from None
        raise InputError(where, f"{key} is {first['input']!r}: {first['msg'].lower()}") from None
