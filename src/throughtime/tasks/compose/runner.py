"""Composing without torch: what a trained composer and its export share, and the export itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, unknown
from throughtime.results import Composed, Progress, with_alternatives
from throughtime.runtime.checks import Size
from throughtime.runtime.search import Finished
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.runtime.writing import GenerationSettings, Step, Writing
from throughtime.tasks.compose import ComposeOptions
from throughtime.text.codec import Codec
from throughtime.text.texts import format_count

Array = NDArray[Any]
Condition = str | Sequence[float]
"""A label, or a vector."""


def read_condition(given: Condition, labels: Sequence[str] | None, width: int) -> list[float]:
    """A label or a vector as input of the network: the number of the label, or the vector."""
    if labels is not None:
        if not isinstance(given, str):
            raise InputError("conditions", "holds a vector, but this model writes from labels")
        if given not in labels:
            raise unknown("label", given, labels)
        return [labels.index(given)]
    if isinstance(given, str):
        raise InputError("conditions", "holds a label, but this model writes from vectors")
    if len(given) != width or not all(math.isfinite(number) for number in given):
        numbers = format_count(width, "finite number")
        raise InputError("conditions", f"holds a vector of length {len(given)}, expected {numbers}")
    return [float(number) for number in given]


class ComposerSettings(TypedDict):
    """The settings of an exported composer."""

    begin_id: Size
    end_id: Size
    barred: list[int]
    labels: list[str] | None
    width: Size
    generation: GenerationSettings


class TextComposer:
    """A model that writes texts from labels or vectors, trained or exported."""

    codec: Codec
    label_names: Sequence[str] | None  # None if it writes from vectors
    width: int  # the length of the vectors

    def compose(
        self,
        conditions: Condition | Sequence[Condition],
        *,
        progress: Progress | None = None,
        **options: Unpack[ComposeOptions],
    ) -> list[Composed]:
        """Write a text for each label or vector, with `num_return_sequences` - 1 alternatives.

        Texts are drawn by `temperature`, `top_k`, `top_p` and `seed`; `greedy=True` takes the most likely
        token at each step, `num_beams` asks for beam search, and `search` names any other strategy. Options
        that are not given come from generation_config.json. Texts begin with `prefix`, contain the words of
        `require` and none of `forbid`, and repeat no n-gram of length `no_repeat_ngram`.

        An exported model has the same keywords and, with the same seed, draws the same texts; other
        strategies than greedy search and sampling, and constraints, need the trained one.
        """
        alone = isinstance(conditions, str) or (
            len(conditions) > 0 and isinstance(conditions[0], int | float)
        )
        several = cast(Sequence[Condition], [conditions] if alone else conditions)
        prompts = [read_condition(condition, self.label_names, self.width) for condition in several]
        nothing = Composed("", -math.inf, -math.inf, False)  # if no text satisfies all constraints
        return [
            with_alternatives(
                [
                    Composed(self.codec.decode(text.tokens), text.score, text.log_prob, text.ended)
                    for text in texts
                ]
                or [nothing]
            )
            for texts in self._write(prompts, options, progress)
        ]

    def _write(
        self, prompts: Sequence[list[float]], options: ComposeOptions, progress: Progress | None
    ) -> list[list[Finished]]:
        """Write the texts of each condition, the best first."""
        raise NotImplementedError


class ComposerRunner(TextComposer, ExportedModel):
    """An exported composer: a graph that reads the condition, and one step of the decoder."""

    settings_type = ComposerSettings

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.codec, self.generation = Codec.load(folder.path), self.settings["generation"]
        self.label_names, self.width = self.settings["labels"], self.settings["width"]
        self.encoder, self.decoder = folder.session("encoder"), folder.session("decoder")
        self._kept = self.decoder.sort_numbered("kept", self.decoder.inputs)
        self._states = self.decoder.sort_numbered("state", self.decoder.inputs)
        self._next = self.decoder.sort_numbered("next", self.decoder.outputs)

    def _write(
        self, prompts: Sequence[list[float]], options: ComposeOptions, progress: Progress | None
    ) -> list[list[Finished]]:
        writing = Writing.choose(self.generation, options)
        return writing.write_all(
            prompts, partial(self._begin, writing.each), self.settings["end_id"], progress
        )

    def _begin(self, rows: int, prompt: list[float]) -> Step:
        """Read a condition; the step writes a number of rows from it."""
        # A label is one number per sentence, [1, 1]; a vector is a row of numbers, [1, 1, width].
        by_label = self.label_names is not None
        source = np.array([prompt], np.int64) if by_label else np.array([[prompt]], np.float32)
        begun = dict(
            zip(self.encoder.outputs, self.encoder.run(self.encoder.outputs, {"source": source}), strict=True)
        )
        state = [np.repeat(begun[name], rows, axis=0) for name in self._states]
        kept = {name: begun[name] for name in self._kept}

        def step(last: Array | None) -> Array:
            nonlocal state
            read = np.full(rows, self.settings["begin_id"]) if last is None else last
            inputs = {"last": read, **kept, **dict(zip(self._states, state, strict=True))}
            log_probs, *state = self.decoder.run(["log_probs", *self._next], inputs)
            allowed: Array = log_probs.copy()
            allowed[:, self.settings["barred"]] = -np.inf
            return allowed

        return step
