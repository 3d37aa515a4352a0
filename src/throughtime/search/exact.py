"""The likeliest sequence: by branch and bound for any model, by Viterbi's algorithm for a chain."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.search.beam import Beam
from throughtime.search.constraints import forced_prefix
from throughtime.search.frontier import ROOT, Frontier, Prefixes
from throughtime.search.generate import (
    Constraint,
    Finished,
    Hypotheses,
    Moment,
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
        if value < 1:
            raise InputError(name, f"is {value}, expected 1 or more")
    if first is None:
        first = [IMPOSSIBLE] * len(prompts)
    if len(first) != len(prompts):
        raise InputError(
            "first", f"has {len(first)} results for {len(prompts)} prompts, expected one for each"
        )
    if not prompts:
        return []
    last, state, memory = model.start(prompts)
    best = _Best(first, last.device, end_id, max_new_tokens)
    frontier = Frontier(last, state, budget)
    alive = torch.arange(len(prompts), device=last.device)
    while taken := frontier.take(at_once):
        memory = memory.follow(torch.searchsorted(alive, taken.sentence))
        alive = torch.unique_consecutive(taken.sentence)
        log_probs, state, _ = model.step(taken.token, taken.state, memory)
        if constraints:
            log_probs = _constrain(log_probs, taken, frontier, constraints, end_id)
        if best.improve(taken, log_probs):
            frontier.prune(best.log_prob)
        frontier.put(taken, state, *best.worth_while(taken, log_probs))
    resolved, expansions = frontier.decided(best.log_prob).tolist(), frontier.expansions.tolist()
    return [ExactResult(*one) for one in zip(best.found(frontier), resolved, expansions, strict=True)]


def _constrain(
    log_probs: Tensor,
    taken: Prefixes,
    frontier: Frontier,
    constraints: Sequence[Constraint],
    end_id: int | None,
) -> Tensor:
    """Apply constraints, one depth after another, because they expect hypotheses of one length."""
    for depth in taken.depth.unique().tolist():
        rows = (taken.depth == depth).nonzero().flatten()
        prefixes = frontier.prefixes(taken.node[rows], depth)
        hypotheses = Hypotheses(taken.sentence[rows], taken.log_prob[rows], depth, (), prefixes)
        log_probs[rows] = apply_constraints(log_probs[rows], hypotheses, constraints, end_id)
    return log_probs


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
        found = generate(model, prompts, beam, max_new_tokens=max_new_tokens, constraints=constraints)
        first = [own[0] for own in found]
        best = exact(
            model,
            prompts,
            self.end_id,
            max_new_tokens=max_new_tokens,
            budget=self.budget,
            first=first,
            constraints=constraints,
        )
        if uncertain := sum(not one.resolved for one in best):
            warnings.warn(
                f"exact search is not certain of {uncertain} of {len(best)} results after {self.budget:,} "
                "expansions; raise `budget`",
                ThroughtimeWarning,
                stacklevel=2,
            )
        chosen = [
            beam if one.best.log_prob == -torch.inf else one.best
            for beam, one in zip(first, best, strict=True)
        ]
        # Generating the results once more gives them their paths, and `watch` its steps.
        ways = [
            [*one.tokens, self.end_id] if one.ended and self.end_id is not None else one.tokens
            for one in chosen
        ]
        return generate(
            model,
            prompts,
            Greedy(self.end_id),
            max_new_tokens=max_new_tokens,
            constraints=[forced_prefix(ways)],
            watch=watch,
        )


class _Best:
    """The best sequence of each sentence so far."""

    def __init__(
        self, first: Sequence[Finished], device: torch.device, end_id: int | None, max_new_tokens: int
    ) -> None:
        self.end_id, self.max_new_tokens = end_id, max_new_tokens
        self.first = [one if self._eligible(one) else IMPOSSIBLE for one in first]
        log_prob = [one.log_prob for one in self.first]
        self.log_prob = torch.tensor(log_prob, dtype=torch.float64, device=device)  # [S]
        self.node = torch.full((len(first),), ROOT, device=device)  # [S], ROOT while it is the one of `first`
        self.token = torch.zeros_like(self.node)  # [S], what follows the node's prefix

    def improve(self, taken: Prefixes, log_probs: Tensor) -> bool:
        """Return whether a prefix that is completed now beats the best sequence of its sentence."""
        if self.end_id is None:
            gained, token = log_probs.max(dim=1)
            gained = gained.masked_fill(self._goes_on(taken), -torch.inf)
        else:
            gained, token = log_probs[:, self.end_id], torch.full_like(taken.token, self.end_id)
        total = taken.log_prob + gained  # [rows]
        highest = self.log_prob.scatter_reduce(0, taken.sentence, total, "amax")
        rows = (
            ((total > self.log_prob[taken.sentence]) & (total == highest[taken.sentence])).nonzero().flatten()
        )
        self.log_prob = highest
        if not len(rows):
            return False
        sentence = taken.sentence[rows]
        new = torch.ones_like(rows, dtype=torch.bool)
        new[1:] = sentence[1:] != sentence[:-1]  # one winner per sentence
        self.node[sentence[new]], self.token[sentence[new]] = taken.node[rows[new]], token[rows[new]]
        return True

    def worth_while(self, taken: Prefixes, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The continuations that may still beat the best sequence: row, token, log-probability."""
        bound = self.log_prob[taken.sentence]
        # This drops most tokens, in the model's precision and with a bound that is a little lower.
        least = torch.nextafter(
            (bound - taken.log_prob).to(log_probs.dtype), log_probs.new_tensor(-torch.inf)
        )
        worth = log_probs > least.masked_fill(~self._goes_on(taken), torch.inf)[:, None]
        if self.end_id is not None:
            worth[:, self.end_id] = False
        row, token = worth.nonzero().unbind(1)
        total = taken.log_prob[row] + log_probs[row, token]
        above = total > bound[row]
        return row[above], token[above], total[above]

    def found(self, frontier: Frontier) -> list[Finished]:
        """The best sequence of each sentence."""
        results = []
        for first, log_prob, node, token in zip(
            self.first, self.log_prob.tolist(), self.node.tolist(), self.token.tolist(), strict=True
        ):
            if node == ROOT:
                results.append(replace(first, score=first.log_prob))
                continue
            tokens = frontier.tokens(node)
            if self.end_id is None:
                tokens = (*tokens, token)
            results.append(Finished(tokens, log_prob, log_prob, ended=self.end_id is not None))
        return results

    def _goes_on(self, taken: Prefixes) -> Tensor:
        """Which prefixes have room for a token that is not their last. [rows]"""
        return taken.depth + 1 < self.max_new_tokens

    def _eligible(self, first: Finished) -> bool:
        if self.end_id is None:
            return len(first.tokens) == self.max_new_tokens
        return first.ended and len(first.tokens) < self.max_new_tokens


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
