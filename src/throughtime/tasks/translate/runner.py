"""An exported translator, which runs without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from throughtime.tasks.translate import TranslateOptions
from throughtime.text.parallel import Codecs

SENTENCES_AT_ONCE = 32
TRAINED_OPTIONS = (
    *("prefix", "forbid", "require", "min_length", "no_repeat_ngram"),
    *("copy_unknown", "align"),
)
"""The options that need the trained model."""

Array = NDArray[Any]
TranslateParts = Callable[[list[str]], list[list[Translation]]]
"""Returns the translations of each part of some texts, the best first."""


class TranslatorSettings(TypedDict):
    """The settings of an exported translator."""

    begin_id: Size
    end_id: Size
    barred: list[Size]
    shared_vocabulary: bool
    generation: dict[str, float]


class TextTranslator:
    """A translator, trained or exported: texts in, translations out."""

    codecs: Codecs

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
        max_length: int | None = None,
        search: Any = "beam",
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        min_length: int = 0,
        copy_unknown: bool = False,
        align: bool = False,
        shortlist: int | None = None,
        progress: Progress | None = None,
        watch: Callable[[Any], None] | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate one text or several; returns one answer per text, with other translations inside it.

        A text of more than `max_source_tokens` tokens is translated sentence by sentence. `search` names a
        strategy of `throughtime.search.strategies.STRATEGIES`, whose options are further keywords, as in
        `search="diverse", groups=3`; or it is a strategy. Translations begin with `prefix`, contain the words
        of `require` and none of `forbid`, repeat no n-gram of length `no_repeat_ngram` and have at least
        `min_length` tokens. `copy_unknown` replaces each `<unk>` by the source word with the most attention;
        `align` adds the attention between words. `shortlist` is the number of candidates per source token
        that translations may use; 0 allows the whole vocabulary. `watch` is called with each part of the
        texts, which has its attention.

        An exported model has beam and greedy search; all else needs the trained one.
        """
        options = TranslateOptions(
            num_beams=num_beams,
            length_penalty=length_penalty,
            num_return_sequences=num_return_sequences,
            max_length=max_length,
            search=search,
            prefix=prefix,
            forbid=forbid,
            require=require,
            no_repeat_ngram=no_repeat_ngram,
            min_length=min_length,
            copy_unknown=copy_unknown,
            align=align,
            shortlist=shortlist,
        )
        translate_parts = self._choose_translation(options, search_options, progress, watch)
        return self.codecs.translate_in_parts(texts, self.max_source_tokens, translate_parts)

    @property
    def max_source_tokens(self) -> int:
        """The number of tokens above which a text is translated sentence by sentence."""
        raise NotImplementedError

    def _choose_translation(
        self,
        options: TranslateOptions,
        search_options: dict[str, Any],
        progress: Progress | None,
        watch: Callable[[Any], None] | None,
    ) -> TranslateParts:
        """Check the options, and return what translates the parts of texts."""
        raise NotImplementedError


