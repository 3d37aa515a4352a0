"""The likeliest sequence: by branch and bound for any model, by Viterbi's algorithm for a chain."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.errors import InputError, ThroughtimeWarning, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.search.beam import Beam
from throughtime.search.constraints import forced_prefix
from throughtime.search.generate import (
    Constraint,
    Finished,
    Hypotheses,
    Moment,
    SearchState,
    StepModel,
    apply_constraints,
    generate,
)
from throughtime.search.sampling import Greedy

BUDGET = 20_000
IMPOSSIBLE = Finished((), -torch.inf, -torch.inf, ended=False)


@dataclass(frozen=True)
class ExactResult:
    """The result of exact search for one sentence.

    If `resolved`, `best` is the model's likeliest sequence; otherwise it is the best one found, with a
    log-probability of -inf if none of positive probability was found.
    """

    best: Finished
    resolved: bool
    expansions: int  # number of prefixes that the model continued


@torch.inference_mode()
def exact(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    end_id: int | None,
    *,
    max_new_tokens: int,
    budget: int = BUDGET,
    first: Sequence[Finished] | None = None,
    at_once: int = 16,
    constraints: Sequence[Constraint] = (),
) -> list[ExactResult]:
    """The sequence of highest log-probability for each prompt (Stahlberg and Byrne, 2019).

    The optimum is over all sequences that end with the end token within `max_new_tokens`, including that
    token. Without an `end_id` it is over all sequences of exactly `max_new_tokens`.

    The probability of a prefix only falls when it is continued, so a prefix that is no better than the best
    sequence so far is dropped. `first` are sequences to start from, such as those of a beam: the better they
    are, the less is searched. A sentence that is not decided after `budget` expansions is returned as
    unresolved. `at_once` prefixes of a sentence are continued in one step of the model.
    """
    for name, value in [("max_new_tokens", max_new_tokens), ("budget", budget), ("at_once", at_once)]:
        check_whole(name, value)
    best = _start_from(first, len(prompts), end_id, max_new_tokens)
    if not prompts:
        return []
    last, state, memory = model.start(prompts)
    dtypes, device = [tensor.dtype for tensor in state], last.device
    starts = [ReadPrefix((), tuple(tensor[row] for tensor in state)) for row in range(len(prompts))]
    frontiers = [Frontier(*start, budget) for start in zip(starts, last.tolist(), strict=True)]
    alive = torch.arange(len(prompts), device=device)
    while len(taken := np.concatenate(parts := [frontier.take(at_once) for frontier in frontiers])):
        check_interrupt()
        owners = np.repeat(np.arange(len(parts)), [*map(len, parts)])
        pairs = zip(taken["parent"], taken["token"], strict=True)
        prefixes = [(*parent.tokens, token) for parent, token in pairs]
        sentence, token, log_prob = (
            torch.from_numpy(np.ascontiguousarray(x)).to(device)
            for x in (owners, taken["token"], taken["log_prob"])
        )
        memory = memory.follow(torch.searchsorted(alive, sentence))
        alive = torch.unique_consecutive(sentence)
        entering = zip(*(parent.state for parent in taken["parent"]), strict=True)
        log_probs, state, _ = model.step(token, tuple(map(torch.stack, entering)), memory)
        if constraints:
            log_probs = _constrain(log_probs, sentence, prefixes, log_prob, constraints, end_id)
        goes_on = torch.tensor([len(prefix) < max_new_tokens for prefix in prefixes], device=device)
        complete = _complete_sequences(log_probs, log_prob, goes_on, end_id)
        _improve(best, owners, prefixes, complete, ends=end_id is not None)
        bound = log_prob.new_tensor([best[owner].log_prob for owner in owners])
        row, following, total = _find_promising(log_probs, log_prob, bound, goes_on, end_id)
        parents = _keep_states(prefixes, state, dtypes, row)
        of_sentence = np.searchsorted(owners[row], np.arange(len(prompts) + 1))
        for owner in np.unique(owners):
            at = slice(*of_sentence[owner : owner + 2])
            frontiers[owner].put(parents[row[at]], following[at], total[at], best[owner].log_prob)
    return [
        ExactResult(result, frontier.is_decided(result.log_prob), frontier.expansions)
        for result, frontier in zip(best, frontiers, strict=True)
    ]


def _start_from(
    first: Sequence[Finished] | None, count: int, end_id: int | None, max_new_tokens: int
) -> list[Finished]:
    """Return the sequence to start from for each prompt; one that the optimum is not over is impossible."""
    if first is None:
        first = [IMPOSSIBLE] * count
    if len(first) != count:
        raise InputError("first", f"has {len(first)} results for {count} prompts, expected one for each")

    def fits(result: Finished) -> bool:
        if end_id is None:
            return len(result.tokens) == max_new_tokens
        return result.ended and len(result.tokens) < max_new_tokens

    return [replace(result, score=result.log_prob) if fits(result) else IMPOSSIBLE for result in first]


def _improve(
    best: list[Finished],
    owners: NDArray[Any],
    prefixes: Sequence[tuple[int, ...]],
    complete: Sequence[tuple[int, float]],
    ends: bool,
) -> None:
    """Replace the best sequence of a sentence by likelier ones, as `_complete_sequences` returns them."""
    for owner, (_, *tokens), (last, total) in zip(owners, prefixes, complete, strict=True):
        if total > best[owner].log_prob:
            best[owner] = Finished(tuple(tokens if ends else [*tokens, last]), total, total, ended=ends)


def _keep_states(
    prefixes: Sequence[tuple[int, ...]], state: SearchState, dtypes: Sequence[torch.dtype], rows: NDArray[Any]
) -> NDArray[Any]:
    """Return the prefixes of these rows with copies of their states, in an array of all rows."""
    kept = np.empty(len(prefixes), dtype=object)
    for row in np.unique(rows):
        copied = (tensor[row].to(dtype, copy=True) for tensor, dtype in zip(state, dtypes, strict=True))
        kept[row] = ReadPrefix(prefixes[row], tuple(copied))
    return kept


def _complete_sequences(
    log_probs: Tensor, log_prob: Tensor, goes_on: Tensor, end_id: int | None
) -> list[tuple[int, float]]:
    """Return the last token of the sequence that each row completes, and the log-probability of the whole."""
    if end_id is None:
        gained, final = log_probs.max(dim=1)
        gained = gained.masked_fill(goes_on, -torch.inf)
    else:
        gained, final = log_probs[:, end_id], torch.full_like(goes_on, end_id, dtype=torch.long)
    return [*zip(final.tolist(), (log_prob + gained).tolist(), strict=True)]


def _find_promising(
    log_probs: Tensor, before: Tensor, bound: Tensor, goes_on: Tensor, end_id: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The continuations that may still beat the bound of their row: row, token, log-probability."""
    # This drops most tokens, in the model's precision and with a bound that is a little lower.
    least = torch.nextafter((bound - before).to(log_probs.dtype), log_probs.new_tensor(-torch.inf))
    worth = log_probs > least.masked_fill(~goes_on, torch.inf)[:, None]
    if end_id is not None:
        worth[:, end_id] = False
    row, token = worth.nonzero().unbind(1)
    total = before[row] + log_probs[row, token]
    above = total > bound[row]
    return row[above].cpu().numpy(), token[above].cpu().numpy(), total[above].cpu().numpy()


