"""Language models with OpenAI's completions API."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from throughtime.interrupt import check_interrupt
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.models import Served
from throughtime.serve.prediction import infill
from throughtime.serve.requests import (
    MOST_BEAMS,
    MOST_CHOICES,
    Options,
    RefusalError,
    SearchRequest,
    Text,
    TextList,
    check_limit,
    check_texts,
    error_body,
)
from throughtime.serve.service import Service, admit, batch_key
from throughtime.serve.writing import Draft, SamplingOptions, Spelling, WrittenToken
from throughtime.text.codec import WINDOW

if TYPE_CHECKING:
    from throughtime.search.generate import Finished

MOST_LIKELY, MOST_STOPS, STOP_LENGTH = 5, 4, 200

router = APIRouter(prefix="/v1", tags=["completions"])
Ids = Annotated[list[int], Field(min_length=1, fail_fast=True)]


class StreamOptions(BaseModel):
    """What a stream reports at its end."""

    include_usage: bool = False


class CompletionRequest(SearchRequest):
    """Prompts to continue, and how. A prompt may be given as token ids of the vocabulary of the model.

    Texts are sampled unless `search` names another strategy, whose options are further fields.
    """

    model: Text
    prompt: Text | TextList | Ids | Annotated[list[Ids], Field(min_length=1, fail_fast=True)] = ""
    suffix: Text | None = None
    max_tokens: int | None = Field(None, ge=0)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stop: Text | Annotated[list[Text], Field(max_length=MOST_STOPS)] | None = None
    seed: int | None = None
    num_beams: int | None = Field(None, ge=1, le=MOST_BEAMS)
    length_penalty: float | None = Field(None, ge=0, le=10)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST_LIKELY)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def choices(self) -> int:
        """Number of texts for each prompt."""
        return self.n or 1

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of a text; the default is OpenAI's."""
        return 16 if self.max_tokens is None else self.max_tokens

    def sampling(self, number: int) -> SamplingOptions:
        """Return the options for the text of this number; each has its own random numbers."""
        return SamplingOptions(
            max_tokens=self.tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            stop=self.stops,
            likely=self.logprobs or 0,
            seed=self.seed,
            sentence=number // self.choices,
            choice=number % self.choices,
        )

    def check(self, options: Options) -> None:
        """Refuse requests that are too large, and options that would be silently ignored."""
        texts = [prompt for prompt in self.prompts if isinstance(prompt, str)]
        check_texts([*texts, self.suffix or "", *self.stops], options)
        ids = sum(len(prompt) for prompt in self.prompts if not isinstance(prompt, str))
        texts_to_write = len(self.prompts) * self.choices
        check_limit("the number of token ids", ids, options.max_characters, status=413, param="prompt")
        check_limit("the number of texts", texts_to_write, options.max_texts, status=413, param="prompt")
        check_limit("max_tokens", self.tokens, options.max_tokens, param="max_tokens")
        if self.tokens == 0 and not self.echo:
            _refuse("max_tokens", "max_tokens 0 without echo leaves nothing to answer")
        if any(len(stop) > STOP_LENGTH for stop in self.stops):
            _refuse("stop", f"a stop is longer than {STOP_LENGTH} characters")
        if self.stream and (self.logprobs is not None or self.suffix):
            name = "suffix" if self.suffix else "logprobs"
            _refuse(name, f"{name} is not streamed; leave stream out")
        for name in ("stream", "logprobs", "suffix", "stop"):
            if self.search is not None and getattr(self, name) not in (None, False, "", []):
                _refuse(name, f"{name} cannot be given together with search; leave one of them out")
        for name in ("num_beams", "length_penalty"):
            if self.search is None and getattr(self, name) is not None:
                _refuse(name, f"{name} is an option of a search; give search too, such as beam")
        if self.best_of is not None and self.best_of != self.choices:
            _refuse("best_of", "best_of is not supported; ask for n texts")
        for name in ("frequency_penalty", "presence_penalty", "logit_bias"):
            if getattr(self, name):
                _refuse(name, f"{name} is not supported; leave it out")


def _refuse(param: str, sentence: str) -> NoReturn:
    raise RefusalError(400, sentence, param=param)


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """All models; language models complete texts, models that fill blanks complete with a suffix."""
    return {"object": "list", "data": [_model(one) for one in admit(request).models]}


