"""The counted model beside a recurrent language model: its n-grams, and its file in the model folder."""

from __future__ import annotations

import math
from itertools import islice
from typing import NamedTuple

import numpy as np

from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.ngram.counts import Ints, NgramCounts, NgramLevel, grow_levels
from throughtime.ngram.model import NgramModel
from throughtime.ngram.pruning import prune
from throughtime.ngram.smoothing import KneserNey
from throughtime.text.codec import Codec
from throughtime.text.framing import Framing

FILE = "counted.safetensors"
MAX_ORDER = 10
"""The highest order that is tried."""
MIN_GAIN = 1e-3
"""The share by which the surprisals of the validation text must fall for a higher order."""
MAX_TOKENS, MAX_WORK = 5_000_000, 15_000_000
"""Maximum number of tokens to count, the last of the text, and of tokens times order for each minute of a
training: a tenth of its time, or less."""
MAX_NGRAMS = 3_000_000
"""Maximum number of n-grams to keep: 48 MB, and half as much in a page for a browser."""
THRESHOLDS = ((0,), (0, 0, 0, 1), (0, 0, 1), (0, 1), (0, 1, 2), (0, 2, 4), (0, 4, 8), (0, 8, 16), (0, 16, 32))
"""How often an n-gram of each length may occur and be left out: the first that keep few enough are taken."""
MEASURED = 20_000
"""Number of first validation tokens on which the order is chosen."""


class LanguageAssets(NamedTuple):
    """How texts become ids, and the model that counted them, if there is one."""

    framing: Framing
    counted: NgramModel | None = None

    @property
    def codec(self) -> Codec:
        """The tokenizer and the vocabulary."""
        return self.framing.codec

    def save(self, folder: ModelFolder) -> None:
        """Write both to a model folder."""
        self.framing.save(folder)
        if self.counted is not None:
            folder.write_tensors(self.counted.tensors(), FILE)

    @classmethod
    def load(cls, folder: ModelFolder, framing: Framing, counted: bool) -> LanguageAssets:
        """Read what `save` wrote; the counts are parts of a file that are read when used."""
        if not counted:
            return cls(framing)
        where = str(folder.path / FILE)
        model = NgramModel.from_tensors(folder.map_tensors(FILE), framing.never_predicted, None, where)
        if model.vocabulary_size != len(framing.codec.vocabulary):
            raise InputError(where, "is of another vocabulary; a file is damaged, so train it again")
        return cls(framing, model)


def count_beside(
    train: Ints, valid: Ints, framing: Framing, *, order: int | None = None, minutes: float | None = None
) -> NgramModel:
    """Count the n-grams of a text by Kneser-Ney, of the order that predicts the validation text best.

    The texts are as the network reads them. In marked lines, a mark ends one line and begins the next.
    """
    size, never, mark = len(framing.codec.vocabulary), framing.never_predicted, framing.end_id
    work = MAX_WORK * (minutes or MAX_ORDER)
    ids = train[-int(min(MAX_TOKENS, max(work / 3, MEASURED))) :].astype(np.int64)
    starts = np.zeros(1, dtype=np.int64)
    if mark is not None:
        lines = np.flatnonzero(np.concatenate([[mark], ids[:-1]]) == mark)
        ids, starts = np.insert(ids, lines, mark), lines + np.arange(len(lines))
    highest = order or max(2, min(MAX_ORDER, int(work / len(ids))))
    levels: list[NgramLevel] = []
    chosen, least = NgramCounts((), size, tuple(never)), math.inf
    for level in islice(grow_levels(ids, starts, size), highest):
        levels.append(level)
        counts = NgramCounts(tuple(levels), size, tuple(never))
        if order is None:
            nats = -NgramModel(counts, KneserNey()).log_probs([valid[:MEASURED].tolist()])[0].sum()
            if not nats < least * (1 - MIN_GAIN) and chosen.levels:
                break
            least = nats
        chosen = counts
    for thresholds in THRESHOLDS:
        all_lengths = [*thresholds, *thresholds[-1:] * chosen.order]
        kept = sum(
            int(np.count_nonzero(level.count > t))
            for level, t in zip(chosen.levels, all_lengths, strict=False)
        )
        if kept <= MAX_NGRAMS:
            break
    return prune(chosen, KneserNey(), thresholds[: chosen.order])
