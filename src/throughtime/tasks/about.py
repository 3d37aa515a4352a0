"""What lists of models say about a model: the answer of GET /models, also for models in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from throughtime.errors import InputError
from throughtime.inspection.gates import check_gates
from throughtime.tasks import TASKS


def find_abilities(task: str, model: Any) -> tuple[str, ...]:
    """What it can do: the command of its task, such as "translate", and "gates" if it has any to show."""
    try:
        check_gates(model)
    except InputError:
        return (TASKS[task].command,)
    return (TASKS[task].command, "gates")


def describe_model(
    name: str,
    task: str,
    model: Any,
    abilities: tuple[str, ...] | None = None,
    examples: Sequence[str] = (),
) -> dict[str, Any]:
    """Its description for clients; `examples` are texts to try it with."""
    found = find_abilities(task, model) if abilities is None else abilities
    values: dict[str, Any] = {"name": name, "task": task, "abilities": list(found), **model.facts}
    if examples:
        values["examples"] = list(examples)
    return values
