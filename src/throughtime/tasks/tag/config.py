"""All that `train tag` can be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture
from throughtime.data.records import Tagged
from throughtime.errors import InputError
from throughtime.train.config import HIDDEN_DROPOUT, Positive, Schedule, Share, TrainingConfig

Size = Annotated[int, Field(ge=1)]


class TagConfig(TrainingConfig):
    """A tagger, its data, and how it is trained. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"intents"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TrainingConfig.EFFECTS,
        HIDDEN_DROPOUT,
        *(
            Effect(key, lambda config: config.characters, "with characters=false; leave one of them out")
            for key in ("max_characters", "character_size", "character_hidden_size")
        ),
        *(
            Effect(key, lambda config: bool(config.language_models), "without language_models; name some")
            for key in ("language_size", "language_dropout")
        ),
        Effect(
            "intent_weight",
            lambda config: config.intents is not False,
            "with intents=false; leave one of them out",
        ),
    )

    data: str = Field(description="a name of `throughtime data list`, a file, or a folder of splits")
    lowercase: bool = architecture(True, description="one vector for a word in small letters and in capitals")
    min_freq: int = architecture(
        2, ge=1, description="rarer words become <unk>, and are known by their letters"
    )
    characters: bool = architecture(True, description="read the letters of each word too")
    max_characters: Annotated[int, Field(ge=2)] = architecture(
        40, description="maximum number of letters to read of a word: of longer words the first and the last"
    )
    intents: bool | None = architecture(
        None, description="a label for the whole sentence too; null: where the data have one"
    )
    language_models: tuple[str, ...] = architecture(
        (), description="runs of `train language` whose states are known of each word; they stay as they are"
    )

    cell: str = architecture("lstm", description="lstm, gru, rnn, mingru, ...; see `throughtime doctor`")
    word_size: Size = architecture(128, description="width of a word's vector")
    character_size: Size = architecture(32, description="width of a letter's vector")
    character_hidden_size: Size = architecture(64, description="units over the letters, each way")
    language_size: Size = architecture(
        256, description="width that the states of language models are brought to"
    )
    hidden_size: Size = architecture(200, description="units of a layer, each way")
    num_layers: Size = architecture(2, description="layers on top of each other")
    crf: bool = architecture(True, description="score the tags of a sentence as one chain, not each alone")

    word_dropout: Share = Field(0.1, description="share of words that are read as <unk> in training")
    input_dropout: Share = Field(0.4, description="on what enters the first layer")
    language_dropout: Share = Field(0.0, description="on the states of language models besides")
    hidden_dropout: Share = Field(0.4, description="on what enters each further layer")
    output_dropout: Share = Field(0.4, description="on what tags are scored from")
    variational: bool = Field(False, description="one dropout mask through all steps of a batch")
    intent_weight: Positive = Field(1.0, description="how much the sentence's label counts beside its tags")

    epochs: int = Field(20, ge=1, description="number of passes over the training data")
    batch_size: int = Field(32, ge=1, description="sentences of one batch, over all processes")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")
    precision: Literal["auto", "float32", "tf32", "bf16"] = Field(
        "auto", description="of products; auto: bf16 where the hardware has it, else float32"
    )
    choose_by: Literal["accuracy", "f1"] | None = Field(
        None,
        description="the validation measure that decides which weights are kept; null: f1 where tags mark "
        "chunks, as B-PER does, else accuracy",
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"kind": "tags"}

    def settled(self, records: Iterable[Tagged]) -> TagConfig:
        """The same with what the training data suggest filled in, as it is saved."""
        labelled = any(record.label for record in records)
        if self.intents and not labelled:
            raise InputError("intents", f"is true, but no sentence of {self.data} has a label; leave it out")
        return self.model_copy(update={"intents": labelled if self.intents is None else self.intents})