@router.get("/models/{name}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    return _model(admit(request).models.get(name))


@router.post("/completions", openapi_extra=body_schema(CompletionRequest))
async def completions(request: Request) -> Response:
    """Continue a prompt, or fill the gap before a suffix; with `stream`, as server-sent events."""
    asked = await read_body(request, CompletionRequest)
    service = admit(request)
    asked.check(service.options)
    named = service.models.get(asked.model)
    if asked.suffix:
        whole = await infill(request, named, asked.prompts, asked.suffix, asked.tokens, asked.choices)
        return await answer(request, _head(named) | whole)
    if "generate" not in named.abilities:
        _refuse("model", f"{named.name} cannot continue a text; ask a language model")
    if named.model.framing.backward:
        _refuse("model", f"{named.name} reads from right to left and cannot go on")
    completion = await service.run_aside(request, partial(Completion, request, service, named, asked))
    # No warning for an empty prompt: a language model can start from nothing.
    texts = {number: one for number, one in enumerate(asked.prompts, 1) if isinstance(one, str) and one}
    numbers = None if len(asked.prompts) == 1 else list(texts)
    completion.warnings = await service.warnings(request, named, list(texts.values()), numbers=numbers)
    if asked.search is not None:
        return await answer(request, await completion.search())
    if asked.stream:
        pieces = completion.stream()
        first = await anext(pieces)  # so that a full queue is still answered with its own status
        return StreamingResponse(_events(first, pieces), media_type="text/event-stream")
    return await answer(request, await completion.whole())


class Completion:
    """The texts of one request."""

    def __init__(self, request: Request, service: Service, served: Served, asked: CompletionRequest) -> None:
        self.request, self.service, self.served, self.asked = request, service, served, asked
        self.framing = served.model.framing
        self.head = _head(served)
        self.warnings: dict[str, list[str]] = {}
        self.prompts = [self._ids(prompt) for prompt in asked.prompts]
        self.drafts = [
            Draft(ids, asked.sampling(number * asked.choices + choice), Spelling(self.framing, ids))
            for number, ids in enumerate(self.prompts)
            for choice in range(asked.choices)
        ]

    async def whole(self) -> dict[str, Any]:
        """Return the whole answer."""
        await self.service.wait_for(self.request, asyncio.ensure_future(self._finish()))
        prompt_scores: list[list[float]] = [[]] * len(self.prompts)
        if self.asked.echo and self.asked.logprobs is not None:
            score = self.served.model.model.log_probs
            prompt_scores = await self.service.compute(
                self.request,
                self.served,
                "score",
                lambda items: [one.tolist() for one in score(items)],
                self.prompts,
            )
        return await self.service.run_aside(self.request, partial(self._answer, prompt_scores))

    def _answer(self, prompt_scores: Sequence[Sequence[float]]) -> dict[str, Any]:
        choices = []
        for index, draft in enumerate(self.drafts):
            number = index // self.asked.choices
            log_probs = None
            if self.asked.logprobs is not None:
                log_probs = self._log_probs(draft, prompt_scores[number])
            text = self._echo(number) + draft.text
            choices.append(_choice(index, text, draft.finish or "length", log_probs))
        return self.head | {"choices": choices, "usage": self._usage()} | self.warnings

    async def search(self) -> dict[str, Any]:
        """Return the whole answer, found by the strategy that `search` names."""
        asked, model = self.asked, self.served.model
        given = asked.model_dump(include={"temperature", "top_p", "seed", "num_beams", "length_penalty"})
        options = asked.search_options(
            **given, num_return_sequences=asked.choices, max_new_tokens=asked.tokens
        )

        def compute(prompts: list[list[int]]) -> list[list[Finished]]:
            found: list[list[Finished]] = model.write(prompts, model.strategy(**options), asked.tokens)
            return found

        key = batch_key("completions", options)
        found = await self.service.compute(self.request, self.served, key, compute, self.prompts)
        return await self.service.run_aside(self.request, partial(self._found, found))

    def _found(self, found: list[list[Finished]]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        written = 0
        for number, (ids, own) in enumerate(zip(self.prompts, found, strict=True)):
            for one in own:
                check_interrupt()
                text = "".join(self.framing.pieces([*ids, *one.tokens])[len(ids) :])
                reason = "stop" if one.ended else "length"
                choices.append(_choice(len(choices), self._echo(number) + text, reason, None))
                written += len(one.tokens)
        self.service.metrics.tokens.labels(self.served.name).inc(written)
        return self.head | {"choices": choices, "usage": self._usage(written)} | self.warnings

    async def _finish(self) -> None:
        async for _ in self.stream():
            pass

    async def stream(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer in pieces as they are written; writing stops when the client disconnects."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def notify(draft: Draft) -> None:
            # A reader that has not come round to the last news finds all of them when it does.
            if (self.asked.stream or draft.over) and not draft.left and not news.is_set():
                loop.call_soon_threadsafe(news.set)

        sent = dict.fromkeys(self.drafts, 0)
        deadline = self.service.deadline(self.request)
        try:
            for draft in self.drafts:
                draft.notify = notify
            if self.asked.tokens:
                self.service.writers[self.served.name].put(self.drafts)
            for index in range(len(self.drafts)):
                first = self.warnings if not index else {}
                yield self._piece(index, self._echo(index // self.asked.choices), None) | first
            unfinished = list(self.drafts) if self.asked.tokens else []
            while unfinished:
                await _wait_for_news(news, deadline, unfinished)
                for draft in list(unfinished):
                    finish, ready = draft.finish, len(draft.pieces)  # in this order: a finished text is whole
                    text = "".join(draft.pieces[sent[draft] : ready])
                    sent[draft] = ready
                    if finish is not None:
                        unfinished.remove(draft)
                    if text or finish is not None:
                        yield self._piece(self.drafts.index(draft), text, finish)
            if self.asked.stream_options is not None and self.asked.stream_options.include_usage:
                yield self.head | {"choices": [], "usage": self._usage()}
        finally:
            for draft in self.drafts:
                draft.left = True
            self.service.metrics.tokens.labels(self.served.name).inc(self._usage()["completion_tokens"])

    def _ids(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return list(self.framing.ids(prompt, end=False))
        size = len(self.framing.codec.vocabulary)
        if wrong := [one for one in prompt if not 0 <= one < size]:
            _refuse("prompt", f"prompt has the token {wrong[0]}; known are 0 to {size - 1}")
        begin = self.framing.begin_id
        return prompt if begin is None or prompt[0] == begin else [begin, *prompt]

    def _echo(self, number: int) -> str:
        if not self.asked.echo:
            return ""
        prompt = self.asked.prompts[number]
        return prompt if isinstance(prompt, str) else self.framing.text(prompt)

    def _piece(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        return self.head | {"choices": [_choice(index, text, finish, None)]}

    def _usage(self, written: int | None = None) -> dict[str, int]:
        read = sum(
            len(ids) - self.framing.num_given if isinstance(asked, str) else len(asked)
            for asked, ids in zip(self.asked.prompts, self.prompts, strict=True)
        )
        if written is None:
            written = sum(len(draft.tokens) for draft in self.drafts)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _log_probs(self, draft: Draft, prompt_scores: Sequence[float]) -> dict[str, Any]:
        """Return ln P of every token; those of an echoed prompt come first, and its first is unknown."""
        echoed = len(prompt_scores)
        skip = self.framing.num_given if echoed else 0
        ids = [*draft.prompt, *(one.token for one in draft.tokens)]
        first = skip if echoed else len(draft.prompt)
        tokens = self.framing.pieces(ids)[first:]
        scores: list[float | None] = [*prompt_scores[skip:], *(one.log_prob for one in draft.tokens)]
        likely: list[dict[str, float | None] | None] = [None] * (echoed - skip)
        for place, one in enumerate(draft.tokens, len(draft.prompt)):
            check_interrupt()
            likely.append(self._likely(ids[max(0, place - WINDOW) : place], tokens[place - first], one))
        return {
            "tokens": tokens,
            "token_logprobs": [_finite(score) for score in scores],
            "top_logprobs": likely if self.asked.logprobs else None,
            "text_offset": [0, *accumulate(map(len, tokens))][:-1],
        }

    def _likely(self, before: list[int], piece: str, written: WrittenToken) -> dict[str, float | None]:
        """Return the likeliest tokens, spelled as in `tokens`; by their names if two are spelled alike."""
        found: dict[str, float | None] = {}
        for number, score in (dict(written.likely) | {written.token: written.log_prob}).items():
            own = piece if number == written.token else self.framing.addition(before, number)
            if number != written.token and own in ("", piece, *found):
                own = self.framing.codec.vocabulary.token(number)
            found[own] = _finite(score)
        return found


async def _wait_for_news(news: asyncio.Event, deadline: float, drafts: Sequence[Draft]) -> None:
    """Wait for more text until the deadline; finished texts may be read after it."""
    if not all(draft.over for draft in drafts):
        await asyncio.wait_for(news.wait(), max(0.0, deadline - time.monotonic()))
        if time.monotonic() > deadline:
            raise TimeoutError
    news.clear()
    for draft in drafts:
        if draft.failure is not None:
            raise draft.failure


async def _events(first: dict[str, Any], pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Yield server-sent events, the last as OpenAI's clients expect it; a failure is an event, too."""
    try:
        yield _event(first)
        async for piece in pieces:
            yield _event(piece)
    except TimeoutError:
        yield _event(error_body("/v1/", 504, "the text was not finished in time"))
    except Exception:
        yield _event(error_body("/v1/", 500, "the model failed; the server's log says why"))
        raise
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]
    yield "data: [DONE]\n\n"


def _event(values: dict[str, Any]) -> str:
    return f"data: {json.dumps(values, ensure_ascii=False)}\n\n"


def _head(served: Served) -> dict[str, Any]:
    number, now = uuid.uuid4().hex, int(time.time())
    return {"id": f"cmpl-{number}", "object": "text_completion", "created": now, "model": served.name}


def _choice(index: int, text: str, finish: str | None, log_probs: dict[str, Any] | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}


def _model(served: Served) -> dict[str, Any]:
    values = {"id": served.name, "object": "model", "created": 0, "owned_by": "throughtime"}
    return values | {"task": served.task}


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("-inf") else value
