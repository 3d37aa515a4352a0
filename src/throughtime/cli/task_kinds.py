"""What kind of model a run holds, so that a command for another kind can say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from throughtime.errors import InputError, unknown


class Kind(NamedTuple):
    """What a model is, and the command that is for it."""

    what: str
    command: str


KINDS = {
    "ngram": Kind("a language model", "generate"),
    "language": Kind("a language model", "generate"),
    "translate": Kind("a translator", "translate"),
    "tag": Kind("a tagger", "tag"),
    "fill": Kind("a model that fills blanks", "fill"),
    "classify": Kind("a classifier", "classify"),
    "compose": Kind("a writer from labels or vectors", "compose"),
    "forecast": Kind("a forecaster", "forecast"),
}
"""By the name of the task that made it."""


def kind_of(run: Path) -> str:
    """The name of the task that made the model of a run; its weights are not read."""
    from throughtime.folder import ModelFolder

    return ModelFolder.at(run).read_config()[0]


def loaded(run: Path, device: str, *wanted: str) -> Any:
    """The model of a run that one of these tasks made, or any; another is refused by what it is."""
    from throughtime.tasks.base import load

    task = kind_of(run)
    if wanted and task in KINDS and task not in wanted:
        right = " or ".join(dict.fromkeys(KINDS[name].what for name in wanted))
        raise InputError(
            str(run),
            f"holds {KINDS[task].what}, not {right}; `throughtime {KINDS[task].command}` is for it, "
            f"`throughtime train {wanted[0]}` makes {KINDS[wanted[0]].what}",
        )
    if task == "ngram":
        check_counting(device)
    return load(run, device)


def check_counting(device: str) -> None:
    """Refuse a device for a model of counts, which are looked up and not computed.

    >>> check_counting("cuda")
    Traceback (most recent call last):
    throughtime.errors.InputError: --device: is for neural models; this one only counts, so leave it out
    """
    if device in ("auto", "cpu"):
        return
    if device.partition(":")[0] != "cuda":
        raise unknown("device", device, ("auto", "cpu", "cuda", "cuda:1"))
    raise InputError("--device", "is for neural models; this one only counts, so leave it out")
