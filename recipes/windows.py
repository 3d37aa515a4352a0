"""A counted model on overlapping windows of a text, judged as a recurrent one is: each window afresh."""

from __future__ import annotations

from typing import Any

import numpy as np

from throughtime.config import Config, build_config
from throughtime.data.batching.text import OverlappingWindows
from throughtime.data.datasets import open_dataset
from throughtime.data.idcache import token_ids
from throughtime.metrics.measures import Likelihood
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import build_smoothing
from throughtime.text.codec import Codec
from throughtime.version import __version__


class Windows(Config):
    """The split of `train language` with sampling=overlapping, for a Kneser-Ney model."""

    data: str
    order: int
    num_steps: int
    train_windows: int
    valid_windows: int


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """The perplexity of the validation windows: their labels, given what stands before them in the window."""
    asked = build_config(Windows, settings, "windows")
    dataset = open_dataset(asked.data)
    codec = Codec.build(
        dataset.texts("train"),
        dataset.tokens,
        reserved=("<unk>",),
        normaliser=dataset.normaliser_for(dataset.tokens),
    )
    ids = token_ids(dataset, "train", codec, eos=False).ids
    counted = ids[: asked.train_windows + asked.num_steps]  # all that the training windows cover
    counts = NgramCounts.of([counted.tolist()], asked.order, len(codec.vocabulary))
    model = NgramModel(counts, build_smoothing("kneser-ney", ()))
    validation = OverlappingWindows(
        ids,
        1024,
        asked.num_steps,
        windows=range(asked.train_windows, asked.train_windows + asked.valid_windows),
        shuffle=False,
    )
    found = Likelihood()
    for batch in validation:
        rows = np.concatenate([batch.inputs[:1].numpy(), batch.labels.numpy()]).T  # [B, num_steps + 1]
        for log_probs in model.log_probs(rows.tolist()):
            found += Likelihood.of(map(float, log_probs[1:]))
    words = [f"data:{asked.data}", f"windows:{asked.train_windows}+{asked.valid_windows}x{asked.num_steps}"]
    return {"value": found.perplexity, "signature": "|".join([*words, f"version:{__version__}"])}