def _constrain(
    log_probs: Tensor,
    sentence: Tensor,
    prefixes: Sequence[tuple[int, ...]],
    log_prob: Tensor,
    constraints: Sequence[Constraint],
    end_id: int | None,
) -> Tensor:
    """Apply constraints, one length after another, because they expect hypotheses of one length."""
    lengths = torch.tensor([len(prefix) - 1 for prefix in prefixes], device=log_probs.device)
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero().flatten()
        tokens = rows.new_tensor([prefixes[row][1:] for row in rows.tolist()]).view(len(rows), length)
        hypotheses = Hypotheses(sentence[rows], log_prob[rows], length, (), tokens)
        log_probs[rows] = apply_constraints(log_probs[rows], hypotheses, constraints, end_id)
    return log_probs


@dataclass(frozen=True)
class ReadPrefix:
    """A prefix that the model has read, beginning with its first input; all its continuations share it."""

    tokens: tuple[int, ...]
    state: SearchState  # one row of each tensor, after these tokens


WAITING = np.dtype([("parent", object), ("token", np.int64), ("log_prob", np.float64)])


class Frontier:
    """The prefixes of one sentence that exact search has yet to continue: a stack.

    A prefix waits as (parent, token, log_prob): the token will be fed to the parent's state. Of the prefixes
    that were put in together, the likeliest comes out first. A stack that grows beyond twice the budget of
    expansions forgets its least likely prefixes. This loses nothing: a search that needs them would first
    have to take all likelier ones, which are more than the budget.
    """

    def __init__(self, start: ReadPrefix, token: int, budget: int) -> None:
        self.budget, self.expansions = budget, 0
        self.waiting = np.array([(start, token, 0.0)], dtype=WAITING)
        self._best_dropped = -math.inf

    def take(self, most: int) -> NDArray[Any]:
        """Take up to `most` prefixes within the budget, the likeliest first."""
        left = max(len(self.waiting) - most, len(self.waiting) - self.budget + self.expansions, 0)
        taken, self.waiting = self.waiting[left:][::-1], self.waiting[:left]
        self.expansions += len(taken)
        return taken

    def put(
        self, parents: NDArray[Any], tokens: NDArray[Any], log_probs: NDArray[Any], bound: float = -math.inf
    ) -> None:
        """Add continuations, and drop all prefixes that are not likelier than the bound."""
        new = np.empty(len(tokens), dtype=WAITING)
        new["parent"], new["token"], new["log_prob"] = parents, tokens, log_probs
        new = new[np.argsort(log_probs, kind="stable")]
        waiting = np.concatenate([self.waiting[self.waiting["log_prob"] > bound], new])
        if len(waiting) > 2 * self.budget:
            order = np.argsort(waiting["log_prob"], kind="stable")
            self._best_dropped = max(self._best_dropped, waiting["log_prob"][order[-self.budget - 1]])
            waiting = waiting[np.sort(order[-self.budget :])]
        self.waiting = waiting

    def is_decided(self, bound: float) -> bool:
        """Whether no waiting or forgotten prefix is likelier than the bound."""
        return not len(self.waiting) and self._best_dropped <= bound


