"""Measures by name, the likelihood of a text, and the weights of interpolated models.

`evaluate` computes the measures that it is given, and training can choose the best weights by one
(`choose_by`). Another package adds a measure with an entry point of the group `throughtime.measures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import reduce
from typing import Literal

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError
from throughtime.registry import Registry

Compute = Callable[[Sequence[str], Sequence[str]], Mapping[str, float]]
"""Computes values by name from predictions and references, one of each for every input."""


@dataclass(frozen=True)
class Measure:
    """A measure, the tasks that it is for, and whether less or more is better.

    Predictions are translations for `translate` and labels for `classify`. If a measure has several values,
    training chooses by the first.

    >>> equal = Measure(lambda given, right: {"equal": sum(map(str.__eq__, given, right)) / len(right)})
    >>> equal.value(["a", "b"], ["a", "c"])
    0.5
    """

    compute: Compute
    tasks: tuple[str, ...] = ("translate", "classify")
    better: Literal["less", "more"] = "more"

    def value(self, predictions: Sequence[str], references: Sequence[str]) -> float:
        """The value that training chooses by; 0 without predictions."""
        return next(iter(self.compute(predictions, references).values())) if predictions else 0.0


MEASURES = Registry[Measure](
    "measure",
    "throughtime.measures",
    {
        "chrf": "throughtime.metrics.bleu:CHRF",
        "chrf++": "throughtime.metrics.bleu:CHRF_PLUS",
        "ter": "throughtime.metrics.bleu:TER",
    },
)


def find_measure(name: str, task: str) -> Measure:
    """Find the measure of this name; raise if it is not for the task."""
    measure = MEASURES[name]
    if task not in measure.tasks:
        raise InputError("measure", f"{name!r} is for {' and '.join(measure.tasks)}, not for {task}")
    return measure


def compute_measures(
    names: Iterable[str], task: str, predictions: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """Compute the values of several measures.

    >>> compute_measures(["ter"], "translate", ["the cat sat"], ["the cat sat"])
    {'ter': 0.0}
    """
    values: dict[str, float] = {}
    for name in names:
        values |= find_measure(name, task).compute(predictions, references)
    return values


@dataclass(frozen=True)
class Likelihood:
    """The sum of the surprisals of a text and the counts to divide it by. Sums can be added; means cannot.

    >>> short, long = Likelihood(nats=2.0, tokens=1), Likelihood(nats=2.0, tokens=3)
    >>> (short + long).cross_entropy                # not the mean of 2.0 and 0.67
    1.0
    >>> round(Likelihood.of([math.log(1 / 28)] * 100).perplexity, 9)         # uniform over 28 tokens
    28.0
    """

    nats: float = 0.0
    tokens: int = 0
    characters: int = 0
    unknown: int = 0
    """Number of tokens that are not in the vocabulary."""

    @classmethod
    def of(cls, log_probs: Iterable[float], characters: int = 0) -> Likelihood:
        """Sum the ln P of tokens exactly, so that their order does not matter."""
        values = list(log_probs)
        nats = math.inf if -math.inf in values else -math.fsum(values)
        return cls(nats, len(values), characters)

    def __add__(self, other: Likelihood) -> Likelihood:
        """Both texts together."""
        sums = (mine + its for mine, its in zip(astuple(self), astuple(other), strict=True))
        return Likelihood(*sums)

    @property
    def cross_entropy(self) -> float:
        """Mean surprisal of a token, in nats."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """exp(cross-entropy): the geometric mean of the number of choices; 1 at best, infinite at worst."""
        try:
            return math.exp(self.cross_entropy)
        except OverflowError:
            return math.inf

    @property
    def bits_per_token(self) -> float:
        """Mean surprisal of a token, in bits."""
        return self.cross_entropy / math.log(2)

    @property
    def bits_per_character(self) -> float:
        """Mean surprisal of a character, in bits, which can be compared between tokenizers."""
        return self.nats / math.log(2) / self.characters if self.characters else math.nan

    def values(self) -> dict[str, float | int]:
        """All measures and counts by name."""
        measures = ("perplexity", "cross_entropy", "bits_per_token", "bits_per_character")
        return {**{name: getattr(self, name) for name in measures}, **asdict(self)}


Floats = npt.NDArray[np.float64]

PRECISION = 1e-7
"""How far below its maximum the mean log-probability of a token may remain when weights are chosen."""
MAX_ROUNDS = 10_000
DECIMALS = 3
"""Chosen weights are rounded to as many, so that the weights that are printed are those that are used."""


def choose_weights(log_probs: Floats) -> tuple[float, ...]:
    """Choose the weights of models from their ln P of some tokens [tokens, models].

    They are those that maximise the likelihood, rounded to DECIMALS; but if a single model is at least as
    good, it gets the whole weight.

    >>> choose_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))   # the first is better at two
    (0.708, 0.292)
    >>> choose_weights(np.log([[0.9, 0.8], [0.5, 0.4]]))
    (1.0, 0.0)
    """
    weights = maximise_likelihood(log_probs)
    rounded = [round(float(weight), DECIMALS) for weight in weights]
    largest = int(np.argmax(weights))
    rest = math.fsum(rounded) - rounded[largest]
    rounded[largest] = round(1 - rest, DECIMALS)
    alone = [tuple(row) for row in np.eye(len(rounded)).tolist()]
    return max([*alone, tuple(rounded)], key=lambda one: float(mix_log_probs([*log_probs.T], one).mean()))


def maximise_likelihood(log_probs: Floats) -> Floats:
    """Find the weights that maximise the likelihood of tokens, from their ln P [tokens, models].

    Expectation maximisation: each round gives a model the mean share that it has in the probabilities of the
    tokens. The likelihood is concave, so there is no second maximum. With g_i the mean of P_i / P, the mean
    log-probability is at most max(g) - 1 below its maximum, which says when to stop.
    """
    best = log_probs.max(axis=1)
    possible = best > -math.inf  # no weights help where all models have 0
    shares = np.exp(log_probs[possible] - best[possible, None])
    count = log_probs.shape[1]
    weights = np.full(count, 1 / count)
    for _ in range(MAX_ROUNDS if len(shares) else 0):
        gains = (shares / (shares @ weights)[:, None]).mean(axis=0)
        if gains.max() - 1 < PRECISION:
            break
        weights = weights * gains
    return np.asarray(weights / weights.sum())


def mix_log_probs(log_probs: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """ln of the weighted mean of P; each model's ln P is an array of one shape."""
    weighted = (part + math.log(w) for part, w in zip(log_probs, weights, strict=True) if w > 0)
    return reduce(np.logaddexp, weighted)


def check_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Refuse weights that are not shares of one for each model."""
    if len(weights) != count:
        raise InputError("weights", f"has {len(weights)} numbers for {count} models; give one for each")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise InputError("weights", f"is {list(weights)}, expected numbers from 0 to 1")
    if abs((total := math.fsum(weights)) - 1) > 1e-6:
        raise InputError("weights", f"sums to {total:g}, expected 1")
    return tuple(float(weight) for weight in weights)
