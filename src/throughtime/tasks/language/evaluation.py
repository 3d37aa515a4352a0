"""The evaluation of a language model, which may learn from the text: a neural cache, dynamic evaluation."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from throughtime.errors import InputError, ThroughtimeError, check_whole
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.measures import Likelihood
from throughtime.models.paired import PairedLanguageModel
from throughtime.models.readers import DynamicEvaluation, NeuralCache, gradient_scales, window_surprisals
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.description import refuse_options
from throughtime.tasks.language_model import report_likelihood

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.language.model import RecurrentLanguage

ROWS = 100
"""Number of rows of the training text that are read side by side to measure gradients."""
BATCHES = 500
"""Maximum number of batches of such rows."""


def evaluate(
    language: RecurrentLanguage,
    dataset: Dataset,
    split: str,
    *,
    progress: Progress | None = None,
    window: int | None = None,
    warm_up: int | None = None,
    **options: Any,
) -> Evaluation:
    """Measure the perplexity of a split; the model may learn from it, by the `ReadingOptions`.

    By default the state is carried through the whole split. With `window` or `warm_up` the split is read
    in windows of `window` tokens (by default `num_steps`), each from a new state, whose first `warm_up`
    tokens are read but not counted. Windows overlap by as much, so that each further token counts once;
    `by_position` is the perplexity at each position of a window that counts.
    """
    known = ReadingOptions.__dataclass_fields__
    refuse_options(options, known, "is not for language models")
    reading = ReadingOptions(**{name: options[name] for name in options if name in known})
    if window is not None or warm_up is not None:
        if reading.cache is not None or reading.dynamic is not None:
            raise InputError("window", "cannot be combined with cache or dynamic; leave one of them out")
        return evaluate_windows(language, dataset, split, window or language.config.num_steps, warm_up or 0)
    memory = None
    if reading.cache is not None:
        with _name_parameters("cache", "window"):
            memory = NeuralCache(reading.cache, **reading.arguments("cache", "theta", "share"))
    learning = dynamic_evaluation(reading, memory, language, dataset, progress)
    with learning or contextlib.nullcontext():
        likelihood, *parts = language.likelihoods(
            dataset, split, reader=learning or memory, progress=progress
        )
    if learning is not None and not math.isfinite(likelihood.nats):
        raise ThroughtimeError("dynamic evaluation diverged: its weights became infinite; lower dynamic")
    readers = [] if memory is None else [f"cache-{memory.window}-{memory.theta:g}-{memory.share:g}"]
    if learning is not None:
        scaled = "-scaled" if learning.scales is not None else ""
        readers.append(f"dynamic-{learning.rate:g}-{learning.decay:g}-{learning.steps}{scaled}")
    device = f"device:{language.device.type}|precision:float32"
    signature = f"{language.signature(dataset)}|reader:{'+'.join(readers) or 'plain'}|{device}"
    return _add_parts(report_likelihood(likelihood, signature), language, parts)


def _add_parts(
    evaluation: Evaluation, language: RecurrentLanguage, parts: Sequence[Likelihood]
) -> Evaluation:
    """Add the measures of the network and of the counted model, if there are both."""
    if not isinstance(language.model, PairedLanguageModel):
        return evaluation
    shares = dict(zip(("network", "counted"), language.model.weights, strict=True))
    listed = [
        f"{share:.0%} {name} (alone: perplexity {part.perplexity:.2f}, "
        f"{part.bits_per_character:.3f} bits per character)"
        for (name, share), part in zip(shares.items(), parts, strict=True)
    ]
    found = {name: part.values() for name, part in zip(shares, parts, strict=True)}
    values = {**evaluation.values, "shares": shares, "parts": found}
    return Evaluation(values, evaluation.signature, f"{evaluation.text}\n{' + '.join(listed)}")


def evaluate_windows(
    language: RecurrentLanguage, dataset: Dataset, split: str, window: int, warm_up: int
) -> Evaluation:
    """Measure the perplexity of a split in windows, each from a new state; see `evaluate`."""
    ids = language.ids(dataset, split)
    check_whole("warm_up", warm_up, 0, check_whole("window", window) - 1)
    if len(ids) < warm_up + 2:
        raise InputError(f"{dataset.name}, split {split}", f"has no token after a warm-up of {warm_up}")
    language.model.eval()
    nats, tokens = np.zeros(window), np.zeros(window, dtype=np.int64)
    with matmul_precision("float32"):
        for surprisals in window_surprisals(language.model, ids, window, warm_up):
            nats[warm_up : warm_up + len(surprisals)] += surprisals.sum(axis=1)
            tokens[warm_up : warm_up + len(surprisals)] += surprisals.shape[1]
    counted = tokens > 0
    total = Likelihood(float(nats.sum()), int(tokens.sum()))
    by_position = np.exp(nats[counted] / tokens[counted]).tolist()
    signature = f"{language.signature(dataset)}|window:{window}|warm_up:{warm_up}|precision:float32"
    values = {"perplexity": total.perplexity, "bits_per_token": total.bits_per_token}
    values |= {"loss": total.cross_entropy, "tokens": total.tokens}
    values |= {"window": window, "warm_up": warm_up, "by_position": by_position}
    text = (
        f"perplexity {total.perplexity:.2f}, {total.bits_per_token:.3f} bits per token\n"
        f"over {total.tokens:,} tokens in windows of {window}, each from a new state; "
        f"the first {warm_up} tokens of a window are not counted\n"
        f"perplexity at position {warm_up + 1} is {by_position[0]:.2f}, at {warm_up + len(by_position)} "
        f"{by_position[-1]:.2f}"
    )
    return Evaluation(values, signature, text)


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
        """Return the given arguments of a reader."""
        given = {name: getattr(self, f"{reader}_{name}") for name in names}
        return {name: value for name, value in given.items() if value is not None}


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
    """Return the size of gradients on the training text, in pieces of the length that is learned from."""
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
