"""Measures by name: numbers that compare a model's predictions with references.

`evaluate` computes those that are asked for, and training can keep the weights that are best by one
(`choose_by`). Another package adds a measure with an entry point of the group `throughtime.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from throughtime.errors import InputError
from throughtime.registry import Registry

Compute = Callable[[Sequence[str], Sequence[str]], Mapping[str, float]]
"""From predictions and references, one of each for every input, to values by name."""


@dataclass(frozen=True)
class Measure:
    """How predictions are scored, which tasks that fits, and whether less or more is better.

    Predictions are translations for `translate`, labels for `classify`. Of several values the first decides
    where a measure is chosen by.

    >>> equal = Measure(lambda given, right: {"equal": sum(map(str.__eq__, given, right)) / len(right)})
    >>> equal.value(["a", "b"], ["a", "c"])
    0.5
    """

    compute: Compute
    tasks: tuple[str, ...] = ("translate", "classify")
    better: Literal["less", "more"] = "more"

    def value(self, predictions: Sequence[str], references: Sequence[str]) -> float:
        """The value that decides; 0 where there is nothing to score."""
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
    """The measure of this name; refuse one that does not fit the task."""
    measure = MEASURES[name]
    if task not in measure.tasks:
        raise InputError("measure", f"{name!r} is for {' and '.join(measure.tasks)}, not for {task}")
    return measure


def compute_measures(
    names: Iterable[str], task: str, predictions: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """The values of several measures.

    >>> compute_measures(["ter"], "translate", ["the cat sat"], ["the cat sat"])
    {'ter': 0.0}
    """
    found: dict[str, float] = {}
    for name in names:
        found |= find_measure(name, task).compute(predictions, references)
    return found
