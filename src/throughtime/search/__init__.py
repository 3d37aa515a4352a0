"""A model run forward, token by token.

A strategy is one file and one line in `STRATEGIES`, or an entry point; it sees log-probabilities and
hypotheses, never a model.
"""

from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam, StochasticBeam
from throughtime.search.constraints import (
    Constraint,
    forbidden,
    forced_prefix,
    minimum_length,
    no_repeated_ngram,
    no_token,
    required,
)
from throughtime.search.ensemble import Ensemble
from throughtime.search.exact import BestPath, ExactResult, SearchErrors, exact, search_errors, viterbi
from throughtime.search.exhaustive import Exhaustive, SearchCosts, count_candidates, exhaustive
from throughtime.search.generate import Moment, Watched, generate, moments
from throughtime.search.interface import (
    Finished,
    Hypotheses,
    Memory,
    State,
    Step,
    StepModel,
    Strategy,
    select,
)
from throughtime.search.sampling import Greedy, Sampling
from throughtime.search.scoring import within_hypothesis, within_token
from throughtime.search.strategies import STRATEGIES, build_strategy, strategy_options
from throughtime.search.trace import Node, Trace

__all__ = [
    "STRATEGIES",
    "Beam",
    "BestPath",
    "Constraint",
    "DiverseBeam",
    "Ensemble",
    "ExactResult",
    "Exhaustive",
    "Finished",
    "Greedy",
    "Hypotheses",
    "Memory",
    "Moment",
    "Node",
    "Sampling",
    "SearchCosts",
    "SearchErrors",
    "State",
    "Step",
    "StepModel",
    "StochasticBeam",
    "Strategy",
    "Trace",
    "Watched",
    "build_strategy",
    "count_candidates",
    "exact",
    "exhaustive",
    "forbidden",
    "forced_prefix",
    "generate",
    "minimum_length",
    "moments",
    "no_repeated_ngram",
    "no_token",
    "required",
    "search_errors",
    "select",
    "strategy_options",
    "viterbi",
    "within_hypothesis",
    "within_token",
]
