"""A model run forward, token by token.

A strategy is one file and one line in STRATEGIES; it sees log-probabilities and hypotheses, never a model.
"""

from throughtime.search.forgetful import Forgetful
from throughtime.search.generate import Constraint, Moment, Strategy, generate, moments
from throughtime.search.greedy import Greedy
from throughtime.search.hypotheses import Finished, Hypotheses
from throughtime.search.sampling import Sampling
from throughtime.search.step import Memory, State, Step, StepModel, select
from throughtime.search.viterbi import BestPath, viterbi

STRATEGIES = {"greedy": Greedy, "sampling": Sampling}

__all__ = [
    "STRATEGIES",
    "BestPath",
    "Constraint",
    "Finished",
    "Forgetful",
    "Greedy",
    "Hypotheses",
    "Memory",
    "Moment",
    "Sampling",
    "State",
    "Step",
    "StepModel",
    "Strategy",
    "generate",
    "moments",
    "select",
    "viterbi",
]
