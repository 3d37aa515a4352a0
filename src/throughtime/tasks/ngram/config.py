"""The settings of `train ngram`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from throughtime.config import Config, Effect
from throughtime.errors import InputError
from throughtime.fit.config import Positive
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.pruning import check_pruning, prune
from throughtime.ngram.smoothing import SMOOTHINGS, Fixed, Smoothing, build_smoothing
from throughtime.tasks import text_config as shared
from throughtime.text.framing import Framing

if TYPE_CHECKING:
    from throughtime.text.codec import Codec


MIN_MEMORY = 256_000_000
"""Bytes that the interpreter, the libraries and the vocabulary of a small text need anyway."""
_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([MGT]B)", re.IGNORECASE)


class NgramConfig(shared.ReadsText, Config):
    """A counted language model and its data. Null means: chosen from the data."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"tokens", "normaliser", "layout"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        Effect(
            "minutes",
            lambda config: "order" not in config.model_fields_set,
            "with order={order}: it is the time to choose the order; leave one of them out",
        ),
        Effect("minutes", lambda config: config.memory is None, "with memory; leave it out, and set order"),
        Effect(
            "minutes",
            lambda config: config.split == "train",
            "with split={split}: the order is chosen on the validation split; set order instead",
        ),
    )

    data: shared.Data
    text: shared.TextColumn = None
    split: str = Field("train", description="split to count: train, all, ...")
    tokens: shared.Tokens = None
    normaliser: shared.Normaliser = None
    layout: shared.Layout = None
    min_freq: int = Field(1, ge=1, description="tokens that are rarer than this become <unk>")
    max_size: int | None = Field(None, ge=4, description="maximum size of the vocabulary")
    order: int = Field(3, ge=1, le=100, description="length of the longest n-grams")
    minutes: Positive | None = Field(
        None, description="choose the order by validation, in at most this number of minutes"
    )
    smoothing: str = Field("kneser-ney", description=", ".join(SMOOTHINGS))
    strengths: tuple[float, ...] = Field(
        (),
        description="pseudo-counts e1, e2, ... of a smoothing such as laplace, one per length of n-grams",
    )
    prune: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (),
        description="leave out n-grams that occur at most this number of times: one number per length, the "
        "last for all longer ones, such as 0, 0, 1; the model then holds probabilities instead of counts",
    )
    memory: str | None = Field(
        None, description="count with files and within this memory, such as 2GB, if the text is larger"
    )
    backward: bool = Field(False, description="count from right to left")

    def frame(self, codec: Codec) -> Framing:
        """Return the framing with which a model with this vocabulary reads text."""
        return Framing(codec, self.layout == "lines", self.backward)

    @property
    def memory_bytes(self) -> int | None:
        """The memory in bytes; what is not a size is refused."""
        if self.memory is None:
            return None
        match = _SIZE.fullmatch(self.memory.strip())
        size = float(match[1]) * _UNITS[match[2].upper()] if match is not None else 0.0
        if size < MIN_MEMORY:
            raise InputError("memory", f"is {self.memory!r}, expected 256MB or more, such as 2GB")
        return int(size)

    def build_smoothing(self) -> Smoothing:
        """Build the smoothing; strengths and thresholds that do not fit it or the order are refused."""
        chosen: Smoothing = build_smoothing(self.smoothing, self.strengths)
        check_pruning(self.prune, chosen, self.order)
        if len(self.strengths) > self.order:
            raise InputError(
                "strengths",
                f"has {len(self.strengths)} numbers, but the order is {self.order}; leave out some",
            )
        return chosen

    @property
    def holds_counts(self) -> bool:
        """Whether a saved model holds counts, and not probabilities."""
        return not self.prune and self.smoothing != Fixed.name

    def build_model(self, counts: NgramCounts) -> NgramModel:
        """Build the model of some counts, pruned if that was asked for."""
        smoothing = self.build_smoothing()
        return prune(counts, smoothing, self.prune) if self.prune else NgramModel(counts, smoothing)
