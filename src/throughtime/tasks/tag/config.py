"""The settings of `train tag`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture
from throughtime.data.records import TaggedSentence
from throughtime.errors import InputError
from throughtime.fit.config import Positive, Share
from throughtime.metrics.classification import count_impossible, is_chunked
from throughtime.tasks import text_config as shared

FEW_PASSES = 5
"""Epochs of the default network up to which one small layer is better, as it has more of them."""
MAX_BROKEN = 0.01
"""Share of the chunks in the training data that may be tagged in an impossible way, by mistake."""


class TagConfig(shared.StackConfig):
    """A tagger, its data and its training. Null means: chosen from the data."""

    SUGGESTED: ClassVar[frozenset[str]] = shared.VECTOR_SETTINGS | {"intents", "valid_chunks", "tags"}
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *shared.StackConfig.EFFECTS,
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

    data: shared.Data
    words: str | None = Field(None, description="column of the words of each sentence; null: words or tokens")
    tags: str | None = Field(None, description="column of their tags; null: tags, ner_tags or pos_tags")
    id: shared.IdColumn = None
    time: shared.TimeColumn = None
    features: shared.FeatureColumns = None
    lowercase: bool = architecture(True, description="use the same vector for a word in lower and upper case")
    min_freq: int = architecture(
        2,
        ge=1,
        description="words that are rarer than this become <unk>, and are known by their letters only",
    )
    characters: bool = architecture(True, description="read the letters of each word too")
    max_characters: Annotated[int, Field(ge=2)] = architecture(
        40, description="maximum number of letters of a word; the middle of longer words is left out"
    )
    indicators: bool = architecture(
        True,
        description="mix in a chain that scores each word, its shape, its beginnings and ends, and its "
        "neighbours; it is fitted before the network",
    )
    intents: bool | None = architecture(
        None, description="predict a label of the whole sentence too; null: if the data have one"
    )
    language_models: tuple[str, ...] = architecture(
        (), description="runs of `train language` whose states describe each word; they are not trained"
    )

    cell: shared.Cell = "lstm"
    word_size: shared.Size = architecture(128, description="size of a word's vector")
    character_size: shared.Size = architecture(32, description="size of a letter's vector")
    character_hidden_size: shared.Size = architecture(
        64, description="number of units that read the letters, in each direction"
    )
    language_size: shared.Size = architecture(
        256, description="size to which the states of language models are projected"
    )
    hidden_size: shared.HiddenSizeEachWay = 200
    num_layers: shared.NumLayers = 2
    crf: bool = architecture(
        True, description="score the tags of a sentence together, as a chain, not each tag alone"
    )
    valid_chunks: bool | None = Field(
        None,
        description="never predict a tag where it is impossible, such as I-LOC after O; null: if tags mark "
        "chunks, and less than 1 % of those in the training data break this",
    )

    word_dropout: shared.WordDropout = 0.1
    input_dropout: shared.InputDropout = 0.4
    language_dropout: Share = Field(0.0, description="additional dropout on the states of language models")
    hidden_dropout: shared.HiddenDropout = 0.4
    output_dropout: shared.OutputDropout = 0.4
    variational: shared.Variational = False
    intent_weight: Positive = Field(1.0, description="weight of the sentence's label relative to its tags")

    choose_by: Literal["accuracy", "f1"] | None = Field(
        None,
        description="validation measure that decides which weights are kept; null: f1 if tags mark "
        "chunks, as B-PER does, else accuracy",
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """The options with which `open_dataset` opens the data."""
        return {"words": self.words, "tags": self.tags, **shared.vector_options(self, "tags")}

    def settings_for(self, passes: float) -> dict[str, Any]:
        """One small layer, if there is time for a few epochs only."""
        chosen = {"num_layers": 1, "hidden_size": 100} if passes < FEW_PASSES else {}
        return {key: value for key, value in chosen.items() if key not in self.model_fields_set}

    def complete(self, records: Sequence[TaggedSentence]) -> TagConfig:
        """A copy in which the settings left to the data have their values, as it is saved."""
        labelled = any(record.label for record in records)
        if self.intents and not labelled:
            raise InputError("intents", f"is true, but no sentence of {self.data} has a label; leave it out")
        broken, marked = count_impossible(record.tags for record in records)
        chunked = is_chunked(tag for record in records for tag in record.tags)
        if self.valid_chunks and not chunked:
            problem = (
                f"is true, but the tags of {self.data} mark no chunks, as B-LOC and I-LOC do; leave it out"
            )
            raise InputError("valid_chunks", problem)
        valid = chunked and broken < MAX_BROKEN * marked if self.valid_chunks is None else self.valid_chunks
        intents = labelled if self.intents is None else self.intents
        indicators = self.indicators and self.network is None
        update = {"intents": intents, "valid_chunks": valid, "indicators": indicators}
        return self.model_copy(update=update)
