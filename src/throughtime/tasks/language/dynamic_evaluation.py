"""The readers that the options of `throughtime evaluate` ask for: a cache, learning while reading."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from torch import Tensor

from throughtime.data.batching import SequentialPartition
from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.models.readers import DynamicEvaluation, NeuralCache, gradient_scales
from throughtime.tasks.report import Asked, Progress

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.language.task import RecurrentLanguage

READING_OPTIONS = frozenset(
    "cache cache_theta cache_share dynamic dynamic_decay dynamic_steps dynamic_scaled".split()
)
ROWS = 100
"""Of the training text, read side by side to see how large gradients are."""
BATCHES = 500
"""Of such rows, which are enough to see it."""


def neural_cache(asked: Asked) -> NeuralCache | None:
    """The cache that the options ask for."""
    chosen = {name: asked[f"cache_{name}"] for name in ("theta", "share") if f"cache_{name}" in asked}
    if asked.get("cache"):
        with _options_named():
            return NeuralCache(asked["cache"], **chosen)
    for name in chosen:
        raise InputError(f"--cache-{name}", "goes with --cache, which turns the cache on")
    return None


def dynamic_evaluation(
    asked: Asked,
    cache: NeuralCache | None,
    language: RecurrentLanguage,
    dataset: Dataset,
    progress: Progress | None = None,
) -> DynamicEvaluation | None:
    """The learning that the options ask for."""
    for name in ("decay", "steps", "scaled"):
        if f"dynamic_{name}" in asked and "dynamic" not in asked:
            raise InputError(f"--dynamic-{name}", "goes with --dynamic, which turns the learning on")
    if "dynamic" not in asked:
        return None
    chosen = {name: asked[f"dynamic_{name}"] for name in ("decay", "steps") if f"dynamic_{name}" in asked}
    with _options_named():
        learning = DynamicEvaluation(asked["dynamic"], cache=cache, **chosen)
    if "dynamic_scaled" in asked:
        learning.scales = _scales(language, dataset, learning.steps, progress)
    return learning


def _scales(
    language: RecurrentLanguage, dataset: Dataset, steps: int, progress: Progress | None
) -> list[Tensor]:
    """How large gradients are on the training text, in pieces as long as those that are learned from."""
    if "train" not in dataset.splits:
        raise InputError("--dynamic-scaled", f"needs a training text, and {dataset.name} has none")
    ids, device = language.ids(dataset, "train"), language.model.embedding.weight.device
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
def _options_named() -> Iterator[None]:
    """Call what a reader refuses by the option that gave it."""
    try:
        yield
    except InputError as error:
        option = error.where.removesuffix(" rate").replace(" ", "-")
        raise InputError(f"--{option}", error.problem) from None
