"""Composing without torch: what a trained composer and its export share, and the export itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, unknown
from throughtime.results import Composed, Progress, with_alternatives
from throughtime.runtime.checks import Size
from throughtime.runtime.search import WritingOptions
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.runtime.writing import GenerationSettings, Writing
from throughtime.text.codec import Codec
from throughtime.text.texts import format_count

Array = NDArray[Any]
Condition = str | Sequence[float]
"""A label, or a vector."""


def list_conditions(conditions: Condition | Sequence[Condition]) -> Sequence[Condition]:
    """The conditions as a list; a single label or vector becomes a list of one."""
    alone = isinstance(conditions, str) or (len(conditions) > 0 and isinstance(conditions[0], int | float))
    return cast(Sequence[Condition], [conditions] if alone else conditions)


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


class ComposerRunner(ExportedModel):
    """An exported composer: a graph that reads the condition, and one step of the decoder."""

    settings_type = ComposerSettings

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.codec, self.generation = Codec.load(folder.path), self.settings["generation"]
        self.encoder, self.decoder = folder.session("encoder"), folder.session("decoder")
        self._kept = self.decoder.sort_numbered("kept", self.decoder.inputs)
        self._states = self.decoder.sort_numbered("state", self.decoder.inputs)
        self._next = self.decoder.sort_numbered("next", self.decoder.outputs)

    def compose(
        self,
        conditions: Condition | Sequence[Condition],
        *,
        max_new_tokens: int | None = None,
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[WritingOptions],
    ) -> list[Composed]:
        """Write a text for each label or vector, with `num_return_sequences` - 1 alternatives.

        The keywords are those of the trained model, which draws the same texts with the same seed; other
        strategies than greedy search and sampling, and constraints, need it.
        """
        labels, width = self.settings["labels"], self.settings["width"]
        prompts = [read_condition(one, labels, width) for one in list_conditions(conditions)]
        needed = {"prefix": prefix, "forbid": forbid, "require": require, "no_repeat_ngram": no_repeat_ngram}
        writing = Writing.choose(self.generation, max_new_tokens, options, needed)
        answers = []
        for number, prompt in enumerate(prompts):
            answers.append(self._compose(prompt, number, writing))
            if progress is not None:
                progress(len(answers), len(prompts))
        return answers

    def _compose(self, prompt: list[float], number: int, writing: Writing) -> Composed:
        """The texts for one condition, the most likely first."""
        rows, barred = writing.each, self.settings["barred"]
        # A label is one number per sentence, [1, 1]; a vector is a row of numbers, [1, 1, width].
        by_label = self.settings["labels"] is not None
        source = np.array([prompt], np.int64) if by_label else np.array([[prompt]], np.float32)
        begun = dict(
            zip(self.encoder.outputs, self.encoder.run(self.encoder.outputs, {"source": source}), strict=True)
        )
        state = [np.repeat(begun[name], rows, axis=0) for name in self._states]
        kept = {name: begun[name] for name in self._kept}

        def step(last: Array | None) -> Array:
            nonlocal state
            given = np.full(rows, self.settings["begin_id"]) if last is None else last
            inputs = {"last": given, **kept, **dict(zip(self._states, state, strict=True))}
            log_probs, *state = self.decoder.run(["log_probs", *self._next], inputs)
            allowed: Array = log_probs.copy()
            allowed[:, barred] = -np.inf
            return allowed

        results = writing.write(step, number, self.settings["end_id"])
        return with_alternatives(
            [Composed(self.codec.decode(one.tokens), one.score, one.log_prob, one.ended) for one in results]
        )
