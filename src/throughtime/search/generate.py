"""The one loop that runs a model forward: the strategy chooses, the model steps, neither sees the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.constraints import Constraint, allowed
from throughtime.search.hypotheses import Finished, Hypotheses
from throughtime.search.step import StepModel, select


class Strategy(Protocol):
    """Chooses which hypotheses go on. It never sees the model."""

    @property
    def end_id(self) -> int | None:
        """The token that ends a sequence; None where sequences have no end."""
        ...

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """The hypotheses before the first token."""
        ...

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """The hypotheses one token longer, and the row that each of those that go on came from."""
        ...

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The results of each sentence, best first, when no row goes on or the length cap is reached."""
        ...


class Moment(NamedTuple):
    """One step of a search, for whoever watches it: streaming, traces, attention pictures."""

    hypotheses: Hypotheses
    rows: Tensor  # [rows], where each came from
    log_probs: Tensor  # [rows before, V], after the constraints
    extras: Mapping[str, Tensor]  # [rows before, ...]
    before: Hypotheses  # what was extended: the rows before


def moments(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    constraints: Sequence[Constraint] = (),
) -> Iterator[Moment]:
    """Run the search step by step. Finished sentences leave the batch; the state stays one size."""
    if max_new_tokens < 1:
        raise InputError("max_new_tokens", f"is {max_new_tokens}, expected 1 or more")
    if not prompts:
        return
    last, state, memory = model.start(prompts)
    hypotheses = strategy.begin(len(prompts), last.device)
    # A strategy may open several rows for a sentence at once.
    last, state = last[hypotheses.sentence], select(state, hypotheses.sentence)
    memory = memory.follow(memory.owner[hypotheses.sentence])
    for _ in range(max_new_tokens):
        step = model.step(last, state, memory)
        log_probs = allowed(step.log_probs, hypotheses, constraints, strategy.end_id)
        before = hypotheses
        hypotheses, rows = strategy.advance(log_probs, before)
        yield Moment(hypotheses, rows, log_probs, step.extras, before)
        if not hypotheses.rows:
            return
        last, state = hypotheses.last, select(step.state, rows)
        memory = memory.follow(memory.owner[rows])


@torch.inference_mode()
def generate(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    constraints: Sequence[Constraint] = (),
    watch: Callable[[Moment], None] | None = None,
) -> list[list[Finished]]:
    """What the strategy finds for each prompt, best first. Nothing is emitted while a prompt is read."""
    moment = None
    steps = moments(model, prompts, strategy, max_new_tokens=max_new_tokens, constraints=constraints)
    for moment in steps:
        if watch is not None:
            watch(moment)
    return strategy.finish(moment.hypotheses) if moment is not None else []
