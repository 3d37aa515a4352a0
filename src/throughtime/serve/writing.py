"""A language model writes several texts at once: new ones join and finished ones leave at every token."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from throughtime.runtime.draws import Draws
from throughtime.search.generate import Memory, SearchState, select
from throughtime.search.sampling import choose_at, temper
from throughtime.serve.batching import Worker, as_failure
from throughtime.text.codec import WINDOW

if TYPE_CHECKING:
    from throughtime.tasks.language_model import LanguageModel
    from throughtime.text.framing import Framing


@dataclass(frozen=True)
class SamplingOptions:
    """How to write a text. Without `seed`, draws differ each time; temperature 0 takes the likeliest token.

    `sentence` is the number of the prompt, and `choice` the number of the text for this prompt.
    """

    max_tokens: int = 16
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    likely: int = 0  # number of the likeliest tokens to report at each step
    seed: int | None = None
    sentence: int = 0
    choice: int = 0


class WrittenToken(NamedTuple):
    """One token, its ln P, and the likeliest tokens with theirs."""

    token: int
    log_prob: float
    likely: tuple[tuple[int, float], ...]


class Stops:
    """Holds text back while it may be the beginning of a stop string.

    >>> stops = Stops(["END"])
    >>> [stops.add(piece) for piece in ("the ", "E", "gg ", "EN", "D of it")], stops.stopped
    (['the ', '', 'Egg ', '', ''], True)
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """Add text; return what is certain to be written."""
        whole = self.held + text
        places = [place for stop in self.stops if (place := whole.find(stop)) >= 0]
        if places:
            self.held, self.stopped = "", True
            return whole[: min(places)]
        sure = len(whole) - max((_count_begun(whole, stop) for stop in self.stops), default=0)
        self.held = whole[sure:]
        return whole[:sure]

    def rest(self) -> str:
        """Return what was held back, at the end."""
        held, self.held = self.held, ""
        return held


def _count_begun(whole: str, stop: str) -> int:
    """Return the number of last characters that may begin the stop."""
    most = min(len(whole), len(stop) - 1)
    return next((size for size in range(most, 0, -1) if whole.endswith(stop[:size])), 0)


@dataclass(eq=False)
class Draft:
    """A text that is being written. `notify` is called in the thread of the model after each token.

    `finish` is why it ended: "stop" by the end token or a stop string, "length" at `max_tokens`.
    """

    prompt: list[int]
    options: SamplingOptions
    framing: Framing
    notify: Callable[[Draft], None] = lambda draft: None
    tokens: list[WrittenToken] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)  # the text, as it became sure
    finish: str | None = None
    failure: Exception | None = None
    left: bool = False
    size = 1

    def __post_init__(self) -> None:
        """Set up the random numbers, the stop strings, and the tokens that spell the next one."""
        options, self.window = self.options, deque(self.prompt, maxlen=WINDOW)
        self.stops = Stops(options.stop)
        self.draws = iter(Draws(options.seed, np.array([options.sentence]), np.array([options.choice])))

    @property
    def over(self) -> bool:
        """Whether the text is finished or has failed."""
        return self.finish is not None or self.failure is not None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    def fail(self, error: BaseException) -> None:
        """End the text with an error."""
        self.failure = as_failure(error)
        self.notify(self)

    def take(
        self, token: int, log_prob: float, likely: Sequence[tuple[int, float]], end_id: int | None
    ) -> None:
        """Add a token; the end token is not part of the text."""
        ended = token == end_id
        if not ended:
            self.tokens.append(WrittenToken(token, log_prob, tuple(likely)))
            self._write(self.framing.addition(list(self.window), token))
            self.window.append(token)
        full = len(self.tokens) >= self.options.max_tokens
        if (ended or full) and not self.stops.stopped:
            self.pieces.append(self.stops.rest())
        if ended or full or self.stops.stopped:
            # Set last: another thread that sees it finds the text complete.
            self.finish = "stop" if ended or self.stops.stopped else "length"

    def _write(self, text: str) -> None:
        if text and (sure := self.stops.add(text)):
            self.pieces.append(sure)


class Writer(Worker):
    """A thread that writes the texts of a language model, at most `most` at once."""

    def __init__(self, name: str, language: LanguageModel, *, most: int = 64, queue: int = 256) -> None:
        self.language, self.most = language, most
        self.writing = 0  # texts that are begun and not over
        super().__init__(name, queue, "texts")

    def _work(self) -> None:
        page = _Page(self.language)
        while True:
            fresh = self._admit(self.most - len(page.drafts), wait=not page.drafts)
            if not fresh and not page.drafts:
                return
            self._busy_since = time.monotonic()
            try:
                self._join(page, fresh)
                page.step()
            except BaseException as error:
                for draft in page.drafts:
                    draft.fail(error)
                page = _Page(self.language)
            self.writing = len(page.drafts)
            self._busy_since = None

    def _join(self, page: _Page, fresh: list[Draft]) -> None:
        """Begin new drafts; those whose prompts the model cannot read fail, and no others."""
        try:
            page.join(fresh)
        except BaseException as error:
            if len(fresh) == 1:
                fresh[0].fail(error)
                return
            for draft in fresh:
                self._join(page, [draft])

    def _admit(self, most: int, wait: bool) -> list[Draft]:
        """Return drafts to begin; with `wait`, at least one unless the queue is closed and empty."""
        chosen: list[Draft] = []
        with self._changed:
            while True:
                while self._queue and len(chosen) < most:
                    draft = self._queue.popleft()
                    if not draft.left:
                        chosen.append(draft)
                if chosen or not wait or self._closing:
                    return chosen
                self._changed.wait()


