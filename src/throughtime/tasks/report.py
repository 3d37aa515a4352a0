"""What a model says of itself on data: figures for machines, how they came about, a text for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from throughtime.errors import InputError
from throughtime.text.texts import several

Asked = Mapping[str, Any]
"""The options of `evaluate` that were given, by name; each kind of model knows some of them."""
Progress = Callable[[int, int], None]
"""Told how many of how many are done."""


class Opening(NamedTuple):
    """How a model opens its data: arguments of `open_dataset`."""

    source: str | None = None
    target: str | None = None
    layout: str | None = None
    date_format: str | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of an evaluation."""

    values: dict[str, Any]
    how: list[str]  # parts of the signature
    text: str  # with rich's markup


def trained_for(values: Mapping[str, Any]) -> str:
    """How long a training was, as a model card tells it.

    >>> trained_for({"epochs": 1, "steps": 1200})
    '1 epoch, 1,200 updates'
    """
    return f"{several(values['epochs'], 'epoch')}, {several(values['steps'], 'update')}"


def refuse_others(asked: Asked, known: Collection[str], kind: str) -> None:
    """Refuse what was asked of a model that knows nothing of it.

    >>> refuse_others({"cache_share": 0.1}, {"split"}, "is for recurrent language models")
    Traceback (most recent call last):
    throughtime.errors.InputError: --cache-share: is for recurrent language models; leave it out
    """
    for name in asked:
        if name not in known:
            raise InputError(f"--{name.replace('_', '-')}", f"{kind}; leave it out")
