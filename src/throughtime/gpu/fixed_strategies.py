"""The strategies that can search in steps of fixed shape, and the kernels that choose as they do.

The plain loop defines what a strategy finds; `FORMS` lists those that find the same in fixed shapes. All
others (diverse, stochastic, exhaustive and exact search, pruning, those of other packages) use the loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu.beam import BeamOptions, BeamStep, BeamTensors, Reach, fits
from throughtime.gpu.fixed_search import Decision, FixedRows, FixedSearch, FixedStrategy
from throughtime.search.beam import Beam
from throughtime.search.candidates import BeamRows
from throughtime.search.generate import MIN_LOG_PROBABILITY
from throughtime.search.sampling import Greedy, Sampling

CHOOSING = {"advance", "candidates", "score", "ceiling", "alone", "choose", "probabilities", "finish"}
"""The attributes of a strategy that decide what it finds."""


class FixedBeam:
    """Beam search in steps of fixed shape; every cell of its table has a row, which may be dead."""

    def __init__(self, beam: Beam) -> None:
        self.beam, self.n_best = beam, beam.n_best

    @property
    def recording_key(self) -> Hashable | None:
        """See `FixedStrategy`."""
        beam = self.beam
        if beam.prune is not None or beam.groups > 1:
            return None
        return "beam", beam.end_id, beam.width, beam.n_best, beam.length_penalty, beam.max_length, beam.eager

    def begin(self, sentences: int, steps: int) -> FixedRows:
        """Begin with one live row for each sentence, the first of its cells."""
        rows = FixedRows.begin(sentences, self.beam.width)
        rows.live.view(sentences, -1)[:, 1:] = False
        rows.log_prob.masked_fill_(~rows.live, -torch.inf)
        best = rows.log_prob.new_full((sentences, self.beam.groups, self.n_best), -torch.inf)
        return rows._replace(best=best)

    def decide(self, log_probs: Tensor, rows: FixedRows) -> Decision:
        """See `FixedStrategy`."""
        alive = rows.sentence.view(len(rows.best), -1)[:, 0]
        table = BeamRows(
            rows.sentence,
            rows.log_prob,
            width=self.beam.width,
            rank=rows.log_prob,
            best=rows.best,
            alive=alive,
        )
        chosen = self.beam.judge(self.beam.candidates(log_probs, table), rows.best, rows.length + 1)
        row, token, log_prob, _ = (x.flatten() for x in chosen.candidates)
        return Decision(row, token, log_prob, chosen.ended.flatten(), chosen.going_on.flatten(), chosen.best)

    def fuse(self, search: FixedSearch, log_probs: Tensor) -> BeamStep | None:
        """Return kernels that `decide` and write the history of a search; None if they do not fit it."""
        beam = self.beam
        reach, bound = Reach.NEXT if beam.eager else Reach.BOUND, 1.0
        if beam.max_length is not None:
            bound = beam.max_length**beam.length_penalty
        elif not beam.eager:
            reach = Reach.ANY if beam.length_penalty else Reach.ITSELF
        options = BeamOptions(
            beam.end_id, beam.width, beam.n_best, beam.length_penalty, reach, bound, beam.alone
        )
        return fuse_choice(options, search, log_probs)

    def score(self, log_prob: Tensor, lengths: Tensor) -> Tensor:
        """See `FixedStrategy`; the plain loop divides by powers that Python has computed, too."""
        longest, penalty = int(lengths.max()) if len(lengths) else -1, self.beam.length_penalty
        divisors = [max(length, 1) ** penalty for length in range(longest + 1)]
        return log_prob / torch.tensor(divisors, dtype=log_prob.dtype)[lengths]


class FixedGreedy:
    """Greedy search in steps of fixed shape."""

    n_best = None

    def __init__(self, greedy: Greedy) -> None:
        self.end_id = greedy.end_id

    @property
    def recording_key(self) -> Hashable | None:
        """See `FixedStrategy`."""
        return "greedy", self.end_id

    def begin(self, sentences: int, steps: int) -> FixedRows:
        """Begin with one row for each sentence, which has no result yet."""
        rows = FixedRows.begin(sentences, 1)
        return rows._replace(best=rows.log_prob.new_full((sentences, 1, 1), -torch.inf))

    def decide(self, log_probs: Tensor, rows: FixedRows) -> Decision:
        """Every row takes its likeliest token."""
        return append_fixed(rows, log_probs, log_probs.argmax(dim=1), self.end_id)

    def fuse(self, search: FixedSearch, log_probs: Tensor) -> BeamStep | None:
        """Return the kernels of a beam search with one row, which chooses the same tokens."""
        options = BeamOptions(self.end_id, 1, 1, 0.0, Reach.ITSELF, 1.0, alone=True)
        return fuse_choice(options, search, log_probs)

    def score(self, log_prob: Tensor, lengths: Tensor) -> Tensor:
        """Return the log-probability itself."""
        return log_prob


class FixedSampling:
    """Sampling in steps of fixed shape; all random numbers are drawn before the first."""

    n_best = None

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling

    @property
    def recording_key(self) -> Hashable | None:
        """See `FixedStrategy`; the seed is not part of it, since the numbers are an input of the step."""
        sampling = self.sampling
        options = sampling.temperature, sampling.top_k, sampling.top_p, sampling.num_return_sequences
        return "sampling", sampling.end_id, *options

    def begin(self, sentences: int, steps: int) -> FixedRows:
        """As many rows for each sentence as texts are drawn, with the random numbers of all steps."""
        draws = self.sampling.begin_draws(sentences)
        points = np.concatenate([draws.block(step) for step in range(0, steps, draws.size)])[:steps]
        rows = FixedRows.begin(sentences, self.sampling.num_return_sequences)
        return rows._replace(points=torch.from_numpy(points))

    def decide(self, log_probs: Tensor, rows: FixedRows) -> Decision:
        """Every row draws a token; log-probabilities stay those of the model."""
        points = rows.points.index_select(0, rows.length[None])[0]
        token = self.sampling.choose(log_probs, points)
        return append_fixed(rows, log_probs, token, self.sampling.end_id)

    def score(self, log_prob: Tensor, lengths: Tensor) -> Tensor:
        """Return the log-probability itself."""
        return log_prob


FORMS: dict[type, Callable[[Any], FixedStrategy]] = {
    Beam: FixedBeam,
    Greedy: FixedGreedy,
    Sampling: FixedSampling,
}
"""The fixed form of each strategy that has one."""


def fixed_form(strategy: object) -> FixedStrategy | None:
    """Return the fixed form of a strategy; None if it needs the plain loop.

    A subclass that changes how `advance` chooses has none, unless `FORMS` has one for the subclass.
    """
    if getattr(strategy, "__dict__", {}).keys() & CHOOSING:
        return None
    for kind in type(strategy).__mro__:
        if kind in FORMS:
            form = FORMS[kind](strategy)
            return None if form.recording_key is None else form
        if vars(kind).keys() & CHOOSING:
            break
    return None


def recording_key(strategy: object) -> Hashable | None:
    """Return the class and all options that choices depend on; None if it needs the plain loop."""
    form = fixed_form(strategy)
    return None if form is None else (type(strategy), form.recording_key)


def append_fixed(rows: FixedRows, log_probs: Tensor, token: Tensor, end_id: int | None) -> Decision:
    """Give every row one token; rows stay where they are when they end."""
    gained = log_probs.gather(1, token[:, None]).squeeze(1)
    total = rows.log_prob + gained.to(rows.log_prob.dtype)
    if end_id is None:
        return Decision(None, token, total, torch.zeros_like(rows.live), rows.live, rows.best)
    over = token == end_id
    return Decision(None, token, total, rows.live & over, rows.live & ~over, rows.best)


def fuse_choice(options: BeamOptions, search: FixedSearch, log_probs: Tensor) -> BeamStep | None:
    """Return kernels that choose and write the history of a search; None if they do not fit it."""
    end_id = options.end_id
    barred = [(token, one.until) for one in search.constraints for token in one.tokens]
    ids = [token for token, _ in barred] + [0 if end_id is None else end_id]
    ids_in_vocabulary = min(ids) >= 0 and max(ids) < log_probs.shape[1]
    constraints_supported = bool(search.constraints) == bool(barred) and not (barred and end_id is None)
    if not (ids_in_vocabulary and constraints_supported and fits(options, log_probs)):
        return None
    tensors = BeamTensors(
        search.rows.length,
        search.rows.log_prob,
        search.rows.live,
        search.last,
        search.came_from,
        search.rows.best,
        search.tokens,
        search.parents,
        search.log_probs,
        search.ended,
        search.live,
        search.reached,
    )
    try:
        return BeamStep(options, tensors, log_probs.shape[1], barred, MIN_LOG_PROBABILITY)
    except ThroughtimeError as error:
        warnings.warn(f"the search runs without its kernels: {error}", ThroughtimeWarning, stacklevel=2)
        return None
