"""A language model writes several texts at once: new ones join and finished ones leave at every token."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from throughtime.search.sampling import COLDEST
from throughtime.search.step import Memory, State, select
from throughtime.serve.refusals import RefusalError
from throughtime.serve.spelling import Spelling, Stops

if TYPE_CHECKING:
    from throughtime.tasks.language.model import LanguageModel

ALMOST_ONE = 1 - 1e-12


@dataclass(frozen=True)
class Manner:
    """How a text is written. `seed` None draws anew each time; temperature 0 takes the likeliest token."""

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    likely: int = 0  # how many of the likeliest tokens are told at each step
    seed: str | None = None


class Said(NamedTuple):
    """One token with ln P of it and of the likeliest ones."""

    token: int
    log_prob: float
    likely: tuple[tuple[int, float], ...]


@dataclass(eq=False)
class Draft:
    """A text that is being written. `hear` is called in the model's thread after each of its tokens.

    `finish` is why it ended: "stop" by the end token or a stop, "length" at its most tokens.
    """

    prompt: list[int]
    manner: Manner
    spelling: Spelling
    hear: Callable[[Draft], None] = lambda draft: None
    said: list[Said] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # the text, in pieces as they became sure
    finish: str | None = None
    failure: BaseException | None = None
    left: bool = False

    def __post_init__(self) -> None:
        """Its own dice, and its own watch for stops."""
        self.stops = Stops(self.manner.stop)
        self.dice = random.Random(self.manner.seed)

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.finish is not None or self.failure is not None

    @property
    def text(self) -> str:
        """What was written so far."""
        return "".join(self.written)

    def take(
        self, token: int, log_prob: float, likely: Sequence[tuple[int, float]], end_id: int | None
    ) -> None:
        """One more token; the end token is no part of the text."""
        ended = token == end_id
        if not ended:
            self.said.append(Said(token, log_prob, tuple(likely)))
            self._write(self.spelling.add(token))
        full = len(self.said) >= self.manner.max_tokens
        if (ended or full) and not self.stops.stopped:
            self._write(self.spelling.rest())
            self.written.append(self.stops.rest())
        if ended or full or self.stops.stopped:
            # Last of all: whoever sees it, in another thread, finds the text whole.
            self.finish = "stop" if ended or self.stops.stopped else "length"

    def _write(self, text: str) -> None:
        if text and (sure := self.stops.add(text)):
            self.written.append(sure)


class Writer:
    """One thread that writes all texts asked of a language model, at most `most` at once."""

    def __init__(
        self,
        name: str,
        language: LanguageModel,
        *,
        most: int = 64,
        queue: int = 256,
    ) -> None:
        self.name, self.language, self.most, self.queue = name, language, most, queue
        self.writing = 0  # texts that are begun and not over
        self._fresh: deque[Draft] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=f"texts of {name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Texts that are not begun yet, and that somebody still waits for."""
        with self._changed:
            return self._wanted()

    def submit(self, drafts: Sequence[Draft]) -> None:
        """Join the queue, or be refused where it is full."""
        with self._changed:
            if self._closing:
                raise RefusalError(503, "the server is shutting down", retry_after=5)
            waiting = self._wanted()
            if waiting and waiting + len(drafts) > self.queue:
                raise RefusalError(
                    503, f"too many requests wait for {self.name}; try again soon", retry_after=1
                )
            self._fresh.extend(drafts)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits to its end, take nothing new, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _wanted(self) -> int:
        return sum(not draft.left for draft in self._fresh)

    def _work(self) -> None:
        page = _Page(self.language)
        while True:
            fresh = self._admitted(self.most - len(page.drafts), wait=not page.drafts)
            if not fresh and not page.drafts:
                return
            try:
                page.join(fresh)
                page.step()
            except Exception as error:
                for draft in {*page.drafts, *fresh}:
                    draft.failure = error
                    draft.hear(draft)
                page = _Page(self.language)
            self.writing = len(page.drafts)

    def _admitted(self, most: int, wait: bool) -> list[Draft]:
        """Drafts to begin; with `wait`, at least one unless the queue is closed and empty."""
        chosen: list[Draft] = []
        with self._changed:
            while True:
                while self._fresh and len(chosen) < most:
                    draft = self._fresh.popleft()
                    if not draft.left:
                        chosen.append(draft)
                if chosen or not wait or self._closing:
                    return chosen
                self._changed.wait()


