"""The loop that runs a model forward, and what models and strategies know about each other.

A model (counted, recurrent, or several together) is a `StepModel`: it returns the log-probabilities of the
next token. A `Strategy` chooses which hypotheses to continue and never sees the model. A `Constraint` bars
tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from throughtime.accelerate import run_search
from throughtime.errors import DamagedModelError, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.runtime.search import Finished as Finished
from throughtime.search.step_model import StepModel as StepModel

SearchState = tuple[Tensor, ...]
"""What changes from token to token: flat, each tensor [rows, ...]; selected per hypothesis at every step."""

MIN_LOG_PROBABILITY = math.log(
    5e-324
)  # of all positive probabilities, for an end that a model finds impossible
FEW = 64


@dataclass(frozen=True)
class Memory:
    """What stays the same while a sentence is decoded: kept once per sentence, not once per hypothesis.

    `kept` holds tensors [sentences, ...] (an encoder's outputs, their lengths) and `owner` the sentence of
    each row. Rows of a sentence are adjacent; `rows_each` is their number if all sentences have equally many.
    """

    kept: tuple[Tensor, ...]
    owner: Tensor  # [rows], into the sentences that are kept
    rows_each: int | None = 1

    @classmethod
    def empty(cls, sentences: int, device: torch.device | None = None) -> Memory:
        """Memory for models that keep nothing per sentence."""
        return cls((), torch.arange(sentences, device=device))

    @property
    def places(self) -> tuple[Tensor, int]:
        """The place of each row in a table [sentences, maximum number of rows], and that maximum."""
        rows = torch.bincount(self.owner)
        most = int(rows.max()) if len(rows) else 0
        within = torch.arange(len(self.owner), device=self.owner.device) - (rows.cumsum(0) - rows)[self.owner]
        return self.owner * most + within, most

    def follow(self, owner: Tensor) -> Memory:
        """The memory for rows that belong to these sentences; a sentence without rows is dropped."""
        if owner is self.owner or (len(owner) == len(self.owner) and torch.equal(owner, self.owner)):
            return self
        alive, renumbered, each = torch.unique_consecutive(owner, return_inverse=True, return_counts=True)
        whole = len(alive) == (int(self.owner[-1]) + 1 if len(self.owner) else 0)
        kept = self.kept if whole else tuple(tensor.index_select(0, alive) for tensor in self.kept)
        counts = set(each.tolist())
        return Memory(kept, renumbered, counts.pop() if len(counts) == 1 else None)


class Step(NamedTuple):
    """One step of a model for every row."""

    log_probs: Tensor  # [rows, V], ln P(next); the search may overwrite it
    state: SearchState
    extras: Mapping[str, Tensor] = {}  # [rows, ...], such as attention; passed on to watchers


def select(state: SearchState, rows: Tensor) -> SearchState:
    """The state of the given rows."""
    return tuple(tensor.index_select(0, rows) for tensor in state)


@dataclass(frozen=True)
class Hypotheses:
    """The rows that continue, sentence by sentence, and the results that have ended.

    Tokens are in a buffer that doubles when it is full, so that a step costs the same at any length.

    >>> two = Hypotheses.begin(2)
    >>> two = two.extend(torch.tensor([0, 1]), torch.tensor([7, 8]), torch.tensor([-1.0, -2.0]))
    >>> two = two.extend(torch.tensor([1, 1]), torch.tensor([3, 4]), torch.tensor([-3.0, -4.0]))
    >>> two.tokens.tolist(), two.sentence.tolist()
    ([[8, 3], [8, 4]], [1, 1])
    """

    sentence: Tensor  # [rows], into the prompts
    log_prob: Tensor  # [rows]
    length: int = 0
    ended: tuple[tuple[Finished, ...], ...] = ()  # per sentence
    _tokens: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows, capacity]
    _path: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows, capacity]

    @classmethod
    def begin(cls, sentences: int, each: int = 1, device: torch.device | None = None) -> Self:
        """Empty hypotheses: `each` rows for every sentence."""
        sentence = torch.arange(sentences, device=device).repeat_interleave(each)
        empty = torch.empty(len(sentence), 16, dtype=torch.long, device=device)
        log_prob = torch.zeros(len(sentence), dtype=torch.float64, device=device)
        return cls(sentence, log_prob, 0, ((),) * sentences, empty, empty.clone())

    @property
    def rows(self) -> int:
        """Number of hypotheses that continue."""
        return len(self.sentence)

    @property
    def tokens(self) -> Tensor:
        """The tokens of each row, without the prompt. [rows, length]"""
        return self._tokens[:, : self.length]

    @property
    def last(self) -> Tensor:
        """The newest token of each row. [rows]"""
        return self._tokens[:, self.length - 1]

    def extend(self, rows: Tensor, token: Tensor, log_prob: Tensor) -> Self:
        """Row i of the result is old row `rows[i]` with one more token; `log_prob` is its new total.

        The result takes over the buffer, so call this only once on a set of hypotheses.
        """
        tokens, path, sentence = self._tokens, self._path, self.sentence
        # On a GPU, waiting for the comparison takes longer than copying.
        same = len(rows) == self.rows and rows.device.type == "cpu"
        if not (same and torch.equal(rows, torch.arange(self.rows))):
            tokens, path, sentence = (x.index_select(0, rows) for x in (tokens, path, sentence))
        if self.length == tokens.shape[1]:
            tokens, path = (torch.cat([x, torch.empty_like(x)], dim=1) for x in (tokens, path))
        tokens[:, self.length], path[:, self.length] = token, rows
        return replace(
            self, sentence=sentence, log_prob=log_prob, length=self.length + 1, _tokens=tokens, _path=path
        )

    def newest(self) -> Self:
        """The same hypotheses with their newest token only."""
        at = slice(self.length - 1, self.length)
        return replace(self, length=1, _tokens=self._tokens[:, at].clone(), _path=self._path[:, at].clone())

    def retire(self, over: Tensor, score: Tensor, by_end_token: bool = True) -> Self:
        """Move the rows where `over` is true to the finished results; the others continue."""
        rows = over.nonzero().flatten()
        if not len(rows):
            return self
        ended = [list(results) for results in self.ended]
        keep = self.length - 1 if by_end_token else self.length
        columns = (self.sentence, self._tokens[:, :keep], self.log_prob, score, self._path[:, : self.length])
        for sentence, tokens, log_prob, value, path in zip(*(x[rows].tolist() for x in columns), strict=True):
            ended[sentence].append(Finished(tuple(tokens), log_prob, value, by_end_token, tuple(path)))
        return replace(self.only(~over), ended=tuple(tuple(results) for results in ended))

    def only(self, rows: Tensor) -> Self:
        """Keep these rows, given as a mask or as indices."""
        return replace(
            self,
            sentence=self.sentence[rows],
            log_prob=self.log_prob[rows],
            _tokens=self._tokens[rows],
            _path=self._path[rows],
        )


class Strategy(Protocol):
    """Chooses which hypotheses continue. It never sees the model.

    A strategy may have more attributes. `streams` is true if rows only ever continue themselves, so that
    their tokens can be shown as they are written. `max_length` is the maximum number of tokens of a result,
    set before each search; `first_sentence` is the number of the first prompt, for strategies that draw.
    Only a strategy that returns to prefixes which it left earlier runs the model itself: it has a method
    `search` with the parameters of `generate`, which replaces the loop.
    """

    @property
    def end_id(self) -> int | None:
        """The token that ends a sequence; None if sequences have no end."""
        ...

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """The hypotheses before the first token."""
        ...

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """The hypotheses with one more token, and the row that each of those that continue came from."""
        ...

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The results of each sentence, best first; called at the end or at the maximum length."""
        ...


Constraint = Callable[[Tensor, Hypotheses], Tensor]
"""Returns log-probabilities with -inf for tokens that may not come next; may overwrite its argument."""


def apply_constraints(
    log_probs: Tensor, hypotheses: Hypotheses, constraints: Sequence[Constraint], end_id: int | None
) -> Tensor:
    """Apply all constraints to log-probabilities [rows, V], which are overwritten.

    Together, constraints may bar every token of a row. Such a row must end: it takes the end token at the
    model's own probability. If there is no end token, the row ignores the constraints for this step.
    """
    if not constraints:
        return log_probs
    before = log_probs.clone() if end_id is None else log_probs[:, end_id].clone()
    left = log_probs
    for constraint in constraints:
        left = constraint(left, hypotheses)
    # Most rows have something left among the first tokens: all tokens are checked only for the others.
    if not bool((left[:, :FEW].amax(dim=1) == -torch.inf).any()):
        return left
    return release_stuck(left, before, end_id)


def release_stuck(left: Tensor, before: Tensor, end_id: int | None) -> Tensor:
    """Let rows for which constraints have left no token end, or take any token if nothing ends.

    `before` are the log-probabilities before the constraints: of the end token [rows], or of all [rows, V].
    """
    stuck = left.amax(dim=1) == -torch.inf
    if end_id is None:
        return torch.where(stuck[:, None], before, left)
    left[:, end_id] = torch.where(stuck, before.clamp(min=MIN_LOG_PROBABILITY), left[:, end_id])
    return left


class Moment(NamedTuple):
    """One step of a search, for those who watch it: streaming, traces, attention plots."""

    hypotheses: Hypotheses
    rows: Tensor  # [rows], the row that each came from
    log_probs: Tensor  # [rows before, V], after the constraints
    extras: Mapping[str, Tensor]  # [rows before, ...]
    before: Hypotheses  # the hypotheses before this step


def moments(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    constraints: Sequence[Constraint] = (),
    newest_only: bool = False,
) -> Iterator[Moment]:
    """Run the search step by step. Finished sentences leave the batch.

    With `newest_only` hypotheses keep only their newest token, so that memory does not grow with the text;
    constraints that look back then see one token.
    """
    check_whole("max_new_tokens", max_new_tokens)
    if not prompts:
        return
    last, state, memory = model.start(prompts)
    hypotheses = strategy.begin(len(prompts), last.device)
    # A strategy may open several rows for a sentence at once.
    last, state = last[hypotheses.sentence], select(state, hypotheses.sentence)
    memory = memory.follow(memory.owner[hypotheses.sentence])
    for length in range(max_new_tokens):
        check_interrupt()
        step = model.step(last, state, memory)
        # Beams would drop what is not a number, and find nothing. Asking at later steps would cost time.
        if not length and bool(step.log_probs.isnan().any()):
            raise DamagedModelError
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
    """Search with a strategy; return the results of each prompt, best first, without the prompt itself.

    `watch` is called after every step; an error that it raises stops the search. Without `watch`, code for
    the device of the model may run the search instead of the loop here.
    """
    search: Callable[..., list[list[Finished]]] | None = getattr(strategy, "search", None)
    if search is not None:
        return search(model, prompts, max_new_tokens=max_new_tokens, constraints=constraints, watch=watch)
    if watch is None and prompts and max_new_tokens > 0:
        results = run_search(model, prompts, strategy, max_new_tokens, constraints)
        if results is not None:
            return results
    moment = None
    for moment in moments(model, prompts, strategy, max_new_tokens=max_new_tokens, constraints=constraints):
        if watch is not None:
            watch(moment)
    return strategy.finish(moment.hypotheses) if moment is not None else []
