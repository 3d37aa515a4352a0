"""Language models that a tagger asks about its words: runs of `train language`, kept beside its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.language import NOTHING
from throughtime.models.pretrained import FrozenReader
from throughtime.models.weights import save_weights
from throughtime.tasks.language.predictor import RecurrentLanguage
from throughtime.text.rules import CharTokenizer
from throughtime.text.subword import SubwordTokenizer

FOLDER = "language-models"


class TagLanguage:
    """A recurrent language model that reads whole sentences, given as words."""

    def __init__(self, language: RecurrentLanguage, where: str) -> None:
        codec = language.framing.codec
        if isinstance(codec.tokenizer, SubwordTokenizer):
            raise InputError(
                "language_models", f"{where} reads parts of words; expected one with tokens=char or space"
            )
        self.language, self.reader = language, FrozenReader(language.model)
        # Words of a text in characters have spaces between them; where tokens are words, nothing is.
        self._between = codec.encode(" ") if isinstance(codec.tokenizer, CharTokenizer) else []

    def read(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of a sentence in the model's direction, and for each word where it has been read."""
        framing = self.language.framing
        ids = [NOTHING if framing.begin_id is None else framing.begin_id]
        places = []
        for number, word in enumerate(reversed(words) if framing.backward else words):
            own = framing.codec.encode(word)
            ids += self._between if number else []
            ids += own[::-1] if framing.backward else own
            places.append(len(ids) - 1)
        return ids, places[::-1] if framing.backward else places

    def save(self, folder: ModelFolder) -> None:
        """A copy of the whole model, so that the tagger needs the run no more."""
        self.language.save_description(folder)
        save_weights(self.language.model, folder)


def opened(runs: Sequence[str | Path]) -> tuple[TagLanguage, ...]:
    """The language models in these folders."""
    found = []
    for run in runs:
        folder = ModelFolder.at(run)
        task, config = folder.read_config()
        if task != RecurrentLanguage.task:
            raise InputError(
                "language_models", f"{run} holds a model of the task {task!r}; `train language` makes such"
            )
        found.append(TagLanguage(RecurrentLanguage.load(folder, config, "cpu"), str(run)))
    return tuple(found)


def copies(folder: Path, count: int) -> list[Path]:
    """Where a tagger's folder keeps its language models."""
    return [folder / FOLDER / str(number) for number in range(count)]