class _Page:
    """The current drafts and their states, as rows of the same tensors."""

    def __init__(self, language: LanguageModel) -> None:
        self.model, self.end_id = language.model, language.framing.end_id
        self.drafts: list[Draft] = []
        self.last = torch.empty(0, dtype=torch.long)
        self.state: SearchState = ()

    @torch.inference_mode()
    def join(self, fresh: Sequence[Draft]) -> None:
        """Read the prompts of new drafts, each once for all of its texts."""
        if not fresh:
            return
        prompts = {tuple(draft.prompt): None for draft in fresh}
        places = {prompt: place for place, prompt in enumerate(prompts)}
        last, state, _ = self.model.start(list(prompts))
        rows = torch.tensor([places[tuple(draft.prompt)] for draft in fresh], device=last.device)
        last, state = last[rows], select(state, rows)
        if self.drafts:
            last = torch.cat([self.last, last])
            state = tuple(torch.cat(pair) for pair in zip(self.state, state, strict=True))
        self.last, self.state = last, state
        self.drafts = [*self.drafts, *fresh]

    @torch.inference_mode()
    def step(self) -> None:
        """Write one more token of every draft; drop those that are over or no longer waited for."""
        if not self.drafts:
            return
        step = self.model.step(self.last, self.state, Memory.empty(len(self.drafts), self.last.device))
        options = [draft.options for draft in self.drafts]
        tokens = draw_tokens(step.log_probs, options, [float(next(draft.draws)[0]) for draft in self.drafts])
        gained = step.log_probs.gather(1, tokens[:, None]).squeeze(1).tolist()
        best = _likely(step.log_probs, max(option.likely for option in options))
        for row, (draft, token) in enumerate(zip(self.drafts, tokens.tolist(), strict=True)):
            try:
                draft.take(token, gained[row], best[row][: draft.options.likely], self.end_id)
            except BaseException as error:  # of the tokenizer, for this text alone
                draft.failure = as_failure(error)
            draft.notify(draft)
        self.last, self.state = tokens, step.state
        staying = [row for row, one in enumerate(self.drafts) if not one.over and not one.left]
        if len(staying) < len(self.drafts):
            rows = torch.tensor(staying, dtype=torch.long, device=tokens.device)
            self.drafts = [self.drafts[row] for row in staying]
            self.last, self.state = tokens[rows], select(step.state, rows)


def draw_tokens(log_probs: Tensor, options: Sequence[SamplingOptions], points: Sequence[float]) -> Tensor:
    """Draw a token for each row with its own options, at its own point in [0, 1), as `Sampling` does.

    >>> table = torch.tensor([[0.1, 0.6, 0.3]] * 2).log()
    >>> cold, narrow = SamplingOptions(temperature=0), SamplingOptions(top_k=2)
    >>> draw_tokens(table, [cold, narrow], [0.1, 0.1]).tolist()
    [1, 1]
    """
    best = log_probs.argmax(dim=1)
    cold = [option.temperature == 0 for option in options]
    if all(cold):
        return best
    shapes = [[one.temperature or 1.0, one.top_p] for one in options]
    shape = log_probs.new_tensor(shapes, dtype=torch.float64)
    tempered = temper(_keep_likeliest(log_probs, options), shape[:, :1], shape[:, 1:])
    ids = choose_at(tempered, log_probs.new_tensor(points, dtype=torch.float64))
    return torch.where(torch.tensor(cold, device=best.device), best, ids)


def _keep_likeliest(log_probs: Tensor, options: Sequence[SamplingOptions]) -> Tensor:
    """The log-probabilities with -inf for tokens that are not among the `top_k` likeliest of their row."""
    size = log_probs.shape[1]
    most = [min(option.top_k or size, size) for option in options]
    if min(most) == size:
        return log_probs
    rank = torch.tensor(most, device=log_probs.device)[:, None] - 1
    least = log_probs.topk(max(one for one in most if one < size), dim=1).values
    least = least.gather(1, rank.clamp(max=least.shape[1] - 1))
    return log_probs.masked_fill((log_probs < least) & (rank + 1 < size), -torch.inf)


def _likely(log_probs: Tensor, most: int) -> list[list[tuple[int, float]]]:
    if not most:
        return [[]] * len(log_probs)
    best = log_probs.topk(min(most, log_probs.shape[1]), dim=1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [list(zip(ids, values, strict=True)) for ids, values in rows]
