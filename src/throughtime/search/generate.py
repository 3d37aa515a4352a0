"""The one loop that runs a model forward: the strategy chooses, the model steps, neither sees the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.constraints import Constraint, apply_constraints
from throughtime.search.interface import Finished, Hypotheses, StepModel, Strategy, WholeSearch, select


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
    newest_only: bool = False,
) -> Iterator[Moment]:
    """Run the search step by step. Finished sentences leave the batch; the state stays one size.

    With `newest_only` hypotheses keep their newest token alone, so that memory does not grow with the text;
    constraints that look back then see one token.
    """
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
        log_probs = apply_constraints(step.log_probs, hypotheses, constraints, strategy.end_id)
        before = hypotheses
        hypotheses, rows = strategy.advance(log_probs, before)
        if newest_only:
            hypotheses = hypotheses.newest()
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
    if isinstance(strategy, WholeSearch):
        return strategy.search(
            model, prompts, max_new_tokens=max_new_tokens, constraints=constraints, watch=watch
        )
    moment = None
    steps = moments(model, prompts, strategy, max_new_tokens=max_new_tokens, constraints=constraints)
    for moment in steps:
        if watch is not None:
            watch(moment)
    return strategy.finish(moment.hypotheses) if moment is not None else []


class Watched:
    """A strategy whose every step is shown to `watch`, for callers that hand over a strategy alone.

    An error that `watch` raises stops the search.
    """

    def __init__(self, strategy: Strategy, watch: Callable[[Moment], None]) -> None:
        self.strategy, self.watch = strategy, watch

    @property
    def end_id(self) -> int | None:
        """The token that ends a sequence."""
        return self.strategy.end_id

    @property
    def num_beams(self) -> int:
        """The number of rows that a sentence has, at most."""
        return getattr(self.strategy, "num_beams", 1)

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """The hypotheses before the first token."""
        return self.strategy.begin(batch, device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """The hypotheses one token longer; the step is shown without the model's extras."""
        longer, rows = self.strategy.advance(log_probs, hypotheses)
        self.watch(Moment(longer, rows, log_probs, {}, hypotheses))
        return longer, rows

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The results of each sentence, best first."""
        return self.strategy.finish(hypotheses)
