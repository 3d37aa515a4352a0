"""A translator: sentences in, sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.results import Progress, Translation
from throughtime.runtime.runner import TextRunner, pad
from throughtime.runtime.search import ArrayBeam, Finished, Likeliest, batches_by_length
from throughtime.runtime.session import ExportFolder
from throughtime.tasks.translate.long_texts import translate_in_parts
from throughtime.text.codec import Codec

SENTENCES_AT_ONCE = 32

Array = NDArray[Any]


class TranslatorRunner(TextRunner):
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
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
        max_length: int | None = None,
        search: str = "beam",
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        min_length: int = 0,
        copy_unknown: bool = False,
        align: bool = False,
        progress: Progress | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate one text or several; one answer per text, its other translations are `alternatives`.

        Nothing but spaces gives an empty translation; a long text is translated sentence by sentence. The
        search is "beam" or "greedy"; other keywords than those of a beam need the trained model.
        """
        constraints = {"prefix": prefix, "forbid": forbid, "require": require, "min_length": min_length}
        constraints |= {"no_repeat_ngram": no_repeat_ngram, "copy_unknown": copy_unknown, "align": align}
        needed = [name for name, value in (constraints | search_options).items() if value]
        if search not in ("beam", "greedy"):
            needed.insert(0, "search")
        if needed:
            raise InputError(needed[0], "needs the trained model; an exported one has plain beam search only")
        if search == "greedy":
            for name, value in (("num_beams", num_beams), ("length_penalty", length_penalty)):
                if value is not None:
                    raise InputError(name, "is not an option of greedy search, which takes none")
            num_beams, length_penalty = 1, 0.0
        width = num_beams or max(self.generation["num_beams"], num_return_sequences)
        alpha = self.generation["length_penalty"] if length_penalty is None else length_penalty

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            prompts = [self._prompt(part) for part in parts]
            results: dict[int, list[Finished]] = {}
            for most, batch in batches_by_length(prompts, max_length, SENTENCES_AT_ONCE):
                end_id, barred = self.settings["end_id"], self.settings["barred"]
                beam = ArrayBeam(end_id, width, alpha, num_return_sequences, most, barred)
                decoding = _Decoding(self, [prompts[number] for number in batch])
                found = beam.search(decoding, len(batch), self.settings["begin_id"])
                results.update(zip(batch, found, strict=True))
                if progress is not None:
                    progress(len(results), len(prompts))
            return [self._translations(results[number]) for number in range(len(prompts))]

        limit = self.generation["max_source_tokens"]
        return translate_in_parts(texts, limit, lambda part: len(self._prompt(part)), translate_parts)

    def _prompt(self, text: str) -> list[int]:
        return self.codec.encode(text, eos=True)

    def _translations(self, found: Sequence[Finished]) -> list[Translation]:
        return [
            Translation(self.target.decode(one.tokens), one.score, one.log_prob, one.ended) for one in found
        ]


class _Decoding:
    """The decoder's state while some sentences are searched."""

    def __init__(self, translator: TranslatorRunner, prompts: Sequence[Sequence[int]]) -> None:
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
