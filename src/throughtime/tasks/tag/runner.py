"""A tagger: sentences in, a tag for each word out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.results import Progress, Tagged, TaggedWord
from throughtime.runtime.chain import Chain
from throughtime.runtime.runner import TextRunner, batches, pad
from throughtime.runtime.session import ExportFolder
from throughtime.tasks.tag.answers import build_answer
from throughtime.text.codec import Codec
from throughtime.text.input_warnings import InputWarnings
from throughtime.text.texts import check_sentences, check_texts
from throughtime.text.tokenizers import tokenizer
from throughtime.text.vocabulary import Vocabulary

SENTENCES_AT_ONCE = 32
LIKELY = 3
UNKNOWN, NOTHING = 0, -1

Array = NDArray[Any]


class TaggerRunner(TextRunner):
    """One graph over words and their spellings, with the vocabularies of both, of tags and of labels."""

    def __init__(self, folder: ExportFolder) -> None:
        self.session, self.settings = folder.session("model"), folder.settings
        self.words, self.characters, tags = (
            Vocabulary.load(folder.path / f"{name}.txt") for name in ("words", "characters", "tags")
        )
        self.tags, self.chain = list(tags), Chain(self.settings["chain"])
        self.labels = list(Vocabulary.load(folder.path / "labels.txt")) if self.settings["labelled"] else []
        self.languages = [
            Codec.load(folder.path / f"language-{number}")
            for number in range(len(self.settings["languages"]))
        ]

    def tag(
        self, texts: str | Sequence[str], *, tokenize: str = "space", progress: Progress | None = None
    ) -> list[Tagged]:
        """The tags of each text's words, in the order of the texts; an empty text has none.

        `tokenize` names what cuts a text into words: `space`, as tagged data come, or `unicode` for raw text.
        """
        cut = tokenizer(tokenize)
        return self.tag_words([cut.tokenize(text) for text in check_texts(texts)], progress=progress)

    @cached_property
    def _warnings(self) -> InputWarnings:
        """A tagger reads an unknown word by its letters, so only unknown letters count."""
        return InputWarnings(tokenizer("char"), self.characters)

    def tag_words(
        self, sentences: Sequence[Sequence[str]], *, progress: Progress | None = None
    ) -> list[Tagged]:
        """The same for sentences that are cut into words already."""
        found = [Tagged(())] * len(check_sentences(sentences))
        for chosen in batches(sentences, SENTENCES_AT_ONCE, progress=progress):
            own = [sentences[one] for one in chosen]
            for number, sentence in zip(chosen, self._read(own), strict=True):
                found[number] = sentence
        return found

    def _read(self, sentences: Sequence[Sequence[str]]) -> list[Tagged]:
        names = ["tags", "labels"] if self.labels else ["tags"]
        scores, *labels = self.session.run(names, self._given(sentences))
        found = []
        for row, words in enumerate(sentences):
            own = scores[: len(words), row]
            label = self._label(labels[0][row]) if labels else ("", None)
            found.append(build_answer(self._tagged(words, own), *label))
        return found

    def _tagged(self, words: Sequence[str], scores: Array) -> list[TaggedWord]:
        chosen, marginals = self.chain.best(scores).tolist(), self.chain.marginals(scores)
        likely = np.argsort(-marginals, axis=1, kind="stable")[:, :LIKELY].tolist()
        return [
            TaggedWord(
                word,
                self.tags[chosen[place]],
                float(marginals[place, chosen[place]]),
                tuple((self.tags[tag], float(marginals[place, tag])) for tag in likely[place]),
            )
            for place, word in enumerate(words)
        ]

    def _label(self, scores: Array) -> tuple[str, float]:
        raised = np.exp(scores - scores.max())
        return self.labels[int(scores.argmax())], float(raised.max() / raised.sum())

    def _given(self, sentences: Sequence[Sequence[str]]) -> dict[str, Array]:
        """What the graph reads of these sentences; each distinct word is spelled once."""
        forms: dict[str, int] = {}
        numbered = [[forms.setdefault(word, len(forms)) for word in words] for words in sentences]
        ids = [self._word(form) for form in forms]
        words, lengths = pad([[ids[form] for form in row] for row in numbered])
        given = {"words": words, "lengths": lengths}
        if self.settings["spelled"]:
            spelled, _ = pad(numbered)
            characters, sizes = pad([self.characters[list(self._shortened(form))] for form in forms])
            given |= {"characters": characters, "character_lengths": sizes, "spelled": spelled}
        for number in range(len(self.languages)):
            read = [self._reading(number, words) for words in sentences]
            given[f"read_{number}"], _ = pad([one[0] for one in read])
            given[f"places_{number}"], _ = pad([one[1] for one in read])
        return given

    def _reading(self, number: int, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of a sentence as a language model reads it, and for each word where it has been read."""
        how, codec = self.settings["languages"][number], self.languages[number]
        ids = [NOTHING if how["begin_id"] is None else int(how["begin_id"])]
        places = []
        for place, word in enumerate(reversed(words) if how["backward"] else words):
            own = codec.encode(word)
            ids += how["between"] if place else []
            ids += own[::-1] if how["backward"] else own
            places.append(len(ids) - 1)
        return ids, places[::-1] if how["backward"] else places

    def _word(self, form: str) -> int:
        number = self.words[form.lower() if self.settings["lowercase"] else form]
        return number if number < self.settings["vectors"] else UNKNOWN

    def _shortened(self, form: str) -> str:
        most = self.settings["max_characters"]
        return form if len(form) <= most else form[: most // 2] + form[-(most - most // 2) :]