class _Page:
    """The drafts that go on, and the state of each: rows of the same tensors."""

    def __init__(self, language: LanguageModel) -> None:
        self.model, self.end_id = language.model, language.framing.end_id
        self.drafts: list[Draft] = []
        self.last = torch.empty(0, dtype=torch.long)
        self.state: State = ()

    @torch.inference_mode()
    def join(self, fresh: Sequence[Draft]) -> None:
        """Read the prompts of new drafts, each once however many texts go on from it."""
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
        """One more token for every draft; those that are over, or that nobody waits for, leave."""
        if not self.drafts:
            return
        step = self.model.step(self.last, self.state, Memory.empty(len(self.drafts), self.last.device))
        manners = [draft.manner for draft in self.drafts]
        tokens = drawn(step.log_probs, manners, [draft.dice for draft in self.drafts])
        gained = step.log_probs.gather(1, tokens[:, None]).squeeze(1).tolist()
        best = _likely(step.log_probs, max(manner.likely for manner in manners))
        for row, (draft, token) in enumerate(zip(self.drafts, tokens.tolist(), strict=True)):
            draft.take(token, gained[row], best[row][: draft.manner.likely], self.end_id)
            draft.hear(draft)
        staying = [row for row, one in enumerate(self.drafts) if not one.over and not one.left]
        if len(staying) < len(self.drafts):
            rows = torch.tensor(staying, dtype=torch.long, device=tokens.device)
            self.drafts = [self.drafts[row] for row in staying]
            self.last, self.state = tokens[rows], select(step.state, rows)
        else:
            self.last, self.state = tokens, step.state


def drawn(log_probs: Tensor, manners: Sequence[Manner], dice: Sequence[random.Random]) -> Tensor:
    """A token for each row, drawn as its own manner says with its own dice, so that rows do not meddle.

    >>> table = torch.tensor([[0.1, 0.6, 0.3]] * 2).log()
    >>> cold, narrow = Manner(temperature=0), Manner(top_p=0.5)
    >>> drawn(table, [cold, narrow], [random.Random(1), random.Random(2)]).tolist()
    [1, 1]
    """
    best = log_probs.argmax(dim=1)
    cold = [manner.temperature == 0 for manner in manners]
    if all(cold):
        return best
    points = [0.0 if still else min(one.random(), ALMOST_ONE) for still, one in zip(cold, dice, strict=True)]
    like = {"dtype": torch.float64, "device": log_probs.device}
    temperature = torch.tensor([manner.temperature or 1.0 for manner in manners], **like)  # type: ignore[arg-type]
    p = (log_probs.double() / temperature[:, None].clamp(min=COLDEST)).softmax(dim=1)
    mass = torch.tensor([manner.top_p for manner in manners], **like)[:, None]  # type: ignore[arg-type]
    if bool((mass < 1).any()):
        falling, order = p.sort(dim=1, descending=True, stable=True)
        beyond = (falling.cumsum(dim=1) - falling >= mass) & (mass < 1)
        p = p.masked_fill(beyond.gather(1, order.argsort(dim=1)), 0.0)
    reached = p.cumsum(dim=1)
    point = torch.tensor(points, **like)[:, None] * reached[:, -1:]  # type: ignore[arg-type]
    found = torch.searchsorted(reached, point, right=True).squeeze(1).clamp(max=p.shape[1] - 1)
    return torch.where(torch.tensor(cold, device=best.device), best, found)


def _likely(log_probs: Tensor, most: int) -> list[list[tuple[int, float]]]:
    if not most:
        return [[]] * len(log_probs)
    best = log_probs.topk(min(most, log_probs.shape[1]), dim=1)
    return [
        list(zip(ids, values, strict=True))
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