class TranslatorRunner(TextTranslator, TextRunner):
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
            path = str(folder.path / folder.values["parts"]["shortlist"])
            raise InputError(path, f"is damaged ({error}); export the run again") from None
        return shortlist

    @property
    def max_source_tokens(self) -> int:
        """The number of tokens above which a text is translated sentence by sentence."""
        return int(self.generation["max_source_tokens"])

    def _choose_translation(
        self,
        options: TranslateOptions,
        search_options: dict[str, Any],
        progress: Progress | None,
        watch: Callable[[Any], None] | None,
    ) -> TranslateParts:
        _refuse_options(options, {**search_options, "watch": watch})
        width, alpha = options["num_beams"], options["length_penalty"]
        if options["search"] == "greedy":
            for name, value in (("num_beams", width), ("length_penalty", alpha)):
                if value is not None:
                    raise InputError(name, "is not an option of greedy search, which has none")
            width, alpha = 1, 0.0
        count = check_whole("num_return_sequences", options["num_return_sequences"], 1, MAX_BEAMS)
        usual = max(int(self.generation["num_beams"]), count)
        beam = ArrayBeam(
            self.settings["end_id"],
            usual if width is None else check_whole("num_beams", width, 1, MAX_BEAMS),
            self.generation["length_penalty"] if alpha is None else alpha,
            count,
            barred=self.settings["barred"],
        )
        size = len(self.codecs.target.vocabulary)
        candidates = choose_count(options["shortlist"], self.shortlist, size, worthwhile=True)
        max_length, decode = options["max_length"], self.codecs.target.decode

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            """Search for the translations of each part, in batches of similar length."""
            prompts = [self.codecs.prompt(part) for part in parts]
            results: dict[int, list[Finished]] = {}
            for most, batch in batches_by_length(prompts, max_length, SENTENCES_AT_ONCE):
                decoding = _Decoding(self, [prompts[number] for number in batch], candidates)
                found = replace(beam, max_length=most).search(decoding, len(batch), self.settings["begin_id"])
                results.update(zip(batch, found, strict=True))
                if progress is not None:
                    progress(len(results), len(prompts))
            return [
                [
                    Translation(decode(best.tokens), best.score, best.log_prob, best.ended)
                    for best in results[number]
                ]
                for number in range(len(prompts))
            ]

        return translate_parts


def _refuse_options(options: TranslateOptions, others: Mapping[str, Any]) -> None:
    """Refuse what an export does not have; the `others` are options of strategies."""
    if "greedy" in others:
        raise InputError("greedy", "is a strategy of its own: search=greedy")
    values: Mapping[str, object] = options
    needed = [name for name in TRAINED_OPTIONS if values[name]]
    needed += [name for name, value in others.items() if value is not None]
    if options["search"] not in ("beam", "greedy"):
        needed.insert(0, "search")
    if needed:
        near = suggest(needed[0], {"num_beams", "num_return_sequences", "max_length"} - {*needed})
        raise InputError(
            needed[0], f"needs the trained model; an export has beam and greedy search only{near}"
        )


class _Decoding:
    """The state of the decoder during the search for some sentences."""

    def __init__(
        self, translator: TranslatorRunner, prompts: Sequence[Sequence[int]], candidates: int
    ) -> None:
        encoder, self.decoder = translator.encoder, translator.decoder
        source, lengths = pad(prompts)
        states, kept = (encoder.sort_numbered(stem, encoder.outputs) for stem in ("state", "kept"))
        read = encoder.run([*states, *kept], {"source": source, "lengths": lengths})
        self.names, self.state = states, read[: len(states)]
        self.kept = dict(zip(kept, read[len(states) :], strict=True))
        self.asked = ["top_log_probs", "top_ids", *self.decoder.sort_numbered("next", self.decoder.outputs)]
        self.sentences, self.candidates = len(prompts), np.zeros(0, dtype=np.int64)
        if translator.shortlist is not None:
            lists = [np.zeros(0, dtype=np.int64)] * len(prompts)
            if candidates:
                self.asked[:2] = ["candidate_log_probs", "candidate_ids"]
                lists = [translator.shortlist.candidates(prompt, candidates) for prompt in prompts]
            self.candidates = np.unique(np.concatenate(lists))
            # It is kept per sentence, as the memory of the decoder is.
            self.kept["allowed"] = np.stack([np.isin(self.candidates, ids) for ids in lists])

    def __call__(self, rows: Array, last: Array, staying: Array, count: int) -> Likeliest:
        """Run one step for the given rows, keeping only the sentences in `staying`."""
        if len(staying) < self.sentences:
            self.kept = {name: value[staying] for name, value in self.kept.items()}
            self.sentences = len(staying)
        inputs = {name: tensor[rows] for name, tensor in zip(self.names, self.state, strict=True)}
        inputs |= self.kept
        inputs["last"], inputs["k"] = last, np.array([count])
        if "allowed" in inputs:
            inputs["candidates"] = self.candidates
        log_probs, ids, *self.state = self.decoder.run(self.asked, inputs)
        return Likeliest(log_probs, ids)
