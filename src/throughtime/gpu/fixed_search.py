"""One step of a search with shapes that never change, so that a GPU can replay it from a recording.

In the plain loop of `throughtime.search.generate`, rows leave the batch when they end, and at every step the
host waits for the device to learn how many are left. Here every sentence keeps all its rows to the end: a row
that has ended is dead, and what happens to it is ignored. Tokens, and the row that each came from, are
written to a history on the device, which the host reads once, at the end. The plain loop defines what a
search finds: the results are the same, with the same scores, order and paths.

A strategy takes part if it has a fixed form (see `fixed_strategies`), and a constraint if it is a
`BarredTokens`, which looks at nothing but the length. The plain loop remains for all others, and for searches
that are watched or streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.gpu.beam import BeamStep
from throughtime.gpu.packing import Packed, carve, measure
from throughtime.search.constraints import BarredTokens
from throughtime.search.generate import Hypotheses, Memory, SearchState, StepModel, release_stuck

Array = NDArray[Any]

SearchStart = tuple[Tensor, SearchState, Memory]
"""What `StepModel.start` returns."""


class FixedRows(NamedTuple):
    """All rows of a search, equally many adjacent ones for each sentence, dead or alive."""

    length: Tensor  # [], the number of tokens so far
    sentence: Tensor  # [rows]
    log_prob: Tensor  # [rows], -inf if it is dead
    live: Tensor  # [rows]
    best: Tensor  # [sentences, groups, n], the best scores of ended hypotheses, for strategies that need them
    points: Tensor  # [steps, rows], numbers in [0, 1), for strategies that draw

    @classmethod
    def begin(cls, sentences: int, each: int) -> FixedRows:
        """Rows without a token, all alive, on the host."""
        sentence = torch.arange(sentences).repeat_interleave(each)
        log_prob = torch.zeros(len(sentence), dtype=torch.float64)
        length, live = torch.zeros((), dtype=torch.long), torch.ones(len(sentence), dtype=torch.bool)
        return cls(length, sentence, log_prob, live, torch.empty(0), torch.empty(0))


class Decision(NamedTuple):
    """What a strategy makes of one step."""

    row: Tensor | None  # [rows], the row that each continues; None: itself
    token: Tensor  # [rows]
    log_prob: Tensor  # [rows], -inf if there is no such continuation
    ended: Tensor  # [rows], whether it becomes a result
    live: Tensor  # [rows], whether it continues
    best: Tensor  # as in `FixedRows`


class FixedStrategy(Protocol):
    """A strategy in steps of fixed shape; its plain form begins and finishes a search."""

    @property
    def n_best(self) -> int | None:
        """`finish` returns the results of this number of best scores for each sentence; None: all results."""
        ...

    @property
    def recording_key(self) -> Hashable | None:
        """All options that `decide` depends on; None if these options need the plain loop."""
        ...

    def begin(self, sentences: int, steps: int) -> FixedRows:
        """Return the rows before the first of at most this number of steps, on the host."""
        ...

    def decide(self, log_probs: Tensor, rows: FixedRows) -> Decision:
        """Like `advance`, but a function of tensors alone, which waits for none of them."""
        ...

    def score(self, log_prob: Tensor, lengths: Tensor) -> Tensor:
        """Score results [results] of these numbers of tokens, the end token included, on the host."""
        ...


def leaves_softmax(model: StepModel) -> bool:
    """Return whether a model can leave the softmax to a kernel; a subclass may change `step` alone."""
    return stands_for(model, "step_scores", "step")


def stands_for(owner: object, fast: str, plain: str) -> bool:
    """Return whether a method does what another does: its class, or one above, changed both or neither."""
    if plain in getattr(owner, "__dict__", {}):
        return False
    kind = next(base for base in type(owner).__mro__ if {fast, plain} & vars(base).keys())
    return fast in vars(kind)


class FixedSearch:
    """The tensors of a search, all of which have fixed addresses; each step changes them in place."""

    def __init__(
        self,
        strategy: FixedStrategy,
        constraints: Sequence[BarredTokens],
        end_id: int | None,
        rows: FixedRows,
        started: SearchStart,
        steps: int,
    ) -> None:
        self.strategy, self.constraints, self.end_id = strategy, constraints, end_id
        last, state, memory = started
        device, count = last.device, len(rows.sentence)
        self._packed = Packed(rows, device)
        self.rows = FixedRows(*self._packed.parts)
        self.last = last.new_empty(count)
        self.state = tuple(tensor.new_empty(count, *tensor.shape[1:]) for tensor in state)
        kept = tuple(map(torch.empty_like, memory.kept))
        self.memory = Memory(kept, self.rows.sentence, count // len(last))
        self._columns = [*[(torch.long, count)] * 2, (torch.float64, count), *[(torch.bool, count)] * 2]
        self._history = torch.zeros(steps, measure(self._columns), dtype=torch.uint8, device=device)
        columns = carve(self._history, self._columns)
        self.tokens, self.parents, self.log_probs, self.ended, self.live = columns  # [steps, rows]
        self.came_from = torch.zeros_like(self.last)
        self.follows = False
        """Whether a row may continue another one."""
        self.reached = torch.zeros((), dtype=torch.long, pin_memory=last.is_cuda)
        """The highest number of tokens after which a row lived, which the device tells the host at each step.

        It never falls: when the host reads it, the device may have done later steps.
        """
        self._lived = torch.zeros((), dtype=torch.long, device=device)  # the same, on the device
        self.nothing_left: dict[int, Hypotheses] = {}
        """What is left of this number of sentences when all have ended, for `finish`."""
        self._beside: Any = torch.cuda.Stream(device) if last.is_cuda else None
        self._stepped = False
        self._fused: Callable[..., None] | None = None  # a faster way to choose

    def begin(self, rows: FixedRows, started: SearchStart) -> None:
        """Take over the beginning of a search; the host does not wait for the device."""
        last, state, memory = started
        self.reached.zero_()
        self._lived.zero_()
        self._packed.hold(rows)
        self._packed.send()
        for mine, new in zip(self.memory.kept, memory.kept, strict=True):
            mine.copy_(new)
        for mine, new in zip((self.last, *self.state), (last, *state), strict=True):
            if mine.dtype == new.dtype:
                torch.index_select(new, 0, self.rows.sentence, out=mine)
            else:
                mine.copy_(new.index_select(0, self.rows.sentence))

    def step(self, model: StepModel) -> None:
        """Take one step: the model, the constraints, the decision of the strategy, and the next states."""
        unnormalised = isinstance(self._fused, BeamStep) and leaves_softmax(model)
        run = model.step_scores if unnormalised else model.step
        step = run(self.last, self.state, self.memory)
        # A model may hand back what it was given, which is overwritten here.
        lent = {tensor.untyped_storage().data_ptr() for tensor in (self.last, *self.state)}
        state = [
            tensor.clone() if tensor.untyped_storage().data_ptr() in lent else tensor for tensor in step.state
        ]
        if not self._stepped:  # states may be of another precision than the first one
            self.state = tuple(before.to(new.dtype) for before, new in zip(self.state, state, strict=True))
            self._fused = self._fuse(step.log_probs)
            self._stepped = True
        row = self._choose(step.log_probs, unnormalised)
        kernels = self._fused if isinstance(self._fused, BeamStep) else None
        if kernels is None or not kernels.follow(state, self.state):
            self._follow(state, row)
        if kernels is None:
            torch.maximum(self._lived, self.rows.live.any() * self.rows.length, out=self._lived)
            self.reached.copy_(self._lived, non_blocking=True)

    def _follow(self, state: Sequence[Tensor], row: Tensor | None) -> None:
        """Take over the states of the rows that are continued, and count the step."""
        for kept, reached in zip(self.state, state, strict=True):
            if row is None:
                kept.copy_(reached)
            else:
                torch.index_select(reached, 0, row, out=kept)
        self.rows.length.add_(1)

    def read(self, steps: int) -> list[Array]:
        """Return the history of some steps that the device has done, [steps, rows] each; see `Decision`.

        It holds tokens, parents, log-probabilities, and which rows ended and lived.
        """
        history = self._history[:steps]
        if history.is_cuda:
            history = torch.empty(history.shape, dtype=history.dtype, pin_memory=True)
            # Beside the stream of the search, which may have begun a step that nobody needs.
            with torch.cuda.stream(self._beside):
                history.copy_(self._history[:steps], non_blocking=True)
            self._beside.synchronize()
        return [column.numpy() for column in carve(history, self._columns)]

    def _fuse(self, log_probs: Tensor) -> Callable[..., None] | None:
        """Return kernels that choose as `decide` does; None if a subclass has a `decide` of its own."""
        strategy: Any = self.strategy
        return strategy.fuse(self, log_probs) if stands_for(strategy, "fuse", "decide") else None

    def _choose(self, log_probs: Tensor, unnormalised: bool = False) -> Tensor | None:
        """Let the strategy decide, and write down what happens; return the row that each continues.

        Kernels may get scores that are `unnormalised`.
        """
        if self._fused is not None:
            self.follows = True
            if unnormalised:
                self._fused(log_probs, normalise=True)
            else:
                self._fused(log_probs)
            return self.came_from
        log_probs = bar_tokens(log_probs, self.rows.length, self.constraints, self.end_id)
        decision, rows = self.strategy.decide(log_probs, self.rows), self.rows
        self.follows = decision.row is not None
        kept = (self.tokens, self.log_probs, self.ended, self.live)
        for history, value in zip(kept, decision[1:5], strict=True):
            history.index_copy_(0, rows.length[None], value[None])
        if decision.row is not None:
            self.parents.index_copy_(0, rows.length[None], decision.row[None])
        self.last.copy_(decision.token)
        rows.live.copy_(decision.live)
        rows.log_prob.copy_(decision.log_prob.masked_fill(~decision.live, -torch.inf))
        if decision.best is not rows.best:
            rows.best.copy_(decision.best)
        return decision.row


def bar_tokens(
    log_probs: Tensor, length: Tensor, constraints: Sequence[BarredTokens], end_id: int | None
) -> Tensor:
    """Apply constraints to log-probabilities [rows, V], which are overwritten; wait for no tensor."""
    if not constraints:
        return log_probs
    before = log_probs.clone() if end_id is None else log_probs[:, end_id].clone()
    for constraint in constraints:
        for token in constraint.tokens:
            if constraint.until is None:
                log_probs[:, token] = -torch.inf
            else:
                log_probs[:, token].masked_fill_(length < constraint.until, -torch.inf)
    return release_stuck(log_probs, before, end_id)
