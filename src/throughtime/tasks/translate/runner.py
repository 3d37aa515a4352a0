"""A translator: sentences in, sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.runtime.runner import TextRunner, pad
from throughtime.runtime.search import Beam, Finished, Likeliest, batches_by_length
from throughtime.runtime.session import ExportFolder
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts, join_texts, split_text

SENTENCES_AT_ONCE = 32

Array = NDArray[Any]


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str
    score: float  # what the search ranks by
    log_prob: float
    ended: bool  # False where the length cap cut it


class Translator(TextRunner):
    """An encoder, one step of a decoder, and the codecs of both languages."""

    def __init__(self, folder: ExportFolder) -> None:
        self.settings = folder.settings
        self.encoder, self.decoder = folder.session("encoder"), folder.session("decoder")
        shared = self.settings["shared_vocabulary"]
        self.codec = Codec.load(folder.path if shared else folder.path / "source")
        self.target = self.codec if shared else Codec.load(folder.path / "target")
        self.generation: dict[str, Any] = self.settings["generation"]

    def translate(
        self,
        texts: Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
        max_length: int | None = None,
    ) -> list[list[Translation]]:
        """The best translations of each text, best first; what is not given is the model's own.

        Nothing but spaces gives an empty translation; a long text is translated sentence by sentence.
        """
        width = num_beams or max(self.generation["num_beams"], n_best)
        alpha = self.generation["length_penalty"] if length_penalty is None else length_penalty
        limit = self.generation["max_source_tokens"]
        cut = [
            split_text(text.strip(), limit, lambda part: len(self._prompt(part))) if text.strip() else []
            for text in check_texts(texts)
        ]
        prompts = [self._prompt(part) for own in cut for part in own]
        results: dict[int, list[Finished]] = {}
        for most, batch in batches_by_length(prompts, max_length, SENTENCES_AT_ONCE):
            beam = Beam(self.settings["end_id"], width, alpha, n_best, most, self.settings["barred"])
            found = beam.search(
                _Decoding(self, [prompts[number] for number in batch]), len(batch), self.settings["begin_id"]
            )
            results.update(zip(batch, found, strict=True))
        rest = iter([self._translations(results[number]) for number in range(len(prompts))])
        return [_join_parts([next(rest) for _ in own]) for own in cut]

    def _prompt(self, text: str) -> list[int]:
        return self.codec.encode(text, eos=True)

    def _translations(self, found: Sequence[Finished]) -> list[Translation]:
        return [
            Translation(self.target.decode(one.tokens), one.score, one.log_prob, one.ended) for one in found
        ]


class _Decoding:
    """The decoder's state while some sentences are searched."""

    def __init__(self, translator: Translator, prompts: Sequence[Sequence[int]]) -> None:
        encoder, self.decoder = translator.encoder, translator.decoder
        source, lengths = pad(prompts)
        states, kept = (encoder.numbered(stem, encoder.outputs) for stem in ("state", "kept"))
        found = encoder.run([*states, *kept], {"source": source, "lengths": lengths})
        self.names, self.state = states, found[: len(states)]
        self.kept = dict(zip(kept, found[len(states) :], strict=True))
        self.asked = ["top_log_probs", "top_ids", *self.decoder.numbered("next", self.decoder.outputs)]
        self.sentences = len(prompts)

    def __call__(self, rows: Array, last: Array, staying: Array, count: int) -> Likeliest:
        """One step for the rows that go on."""
        if len(staying) < self.sentences:
            self.kept = {name: value[staying] for name, value in self.kept.items()}
            self.sentences = len(staying)
        given = {name: part[rows] for name, part in zip(self.names, self.state, strict=True)}
        given |= self.kept
        given["last"], given["k"] = last, np.array([count])
        log_probs, ids, *self.state = self.decoder.run(self.asked, given)
        return Likeliest(log_probs, ids)


def _join_parts(split_text: list[list[Translation]]) -> list[Translation]:
    """Translations of a text from those of its parts: the best of each, then the second best, and so on."""
    if not split_text:
        return [Translation("", 0.0, 0.0, True)]
    whole = []
    for rank in range(max(len(own) for own in split_text)):
        chosen = [own[min(rank, len(own) - 1)] for own in split_text]
        whole.append(
            Translation(
                join_texts([one.text for one in chosen]),
                sum(one.score for one in chosen),
                sum(one.log_prob for one in chosen),
                all(one.ended for one in chosen),
            )
        )
    return whole
