"""An exported translator, which runs without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, check_whole, suggest
from throughtime.results import Progress, Translation
from throughtime.runtime.checks import Size
from throughtime.runtime.runner import TextRunner, pad
from throughtime.runtime.search import MAX_BEAMS, ArrayBeam, Finished, Likeliest, batches_by_length
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.runtime.shortlist import Shortlist, choose_count
from throughtime.text.parallel import Codecs

SENTENCES_AT_ONCE = 32

Array = NDArray[Any]


class TranslatorSettings(TypedDict):
    """The settings of an exported translator."""

    begin_id: Size
    end_id: Size
    barred: list[Size]
    shared_vocabulary: bool
    generation: dict[str, float]


class TranslatorRunner(TextRunner):
    """Translates with the graphs of an encoder and of a decoder step."""

    settings_type = TranslatorSettings

    def __init__(self, folder: ExportFolder) -> None:
        ExportedModel.__init__(self, folder)  # it has two graphs and two codecs
        self.encoder, self.decoder = folder.session("encoder"), folder.session("decoder")
        self.codecs = Codecs.load(folder.path)
        self.codec = self.codecs.source
        self.generation: dict[str, Any] = self.settings["generation"]
        self.shortlist: Shortlist | None = None
        if "shortlist" in folder.values["parts"]:
            self.shortlist = self._read_shortlist(folder)

    def _read_shortlist(self, folder: ExportFolder) -> Shortlist:
        try:
            shortlist = Shortlist(*folder.session("shortlist").run(["starts", "ids", "always"], {}))
            shortlist.check(*(len(codec.vocabulary) for codec in self.codecs))
        except ValueError as error:
            place = str(folder.path / folder.values["parts"]["shortlist"])
            raise InputError(place, f"is damaged ({error}); export the run again") from None
        return shortlist

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
        shortlist: int | None = None,
        progress: Progress | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate one text or several; returns one answer per text, with other translations inside it.

        A long text is translated sentence by sentence. `search` is "beam" or "greedy"; constraints,
        alignments and other strategies need the trained model. `shortlist` is the number of candidates per
        source token that translations may use; 0 allows the whole vocabulary.
        """
        if "greedy" in search_options:
            raise InputError("greedy", "is a strategy of its own: search=greedy")
        constraints = {"prefix": prefix, "forbid": forbid, "require": require, "min_length": min_length}
        constraints |= {"no_repeat_ngram": no_repeat_ngram, "copy_unknown": copy_unknown, "align": align}
        needed = [name for name, value in constraints.items() if value]
        needed += [name for name, value in search_options.items() if value is not None]
        if search not in ("beam", "greedy"):
            needed.insert(0, "search")
        if needed:
            near = suggest(needed[0], {"num_beams", "num_return_sequences", "max_length"} - {*needed})
            raise InputError(
                needed[0], f"needs the trained model; an export has beam and greedy search only{near}"
            )
        if search == "greedy":
            for name, value in (("num_beams", num_beams), ("length_penalty", length_penalty)):
                if value is not None:
                    raise InputError(name, "is not an option of greedy search, which has none")
            num_beams, length_penalty = 1, 0.0
        count = check_whole("num_return_sequences", num_return_sequences, 1, MAX_BEAMS)
        usual = max(int(self.generation["num_beams"]), count)
        width = usual if num_beams is None else check_whole("num_beams", num_beams, 1, MAX_BEAMS)
        alpha = self.generation["length_penalty"] if length_penalty is None else length_penalty
        size = len(self.codecs.target.vocabulary)
        candidates = choose_count(shortlist, self.shortlist, size, worthwhile=True)

        def to_translation(one: Finished) -> Translation:
            return Translation(self.codecs.target.decode(one.tokens), one.score, one.log_prob, one.ended)

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            prompts = [self.codecs.prompt(part) for part in parts]
            results: dict[int, list[Finished]] = {}
            for most, batch in batches_by_length(prompts, max_length, SENTENCES_AT_ONCE):
                end_id, barred = self.settings["end_id"], self.settings["barred"]
                beam = ArrayBeam(end_id, width, alpha, num_return_sequences, most, barred)
                decoding = _Decoding(self, [prompts[number] for number in batch], candidates)
                found = beam.search(decoding, len(batch), self.settings["begin_id"])
                results.update(zip(batch, found, strict=True))
                if progress is not None:
                    progress(len(results), len(prompts))
            return [[to_translation(one) for one in results[number]] for number in range(len(prompts))]

        return self.codecs.translate_in_parts(texts, self.generation["max_source_tokens"], translate_parts)


class _Decoding:
    """The state of the decoder during the search for some sentences."""

    def __init__(
        self, translator: TranslatorRunner, prompts: Sequence[Sequence[int]], candidates: int
    ) -> None:
        encoder, self.decoder = translator.encoder, translator.decoder
        source, lengths = pad(prompts)
        states, kept = (encoder.sort_numbered(stem, encoder.outputs) for stem in ("state", "kept"))
        found = encoder.run([*states, *kept], {"source": source, "lengths": lengths})
        self.names, self.state = states, found[: len(states)]
        self.kept = dict(zip(kept, found[len(states) :], strict=True))
        self.asked = ["top_log_probs", "top_ids", *self.decoder.sort_numbered("next", self.decoder.outputs)]
        self.sentences, self.candidates = len(prompts), np.zeros(0, dtype=np.int64)
        if translator.shortlist is not None:
            lists = [np.zeros(0, dtype=np.int64)] * len(prompts)
            if candidates:
                self.asked[:2] = ["candidate_log_probs", "candidate_ids"]
                lists = [translator.shortlist.candidates(prompt, candidates) for prompt in prompts]
            self.candidates = np.unique(np.concatenate(lists))
            # It is kept per sentence, as the memory of the decoder is.
            self.kept["allowed"] = np.stack([np.isin(self.candidates, own) for own in lists])

    def __call__(self, rows: Array, last: Array, staying: Array, count: int) -> Likeliest:
        """Run one step for the given rows, keeping only the sentences in `staying`."""
        if len(staying) < self.sentences:
            self.kept = {name: value[staying] for name, value in self.kept.items()}
            self.sentences = len(staying)
        given = {name: part[rows] for name, part in zip(self.names, self.state, strict=True)}
        given |= self.kept
        given["last"], given["k"] = last, np.array([count])
        if "allowed" in given:
            given["candidates"] = self.candidates
        log_probs, ids, *self.state = self.decoder.run(self.asked, given)
        return Likeliest(log_probs, ids)
