"""The models that are served, by the names of their folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.serve.requests import RefusalError
from throughtime.tasks import TASKS
from throughtime.tasks.base import load

COMPLETIONS = "throughtime.serve.completions:router"
"""The route of tasks whose models are language models."""


def writers() -> list[str]:
    """The tasks of language models, by their declared route."""
    return [name for name, task in TASKS.items() if task.route == COMPLETIONS]


@dataclass(frozen=True)
class Served:
    """One model under its name. The name is only ever looked up, never made into a path."""

    name: str
    task: str
    model: Any
    intervals: Any = None  # those that were saved with a forecaster

    @property
    def writes(self) -> bool:
        """Whether it is a language model."""
        return self.task in TASKS and TASKS[self.task].route == COMPLETIONS

    @property
    def source(self) -> str:
        """The code of the language that it translates from."""
        return self.model.config.source or "source"

    @property
    def target(self) -> str:
        """The code of the language that it translates to."""
        return self.model.config.target or "target"

    def values(self) -> dict[str, Any]:
        """What clients are told of it."""
        values: dict[str, Any] = {"name": self.name, "task": self.task}
        if self.task == "translate":
            values |= {"source": self.source, "target": self.target}
        if self.task == "forecast":
            values |= {"horizon": self.model.model.horizon, "lookback": self.model.model.lookback}
        if self.task == "compose" and self.model.labels is not None:
            values |= {"labels": list(self.model.labels.names)}
        elif self.task == "compose":
            values |= {"vector_size": self.model.width}
        return values


@dataclass(frozen=True)
class LeftOut:
    """A folder that cannot be served, and why."""

    run: Path
    reason: str

    @property
    def name(self) -> str:
        """What the model would be called."""
        return self.run.resolve().name

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"run": str(self.run), "reason": self.reason}


class Models:
    """All that is served. Where a request names no model, the first that can do it answers."""

    def __init__(self, served: Sequence[Served], left_out: Sequence[LeftOut] = ()) -> None:
        self.left_out = tuple(left_out)
        self._by_name: dict[str, Served] = {}
        for one in served:
            if one.name in self._by_name:
                problem = "is the name of two of the folders; rename one, clients choose models by name"
                raise InputError(one.name, problem)
            self._by_name[one.name] = one

    @classmethod
    def open(cls, runs: Sequence[Path], device: str = "auto") -> Models:
        """Load the models of these folders. Folders that cannot be served are left out, unless all are."""
        import torch

        # Each computation sets how products round and restores it; in several threads at once that is only
        # safe where there is nothing to restore.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        served, left_out = [], []
        for run in runs:
            try:
                served.append(_open(run, device))
            except Exception as error:  # a broken folder must not keep the others from being served
                left_out.append(LeftOut(run, _reason(run, error)))
        if left_out and not served:
            if len(left_out) == 1:
                raise InputError(str(left_out[0].run), left_out[0].reason)
            reasons = "; ".join(f"{one.run}: {one.reason}" for one in left_out)
            raise InputError(f"none of the {len(left_out)} folders can be served: {reasons}")
        return cls(served, left_out)

    def __iter__(self) -> Iterator[Served]:
        """All, as they were given."""
        return iter(self._by_name.values())

    def of(self, *tasks: str) -> list[Served]:
        """Those of these tasks."""
        return [one for one in self if one.task in tasks]

    def get(self, name: str) -> Served:
        """The model of this name."""
        if name not in self._by_name:
            shown = name if len(name) <= 80 else f"{name[:80]}..."
            sentence = f"no model {shown!r} here; there are: {', '.join(self._by_name)}"
            raise RefusalError(404, sentence, param="model", code="model_not_found")
        return self._by_name[name]

    def choose(self, name: str | None, *tasks: str, kind: str = "") -> Served:
        """The model of this name, or the first of these tasks; `kind` is such a model in words."""
        kind = kind or TASKS[tasks[0]].title
        if name is None:
            found = self.of(*tasks)
            if not found:
                raise RefusalError(404, f"no model here is {kind}", param="model", code="model_not_found")
            return found[0]
        served = self.get(name)
        if served.task not in tasks:
            raise RefusalError(400, f"{served.name} is {TASKS[served.task].title}, not {kind}", param="model")
        return served


def _reason(run: Path, error: Exception) -> str:
    """Why a folder cannot be served, in one line; the folder itself is named before it."""
    if isinstance(error, ThroughtimeError):
        return str(error).removeprefix(f"{run}: ").removeprefix(f"{run}/")
    lines = str(error).splitlines()
    return f"cannot be opened ({type(error).__name__}: {lines[0] if lines else 'no message'})"


def _open(run: Path, device: str) -> Served:
    folder = ModelFolder.at(run)
    task, _ = folder.read_config()
    if task not in TASKS or TASKS[task].route is None:
        raise InputError(str(run), f"holds a model of the task {task!r}, which is not served yet")
    name, model = folder.path.resolve().name, load(run, device)
    if task != "forecast":
        return Served(name, task, model)
    from throughtime.series.conformal import load_intervals

    if columns := ", ".join((*model.config.known, *model.config.past)):
        raise InputError(
            str(run),
            f"needs the columns {columns} too, which requests do not have; `throughtime forecast` takes "
            "them from a file",
        )
    return Served(name, task, model, load_intervals(folder))
