"""Language models that learn from the text they are evaluated on: a neural cache, dynamic evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch import Tensor

from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.models.readers import DynamicEvaluation, NeuralCache, gradient_scales
from throughtime.tasks.base import Progress

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.language.predictor import RecurrentLanguage

ROWS = 100
"""Number of rows of the training text that are read side by side to measure gradients."""
BATCHES = 500
"""Maximum number of batches of such rows."""


@dataclass(frozen=True)
class ReadingOptions:
    """The options with which an evaluated model learns from each token after it was scored.

    `cache` is the number of tokens that a neural cache remembers, `cache_share` its share of the probability
    and `cache_theta` how sharply it prefers similar states. `dynamic` is the learning rate of dynamic
    evaluation, which makes an update after `dynamic_steps` tokens and draws the weights back to the trained
    ones by `dynamic_decay`; with `dynamic_scaled` the updates are divided by the size of gradients on the
    training text. The model itself does not change.
    """

    cache: int | None = None
    cache_theta: float | None = None
    cache_share: float | None = None
    dynamic: float | None = None
    dynamic_decay: float | None = None
    dynamic_steps: int | None = None
    dynamic_scaled: bool = False

    def __post_init__(self) -> None:
        """Refuse options of a cache or a dynamic evaluation that was not asked for."""
        for name, value in vars(self).items():
            reader, _, option = name.partition("_")
            if option and value is not None and value is not False and getattr(self, reader) is None:
                raise InputError(name, f"needs {reader}; set it too")

    def arguments(self, reader: str, *names: str) -> dict[str, Any]:
        """The given arguments of a reader."""
        given = {name: getattr(self, f"{reader}_{name}") for name in names}
        return {name: value for name, value in given.items() if value is not None}


def neural_cache(options: ReadingOptions) -> NeuralCache | None:
    """Build the cache that the options ask for."""
    if options.cache is None:
        return None
    with _name_parameters("cache", "window"):
        return NeuralCache(options.cache, **options.arguments("cache", "theta", "share"))


def dynamic_evaluation(
    options: ReadingOptions,
    cache: NeuralCache | None,
    language: RecurrentLanguage,
    dataset: Dataset,
    progress: Progress | None = None,
) -> DynamicEvaluation | None:
    """Build the dynamic evaluation that the options ask for."""
    if options.dynamic is None:
        return None
    with _name_parameters("dynamic", "rate"):
        learning = DynamicEvaluation(
            options.dynamic, cache=cache, **options.arguments("dynamic", "decay", "steps")
        )
    if options.dynamic_scaled:
        learning.scales = _scales(language, dataset, learning.steps, progress)
    return learning


def _scales(
    language: RecurrentLanguage, dataset: Dataset, steps: int, progress: Progress | None
) -> list[Tensor]:
    """The size of gradients on the training text, in pieces of the length that is learned from."""
    from throughtime.data.batching.text import SequentialPartition

    if "train" not in dataset.splits:
        raise InputError("dynamic_scaled", f"needs a training text, and {dataset.name} has none")
    ids, device = language.ids(dataset, "train"), language.device
    rows = max(1, min(ROWS, (len(ids) - 1) // steps))
    batches = SequentialPartition(ids, rows, steps, random_start=False)
    total = min(BATCHES, len(batches))

    def pieces() -> Iterator[tuple[Tensor, Tensor]]:
        for done, batch in enumerate(islice(batches, total)):
            if progress is not None:
                progress(done, total)
            yield batch.inputs.to(device), batch.labels.to(device)

    with matmul_precision("float32"):
        return gradient_scales(language.model.eval(), pieces())


@contextlib.contextmanager
def _name_parameters(reader: str, main: str) -> Iterator[None]:
    """Name the option of a reader in the errors of its parameters."""
    try:
        yield
    except InputError as error:
        raise InputError(
            reader if error.where == main else f"{reader}_{error.where}", error.problem
        ) from None
