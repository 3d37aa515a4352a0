"""All that `train ngram` can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Config
from throughtime.errors import InputError
from throughtime.ngram.smoothing import Smoothing, build_smoothing
from throughtime.tasks.language.framing import Framing, follow_suggestions

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.text.codec import Codec


class NgramConfig(Config):
    """A counted language model and its data. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"tokens", "normaliser", "layout"})

    data: str = Field(description="a name of `throughtime data list`, a file, or a folder of splits")
    split: str = Field("train", description="what to count: train, all, ...")
    tokens: str | None = Field(None, description="char, word, space, unicode, bpe, ...; null: the data's own")
    normaliser: str | None = Field(None, description="none, nfc, lower or letters; for characters")
    layout: Literal["lines", "stream"] | None = Field(
        None, description="lines (each ends with <eos>) or stream (one text)"
    )
    min_freq: int = Field(1, ge=1, description="rarer tokens become <unk>")
    max_size: int | None = Field(None, ge=4, description="maximum size of the vocabulary")
    order: int = Field(3, ge=1, le=100, description="length of the longest n-grams")
    smoothing: str = Field(
        "kneser-ney", description="kneser-ney, laplace, dirichlet, relative-frequency, ..."
    )
    strengths: tuple[float, ...] = Field(
        (), description="pseudo-counts e1, e2, ... of laplace and dirichlet, one for each length of n-grams"
    )
    backward: bool = Field(False, description="count from right to left")

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"layout": self.layout}

    def settled(self, dataset: Dataset) -> NgramConfig:
        """The same with the data set's suggestions filled in, as it is saved."""
        return self.model_copy(update=follow_suggestions(dataset, self.tokens, self.normaliser, self.layout))

    def frame(self, codec: Codec) -> Framing:
        """The framing in which a model with this vocabulary reads text."""
        return Framing(codec, self.layout == "lines", self.backward)

    def build_smoothing(self) -> Smoothing:
        """The smoothing with its strengths; refuses those that do not fit it or the order."""
        chosen: Smoothing = build_smoothing(self.smoothing, self.strengths)
        if len(self.strengths) > self.order:
            raise InputError(
                "strengths",
                f"has {len(self.strengths)} numbers, but the order is {self.order}; give one per order",
            )
        return chosen
