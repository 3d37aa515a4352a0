"""What a run that goes on may be told anew. Counted models ask too, so nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from throughtime.config import Config, build_config
from throughtime.errors import InputError
from throughtime.folder import ModelFolder

MAY_CHANGE = frozenset(
    "epochs max_minutes lr clip early_stopping device capture checkpoint_every checkpoint_minutes keep "
    "report_every".split()
)
"""What a run that goes on may be told anew: how long, how fast, and where; never what it is."""


def going_on(
    kind: type[Config],
    out: Path,
    task: str,
    given: Mapping[str, Any],
    option: Callable[[str], str] = "--set {}".format,
) -> Any:
    """The configuration of a run that goes on: the saved one, with what may change set anew.

    `option` gives the option by which a setting is told.
    """
    found, saved = ModelFolder.at(out).read_config()
    if found != task:
        raise InputError("--resume", f"{out} holds a model of the task {found!r}, not {task!r}")
    before = build_config(kind, saved, str(out / "config.json"))
    # A null that left the choice to the data is no other choice than the saved one.
    given = {key: value for key, value in given.items() if value is not None or key not in kind.SUGGESTED}
    now = build_config(kind, {**saved, **given}, "settings")
    for key in given:
        was, told = getattr(before, key), getattr(now, key)
        if was != told and key not in MAY_CHANGE:
            raise InputError(
                option(key), f"is {told!r}, but the run in {out} was begun with {was!r}; use another --out"
            )
    return now
