"""Measures by name, which compare the predictions of a model with references.

`evaluate` computes the measures that it is given, and training can choose the best weights by one
(`choose_by`). Another package adds a measure with an entry point of the group `throughtime.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
