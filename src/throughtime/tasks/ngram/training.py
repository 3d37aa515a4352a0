"""Training of an n-gram model: counting, in memory or with files, and measuring the validation split."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.files import sweep_parts
from throughtime.folder import ModelFolder, set_aside, settle_replacement
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.disk_counts import DiskCounts, count_on_disk
from throughtime.tasks.description import find_examples
from throughtime.tasks.texts import build_codec
from throughtime.text.codec import choose_reserved
from throughtime.text.framing import Framing

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.ngram.config import NgramConfig
    from throughtime.tasks.ngram.model import NgramLanguageModel

COUNTING = "counting"
"""The folder of the files with which a large text is counted, inside the new model folder."""
MAX_ORDER = 12
"""The highest order that is tried."""
MIN_GAIN = 1e-3
"""The share by which the perplexity must fall for a higher order."""
LONGER = 1.5
"""How much longer the next order is expected to take than the last."""
BYTES_PER_NGRAM = 40
"""Memory of a model of counts that scores: key, count, probability, weight as a context, room to compute."""


def fit(
    model: NgramLanguageModel,
    dataset: Dataset,
    out: Path,
    *,
    say: Callable[[str], None] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    skip_bad: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Count, measure the perplexity of the validation split, and save into the new folder `out`."""
    config, began, memory = model.config, time.perf_counter(), model.config.memory_bytes
    if say is not None:
        if resume:
            say(f"Nothing saved in {out} yet: starting from the beginning.")
        text = f"{config.data} ({config.split}, layout {config.layout})"
        say(f"Counting {text}" + (f" up to order {config.order} ..." if config.minutes is None else " ..."))
    counts = None
    with contextlib.ExitStack() as stack:
        stack.callback(settle_replacement, out)
        if config.minutes is not None:
            config = choose_order(model, dataset, began + 60 * config.minutes, say)
        elif memory is None:
            count_in_memory(model, dataset)
        else:
            sweep_parts(out.parent, out.name)  # a killed process leaves files of the size of the text
            folder = stack.enter_context(ModelFolder.create(out))
            counts = count_in_files(model, dataset, folder.path / COUNTING, memory)
        seconds = time.perf_counter() - began
        measured = _measure(model, dataset, memory, say)
        values = {
            "run": str(out),
            "task": model.task,
            "order": config.order,
            "smoothing": config.smoothing,
            "tokenizer": config.tokens,
            "vocabulary": len(model.codec.vocabulary),
            "reserved": choose_reserved(config.layout, "ngram"),
            "tokens": model.num_tokens,
            "ngrams": model.num_ngrams,
            "seconds": round(seconds, 3),
            "valid_perplexity": measured.get("perplexity"),
        }
        if counts is None:
            folder = stack.enter_context(ModelFolder.create(out))
        model.write_files(folder, measured, counts if config.holds_counts else None)
        if counts is not None:
            model.model = None  # type: ignore[assignment]  # its arrays are files that go now
            shutil.rmtree(folder.path / COUNTING)
        if skip_bad:
            folder.write_skipping()
        if overwrite:
            set_aside(out)
    for note in model.notes:
        warnings.warn(note, ThroughtimeWarning, stacklevel=2)
    return values


def choose_order(
    model: NgramLanguageModel, dataset: Dataset, until: float, say: Callable[[str], None] | None
) -> NgramConfig:
    """Count with longer and longer n-grams, as long as validation improves and there is time for the next.

    Returns the settings with the order that was best.
    """
    if not dataset.has_records("valid"):
        raise InputError(
            "minutes", f"needs a validation split, which {dataset.name} lacks; set order instead"
        )
    framing, best = _build_framing(model, dataset), math.inf
    first = model.config.order
    for order in range(first, max(first, MAX_ORDER) + 1):
        began, before, kept = time.perf_counter(), model.config, model.model
        model.config = before.model_copy(update={"order": order})
        count_in_memory(model, dataset, framing)
        measured = model.likelihood(dataset, "valid").perplexity
        if not measured < best * (1 - MIN_GAIN) and order > first:
            model.config, model.model, why = before, kept, "longer n-grams do not help"
            break
        best, now = measured, time.perf_counter()
        if now + LONGER * (now - began) > until:
            why = "there is no time for longer n-grams"
            break
    else:
        why = "longer ones were not tried"
    if say is not None:
        say(f"Order {model.config.order}, with a validation perplexity of {best:.4g}: {why}.")
    return model.config


def count_in_memory(model: NgramLanguageModel, dataset: Dataset, framing: Framing | None = None) -> None:
    """Count the n-grams of the configured split, with its own vocabulary unless a framing is given."""
    config = model.config
    model.assets = framing = framing or _build_framing(model, dataset)
    counts = NgramCounts.of(
        framing.sequences(dataset.texts(config.split)),
        config.order,
        len(model.codec.vocabulary),
        framing.never_predicted,
    )
    model.model = config.build_model(counts)


def count_in_files(model: NgramLanguageModel, dataset: Dataset, folder: Path, memory: int) -> DiskCounts:
    """Do the same with files in the new `folder`; only a part of the text is in memory at a time."""
    config = model.config
    if config.backward and config.layout != "lines":
        raise InputError("memory", "does not go with a stream that is read backward; leave one of them out")
    model.assets = framing = _build_framing(model, dataset)
    counts = count_on_disk(
        (framing.ids(text) for text in dataset.texts(config.split)),
        config.order,
        len(model.codec.vocabulary),
        framing.never_predicted,
        folder,
        memory=memory // 2,  # the other half is for the interpreter and the vocabulary
        joined=not framing.marked,
    )
    model.model = config.build_model(counts.open())
    return counts


def _build_framing(model: NgramLanguageModel, dataset: Dataset) -> Framing:
    config = model.config
    model.examples = find_examples(model, dataset)
    model.add_seen(dataset)
    codec = build_codec(
        dataset.texts(config.split),
        config,
        dataset.name,
        reserved=choose_reserved(config.layout, "ngram"),
        normaliser=config.normaliser or "none",
    )
    return config.frame(codec)


def _measure(
    model: NgramLanguageModel, dataset: Dataset, memory: int | None, say: Callable[[str], None] | None
) -> dict[str, Any]:
    """Measure the validation split; return nothing if the model is too large to score in this memory."""
    config = model.config
    if config.split != "train" or not dataset.has_records("valid"):
        return {}
    # The probabilities of a pruned model are estimated already.
    needed = BYTES_PER_NGRAM * sum(model.num_ngrams) if config.holds_counts else 0
    if memory is not None and needed > memory // 2:
        if say is not None:
            say(
                f"The validation split is not measured: scoring with these n-grams takes about "
                f"{needed / 1e9:.1f} GB, more than half of the memory."
            )
        return {}
    return {"split": "valid", "data": config.data, **model.likelihood(dataset, "valid").values()}