class Exact(Beam):
    """Find the likeliest sequence by branch and bound, starting from the result of a beam.

    A result that is not certain to be the likeliest one after `budget` expansions comes with a warning.
    """

    def __init__(
        self,
        end_id: int | None,
        *,
        budget: Annotated[int, "Maximum number of prefixes to expand per sentence"] = BUDGET,
    ) -> None:
        super().__init__(end_id, length_penalty=0.0)
        self.budget = budget

    def search(
        self,
        model: StepModel,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        constraints: Sequence[Constraint],
        watch: Callable[[Moment], None] | None,
    ) -> list[list[Finished]]:
        """The likeliest sequence of each prompt; `watch` sees the steps that lead to it."""
        beam = Beam(self.end_id, length_penalty=0.0, max_length=max_new_tokens)
        beams = generate(model, prompts, beam, max_new_tokens=max_new_tokens, constraints=constraints)
        first = [results[0] for results in beams]
        best = exact(
            model,
            prompts,
            self.end_id,
            max_new_tokens=max_new_tokens,
            budget=self.budget,
            first=first,
            constraints=constraints,
        )
        if uncertain := sum(not result.resolved for result in best):
            warnings.warn(
                f"exact search is not certain of {uncertain} of {len(best)} results after {self.budget:,} "
                "expansions; raise `budget`",
                ThroughtimeWarning,
                stacklevel=2,
            )
        chosen = [
            beam if result.best.log_prob == -torch.inf else result.best
            for beam, result in zip(first, best, strict=True)
        ]
        # Generating the results once more gives them their paths, and `watch` its steps.
        ways = [
            [*result.tokens, self.end_id] if result.ended and self.end_id is not None else result.tokens
            for result in chosen
        ]
        return generate(
            model,
            prompts,
            Greedy(self.end_id),
            max_new_tokens=max_new_tokens,
            constraints=[forced_prefix(ways)],
            watch=watch,
        )


class BestPath(NamedTuple):
    """The best path of each row, and its score."""

    states: Tensor  # [T, B], 0 past a row's length
    score: Tensor  # [B]


def viterbi(scores: Tensor, transitions: Tensor, lengths: Tensor | None = None) -> BestPath:
    """The path s_1..s_T with the highest sum of scores[t, s_t] + transitions[s_{t-1}, s_t].

    `scores` is [T, B, S], with the scores of the first state in its first row; `transitions` is [S, S]. Takes
    T S^2 steps, where trying all paths would take S^T.

    >>> scores = torch.tensor([[[0.0, 1.0]], [[0.0, 0.0]]])            # two steps, one row, two states
    >>> viterbi(scores, torch.tensor([[0.0, 5.0], [0.0, 0.0]])).states.flatten().tolist()
    [0, 1]
    """
    steps, batch, _ = scores.shape
    if lengths is None:
        lengths = torch.full((batch,), steps, device=scores.device)
    best = scores[0]  # [B, S]
    came_from = []
    for t in range(1, steps):
        reach, previous = (best[:, :, None] + transitions).max(dim=1)  # [B, S]
        inside = (t < lengths)[:, None]
        best = torch.where(inside, reach + scores[t], best)
        stay = torch.arange(best.shape[1], device=scores.device).expand_as(previous)
        came_from.append(torch.where(inside, previous, stay))
    score, state = best.max(dim=1)
    path = [state]
    for previous in reversed(came_from):
        path.append(previous.gather(1, path[-1][:, None]).squeeze(1))
    states = torch.stack(path[::-1])
    inside = torch.arange(steps, device=scores.device)[:, None] < lengths
    return BestPath(states.masked_fill(~inside, 0), score)
