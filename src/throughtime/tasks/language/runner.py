"""An exported language model, without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from throughtime.results import Generated, Progress, Scored, with_alternatives
from throughtime.runtime.checks import Size
from throughtime.runtime.runner import TextRunner, batches, pad
from throughtime.runtime.search import Finished
from throughtime.runtime.session import ExportFolder
from throughtime.runtime.writing import GenerationSettings, Step, Writing
from throughtime.tasks.language import ContinuationOptions
from throughtime.text.framing import NOTHING, Framing
from throughtime.text.texts import check_texts

STEPS_PER_BATCH = 128
TEXTS_PER_BATCH = 32

if TYPE_CHECKING:
    from throughtime.ngram.probabilities import NgramProbabilities

Array = NDArray[Any]
WritePrompts = Callable[[Sequence[Sequence[int]], Progress | None], list[list[Finished]]]
"""Writes the texts of each prompt, given as ids."""


class CountedSettings(TypedDict):
    """The settings of the counted model beside a network; its tables are those of `tasks/ngram/export.py`."""

    order: Size
    never: list[Size]
    network_share: float


class LanguageSettings(TypedDict):
    """The settings of an exported language model."""

    counted: NotRequired[CountedSettings]

    begin_id: Size | None
    end_id: Size | None
    backward: bool
    initial_state: list[list[float]]
    generation: GenerationSettings


class LanguageWriter(ABC):
    """A language model, trained or exported, that continues texts."""

    @property
    @abstractmethod
    def framing(self) -> Framing:
        """How texts become ids."""

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        strategy: Any = None,
        progress: Progress | None = None,
        **options: Unpack[ContinuationOptions],
    ) -> list[Generated]:
        """Continue each prompt, with `num_return_sequences` - 1 alternatives.

        Texts are drawn by `temperature`, `top_k`, `top_p` and `seed`; `greedy=True` takes the most likely
        token at each step, `num_beams` asks for beam search, and `search` names any other strategy.
        Options that are not given come from generation_config.json. `strategy` replaces all these options.

        The text after a prompt contains the words of `require` and none of `forbid`, and repeats no n-gram
        of length `no_repeat_ngram`.

        An exported model has the same keywords and, with the same seed, draws the same texts; other
        strategies than greedy search and sampling, and constraints, need the trained one.
        """
        write = self._choose_writing(options, strategy)
        ids = [self.framing.ids(prompt, end=False) for prompt in check_texts(prompts, "prompts")]
        return [
            with_alternatives(
                [
                    Generated(self.framing.text([*own, *text.tokens]), text.log_prob, text.ended)
                    for text in texts
                ]
            )
            for own, texts in zip(ids, write(ids, progress), strict=True)
        ]

    @abstractmethod
    def _choose_writing(self, options: ContinuationOptions, strategy: Any) -> WritePrompts:
        """Check the options, and return what writes the texts of some prompts."""


class LanguageModelRunner(LanguageWriter, TextRunner):
    """An exported language model: one graph that reads any number of tokens, starting from a state."""

    settings_type = LanguageSettings
    reports_dropped = True

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.generation: dict[str, Any] = self.settings["generation"]
        self._states = self.session.sort_numbered("state", self.session.inputs)
        self._next = self.session.sort_numbered("next", self.session.outputs)
        self._counted: NgramProbabilities | None = None
        if (counted := self.settings.get("counted")) is not None:
            from throughtime.ngram.probabilities import NgramProbabilities

            session = folder.session("counted")
            tables = dict(zip(session.outputs, session.run(session.outputs, {}), strict=True))
            self._counted = NgramProbabilities.from_tables(tables, counted["order"], counted["never"])
            self._weights = np.maximum([counted["network_share"], 1 - counted["network_share"]], 1e-300)

    @cached_property
    def framing(self) -> Framing:
        """How texts become ids."""
        marked, backward = self.settings["begin_id"] is not None, self.settings["backward"]
        return Framing(self.codec, marked, backward, running=True)

    def score(self, texts: str | Sequence[str], *, prompt: str = "") -> list[Scored]:
        """Score each text: the log-probability of each of its tokens, after the prompt if there is one."""
        return self.framing.score(texts, prompt, self._log_probs)

    def _choose_writing(self, options: ContinuationOptions, strategy: Any) -> WritePrompts:
        writing = Writing.choose(self.generation, options, strategy=strategy)
        begin = partial(self._begin, writing.each)
        return lambda prompts, progress: writing.write_all(prompts, begin, self.settings["end_id"], progress)

    def _begin(self, rows: int, ids: Sequence[int]) -> Step:
        """Read a prompt; the step continues it in a number of rows."""
        state = [np.repeat(tensor, rows, axis=0) for tensor in self._read_ids(ids[:-1])]
        words = np.tile(np.array([NOTHING, *ids[:-1]]), (rows, 1))

        def step(last: Array | None) -> Array:
            nonlocal state
            read = np.full(rows, ids[-1] if ids else NOTHING) if last is None else last
            log_probs, reached = self._read(read[None], np.ones(rows, dtype=np.int64), state)
            state = state if read[0] == NOTHING else reached
            newest: Array = log_probs[0]
            if self._counted is None:
                return newest
            nonlocal words
            words = np.concatenate([words, read[:, None]], axis=1)[:, -self._counted.order :]
            with np.errstate(divide="ignore"):
                counted = np.log(self._counted.distribution(words))
            return self._mix(newest, counted)

        return step

    def _first(self, rows: int) -> list[Array]:
        return [
            np.tile(np.array(tensor, dtype=np.float32), (rows, 1))
            for tensor in self.settings["initial_state"]
        ]

    def _read(self, ids: Array, lengths: Array, state: list[Array]) -> tuple[Array, list[Array]]:
        """Return ln P after each id, [T, B, V], and the new state."""
        given = {"ids": ids, "lengths": lengths, **dict(zip(self._states, state, strict=True))}
        log_probs, *reached = self.session.run(["log_probs", *self._next], given)
        return log_probs, reached

    def _read_ids(self, ids: Sequence[int]) -> list[Array]:
        """Return the state of one text after these ids."""
        state = self._first(1)
        for first in range(0, len(ids), STEPS_PER_BATCH):
            piece = np.array(ids[first : first + STEPS_PER_BATCH])[:, None]
            _, state = self._read(piece, np.array([len(piece)]), state)
        return state

    def _log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Array]:
        """Return ln P of every id given the ids before it."""
        results: dict[int, Array] = {}
        for chosen in batches(sequences, TEXTS_PER_BATCH):
            results.update(zip(chosen, self._score_batch([sequences[one] for one in chosen]), strict=True))
        alone = [results[number] for number in range(len(sequences))]
        if self._counted is None:
            return alone
        return list(map(self._mix, alone, self._counted.log_probs(sequences)))

    def _mix(self, alone: Array, counted: Array) -> Array:
        """Return ln of the weighted mean of P, from ln P of the network and of the counted model."""
        network, rest = np.log(self._weights)
        mixed: Array = np.logaddexp(alone + network, counted + rest)
        return mixed

    def _score_batch(self, sequences: Sequence[Sequence[int]]) -> list[Array]:
        """Return the same for one batch."""
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
