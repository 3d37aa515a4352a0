"""An ensemble: several models as one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from throughtime.errors import InputError
from throughtime.search.generate import Memory, SearchState, Step
from throughtime.search.step_model import StepModel


class Ensemble(StepModel):
    """A step model whose probabilities are the weighted mean of those of several models.

    All models must read the same prompts and have the same target vocabulary. Their states and memories are
    concatenated, in the order of the models.
    """

    def __init__(self, models: Sequence[StepModel], weights: Sequence[float] | None = None) -> None:
        if not models:
            raise InputError("ensemble", "has no model, expected one or more")
        weights = [1.0] * len(models) if weights is None else weights
        if len(weights) != len(models):
            raise InputError("ensemble", f"has {len(weights)} weights for {len(models)} models")
        if not all(weight > 0 and math.isfinite(weight) for weight in weights):
            raise InputError("ensemble", f"has weights {list(weights)}, expected numbers above 0")
        self.models = list(models)
        self.weights = [weight / math.fsum(weights) for weight in weights]
        self._states: list[int] = []  # number of tensors of each model, set by `start`
        self._kept: list[int] = []

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, SearchState, Memory]:
        """Read the prompts with every model."""
        lasts, states, memories = zip(*(model.start(prompts) for model in self.models), strict=True)
        for last, memory in zip(lasts, memories, strict=True):
            if not (torch.equal(last, lasts[0]) and torch.equal(memory.owner, memories[0].owner)):
                raise InputError(
                    "ensemble", "has models that begin with different tokens; expected one vocabulary for all"
                )
        self._states = [len(state) for state in states]
        self._kept = [len(memory.kept) for memory in memories]
        kept = tuple(tensor for memory in memories for tensor in memory.kept)
        joined = Memory(kept, memories[0].owner, memories[0].rows_each)
        return lasts[0], tuple(tensor for state in states for tensor in state), joined

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Feed one token per row to every model; return ln of the mean P."""
        states, kept = _split(state, self._states), _split(memory.kept, self._kept)
        steps = [
            model.step(last, model_state, Memory(model_kept, memory.owner, memory.rows_each))
            for model, model_state, model_kept in zip(self.models, states, kept, strict=True)
        ]
        sizes = [step.log_probs.shape[1] for step in steps]
        if len(set(sizes)) > 1:
            raise InputError(
                "ensemble",
                f"has target vocabularies of {', '.join(map(str, sizes))} tokens; expected the same for all",
            )
        weighted = [step.log_probs + math.log(w) for step, w in zip(steps, self.weights, strict=True)]
        reached = tuple(tensor for step in steps for tensor in step.state)
        return Step(torch.stack(weighted).logsumexp(dim=0), reached, self._extras(steps))

    @property
    def attends(self) -> bool:
        """Whether the models have attention; that of all is their mean."""
        return self.models[0].attends

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """The modules of all models, if all steps can be recorded."""
        modules_of = [getattr(model, "recorded_modules", ()) for model in self.models]
        return [module for modules in modules_of for module in modules] if all(modules_of) else ()

    def _extras(self, steps: Sequence[Step]) -> Mapping[str, Tensor]:
        """The mean of extras that all models return in one shape (attention); others of the first model."""
        extras = dict(steps[0].extras)
        for name, value in extras.items():
            others = [step.extras.get(name) for step in steps]
            if value.is_floating_point() and all(x is not None and x.shape == value.shape for x in others):
                weighted = zip(self.weights, others, strict=True)
                extras[name] = sum((w * x for w, x in weighted if x is not None), torch.zeros_like(value))
        return extras


def _split(tensors: Sequence[Tensor], counts: Sequence[int]) -> list[SearchState]:
    rest = iter(tensors)
    return [tuple(islice(rest, count)) for count in counts]
