"""The models that are served, by the names of their folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, ThroughtimeError, first_line
from throughtime.serve.requests import RefusalError
from throughtime.tasks import TASKS
from throughtime.tasks.description import describe_model, find_abilities
from throughtime.tasks.saved import SavedRun


@dataclass(frozen=True)
class Served:
    """One model and its name. The name is only looked up, never used as a path."""

    name: str
    task: str
    model: Any
    intervals: Any = None  # those that were saved with a forecaster

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """What it can do; see `find_abilities`."""
        return find_abilities(self.task, self.model)

    @property
    def source(self) -> str:
        """The code of the language that it translates from."""
        return str(self.model.facts["source"])

    @property
    def target(self) -> str:
        """The code of the language that it translates to."""
        return str(self.model.facts["target"])

    def values(self, *, private: bool = False) -> dict[str, Any]:
        """Its description for clients; a `private` one shows no examples, which are from its data."""
        examples = () if private else self.model.examples
        return describe_model(self.name, self.task, self.model, self.abilities, examples)


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
    """The served models. A request that names none is answered by the first that is able to."""

    def __init__(self, served: Sequence[Served], left_out: Sequence[LeftOut] = ()) -> None:
        self.left_out = tuple(left_out)
        self._by_name: dict[str, Served] = {}
        for one in served:
            if one.name in self._by_name:
                problem = "is the name of two of the folders; rename one, clients choose models by name"
                raise InputError(one.name, problem)
            self._by_name[one.name] = one

    @classmethod
    def open(cls, runs: Sequence[Path], device: str = "auto", *, trust_changed: bool = False) -> Models:
        """Load the models of these folders. Folders that cannot be served are left out, unless all are."""
        import torch

        # Each computation sets how products round and restores it; in several threads at once that is only
        # safe where there is nothing to restore.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        served, left_out = [], []
        for run in runs:
            try:
                served.append(_open(run, device, trust_changed))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a broken folder must not keep the others from being served
                left_out.append(LeftOut(run, _reason(run, error)))
        if left_out and not served:
            if len(left_out) == 1:
                raise InputError(str(left_out[0].run), left_out[0].reason)
            reasons = "; ".join(f"{one.run}: {one.reason}" for one in left_out)
            raise InputError(f"none of the {len(left_out)} folders can be served: {reasons}")
        return cls(served, left_out)

    def __iter__(self) -> Iterator[Served]:
        """All models, in the order in which they were given."""
        return iter(self._by_name.values())

    def find_by_ability(self, ability: str) -> list[Served]:
        """The models with this ability, in the order in which they were given."""
        return [one for one in self if ability in one.abilities]

    def get(self, name: str) -> Served:
        """The model of this name."""
        if name not in self._by_name:
            shown = name if len(name) <= 80 else f"{name[:80]}..."
            sentence = f"no model {shown!r} here; there are: {', '.join(self._by_name)}"
            raise RefusalError(404, sentence, param="model", code="model_not_found")
        return self._by_name[name]

    def choose(self, name: str | None, ability: str, kind: str | None = None) -> Served:
        """Return the model of this name, or the first with this ability; `kind` describes such a model."""
        if kind is None:
            kind = next(task.title for task in TASKS.values() if task.command == ability)
        if name is None:
            candidates = self.find_by_ability(ability)
            if not candidates:
                raise RefusalError(404, f"no model here is {kind}", param="model", code="model_not_found")
            return candidates[0]
        served = self.get(name)
        if ability not in served.abilities:
            raise RefusalError(400, f"{served.name} is {TASKS[served.task].title}, not {kind}", param="model")
        return served


def _reason(run: Path, error: BaseException) -> str:
    """Why a folder cannot be served, in one line that follows its name."""
    if isinstance(error, ThroughtimeError):
        return str(error).removeprefix(f"{run}: ").removeprefix(f"{run}/")
    return f"cannot be opened ({type(error).__name__}: {first_line(error)})"


def _open(run: Path, device: str, trust_changed: bool) -> Served:
    saved = SavedRun.open(run)
    folder, task, _ = saved
    if task not in TASKS or not (TASKS[task].route or TASKS[task].answers):
        raise InputError(str(run), f"holds a model of the task {task!r}, which is not served yet")
    name, model = folder.path.resolve().name, saved.load(device, trust_changed=trust_changed)
    if task != "forecast":
        return Served(name, task, model)
    from throughtime.series.conformal import load_intervals

    if columns := ", ".join((*model.config.known, *model.config.past)):
        problem = f"needs the columns {columns} too, which requests do not have"
        raise InputError(str(run), f"{problem}; `throughtime forecast` takes them from a file")
    return Served(name, task, model, load_intervals(folder))
