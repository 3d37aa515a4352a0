"""An exported language model, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from throughtime.results import Generated, Progress, Scored, with_alternatives
from throughtime.runtime.checks import Size
from throughtime.runtime.runner import TextRunner, batches, pad
from throughtime.runtime.search import WritingOptions
from throughtime.runtime.session import ExportFolder
from throughtime.runtime.writing import GenerationSettings, Writing
from throughtime.tasks.language.framing import NOTHING, Framing
from throughtime.text.texts import check_texts

STEPS_PER_BATCH = 128
TEXTS_PER_BATCH = 32

Array = NDArray[Any]


class LanguageSettings(TypedDict):
    """The settings of an exported language model."""

    begin_id: Size | None
    end_id: Size | None
    backward: bool
    initial_state: list[list[float]]
    generation: GenerationSettings


class LanguageModelRunner(TextRunner):
    """An exported language model: one graph that reads any number of tokens, starting from a state."""

    settings_type = LanguageSettings
    reports_dropped = True

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.generation: dict[str, Any] = self.settings["generation"]
        marked, backward = self.settings["begin_id"] is not None, self.settings["backward"]
        self.framing = Framing(self.codec, marked, backward, running=True)
        self._states = self.session.sort_numbered("state", self.session.inputs)
        self._next = self.session.sort_numbered("next", self.session.outputs)

    def score(self, texts: str | Sequence[str], *, prompt: str = "") -> list[Scored]:
        """Score each text: the log-probability of each of its tokens, after the prompt if there is one."""
        return self.framing.score(texts, prompt, self._log_probs)

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        max_new_tokens: int | None = None,
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        strategy: None = None,
        progress: Progress | None = None,
        **options: Unpack[WritingOptions],
    ) -> list[Generated]:
        """Continue each prompt, with `num_return_sequences` - 1 alternatives.

        The keywords are those of the trained model, which draws the same texts with the same seed; strategies
        other than greedy search and sampling need it.
        """
        needed = {"forbid": forbid, "require": require, "no_repeat_ngram": no_repeat_ngram}
        writing = Writing.choose(self.generation, max_new_tokens, options, {**needed, "strategy": strategy})
        prompts, answers = check_texts(prompts, "prompts"), []
        for number, prompt in enumerate(prompts):
            answers.append(self._continue(self.framing.ids(prompt, end=False), number, writing))
            if progress is not None:
                progress(len(answers), len(prompts))
        return answers

    def _continue(self, ids: list[int], number: int, writing: Writing) -> Generated:
        """The continuations of a prompt, the most likely first."""
        rows = writing.each
        state = [np.repeat(part, rows, axis=0) for part in self._read_ids(ids[:-1])]

        def step(last: Array | None) -> Array:
            nonlocal state
            given = np.full(rows, ids[-1] if ids else NOTHING) if last is None else last
            log_probs, reached = self._read(given[None], np.ones(rows, dtype=np.int64), state)
            state = state if given[0] == NOTHING else reached
            found: Array = log_probs[0]
            return found

        results = writing.write(step, number, self.settings["end_id"])
        return with_alternatives(
            [Generated(self.framing.text([*ids, *one.tokens]), one.log_prob, one.ended) for one in results]
        )

    def _first(self, rows: int) -> list[Array]:
        return [
            np.tile(np.array(part, dtype=np.float32), (rows, 1)) for part in self.settings["initial_state"]
        ]

    def _read(self, ids: Array, lengths: Array, state: list[Array]) -> tuple[Array, list[Array]]:
        """ln P after each id, [T, B, V], and the new state."""
        given = {"ids": ids, "lengths": lengths, **dict(zip(self._states, state, strict=True))}
        log_probs, *reached = self.session.run(["log_probs", *self._next], given)
        return log_probs, reached

    def _read_ids(self, ids: Sequence[int]) -> list[Array]:
        """The state of one text after these ids."""
        state = self._first(1)
        for first in range(0, len(ids), STEPS_PER_BATCH):
            piece = np.array(ids[first : first + STEPS_PER_BATCH])[:, None]
            _, state = self._read(piece, np.array([len(piece)]), state)
        return state

    def _log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Array]:
        """ln P of every id given the ids before it."""
        results: dict[int, Array] = {}
        for chosen in batches(sequences, TEXTS_PER_BATCH):
            results.update(zip(chosen, self._score_batch([sequences[one] for one in chosen]), strict=True))
        return [results[number] for number in range(len(sequences))]

    def _score_batch(self, sequences: Sequence[Sequence[int]]) -> list[Array]:
        """The same for one batch."""
        ids, lengths = pad(sequences)
        rows, state = len(sequences), self._first(len(sequences))
        nothing = np.full((1, rows), NOTHING)
        log_probs, _ = self._read(nothing, np.ones(rows, dtype=np.int64), state)
        pieces = [_select_ids(log_probs, ids[:1])]
        for first in range(0, len(ids) - 1, STEPS_PER_BATCH):
            piece = ids[first : min(first + STEPS_PER_BATCH, len(ids) - 1)]
            within = np.clip(lengths - first, 0, len(piece))
            log_probs, state = self._read(piece, within, state)
            pieces.append(_select_ids(log_probs, ids[first + 1 : first + 1 + len(piece)]))
        whole = np.concatenate(pieces)  # [T, B]
        return [whole[:length, row] for row, length in enumerate(lengths.tolist())]


def _select_ids(log_probs: Array, ids: Array) -> Array:
    """Select ln P of these ids [T, B] from all, [T, B, V]."""
    selection: Array = np.take_along_axis(log_probs, ids[..., None], axis=2)[..., 0].astype(np.float64)
    return selection
