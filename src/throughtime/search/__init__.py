"""A model run forward, token by token.

A strategy is one file and one line in STRATEGIES; it sees log-probabilities and hypotheses, never a model.
"""

from throughtime.search.beam import Beam
from throughtime.search.constraints import (
    Constraint,
    forbidden,
    forced_prefix,
    minimum_length,
    no_repeated_ngram,
    no_token,
)
from throughtime.search.diverse import DiverseBeam
from throughtime.search.ensemble import Ensemble
from throughtime.search.exact import ExactResult, SearchErrors, exact, search_errors
from throughtime.search.exhaustive import Counts, Exhaustive, candidates, counts, exhaustive
from throughtime.search.forgetful import Forgetful
from throughtime.search.generate import Moment, Strategy, generate, moments
from throughtime.search.greedy import Greedy
from throughtime.search.hypotheses import Finished, Hypotheses
from throughtime.search.required import required
from throughtime.search.sampling import Sampling
from throughtime.search.scoring import within_hypothesis, within_token
from throughtime.search.step import Memory, State, Step, StepModel, select
from throughtime.search.stochastic import StochasticBeam
from throughtime.search.trace import Node, Trace
from throughtime.search.viterbi import BestPath, viterbi

STRATEGIES = {
    "greedy": Greedy,
    "sampling": Sampling,
    "beam": Beam,
    "diverse": DiverseBeam,
    "stochastic": StochasticBeam,
}

__all__ = [
    "STRATEGIES",
    "Beam",
    "BestPath",
    "Constraint",
    "Counts",
    "DiverseBeam",
    "Ensemble",
    "ExactResult",
    "Exhaustive",
    "Finished",
    "Forgetful",
    "Greedy",
    "Hypotheses",
    "Memory",
    "Moment",
    "Node",
    "Sampling",
    "SearchErrors",
    "State",
    "Step",
    "StepModel",
    "StochasticBeam",
    "Strategy",
    "Trace",
    "candidates",
    "counts",
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
    "viterbi",
    "within_hypothesis",
    "within_token",
]
