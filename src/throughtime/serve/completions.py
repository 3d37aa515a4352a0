"""Language models behind OpenAI's completions."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from throughtime.serve.completion_request import CompletionRequest, check
from throughtime.serve.infilling import infilled
from throughtime.serve.limits import check_key
from throughtime.serve.models import Served
from throughtime.serve.refusals import RefusalError, in_shape
from throughtime.serve.service import Service, service_of
from throughtime.serve.spelling import Spelling
from throughtime.serve.writing import Draft, Said
from throughtime.tasks.language.framing import WINDOW

router = APIRouter(prefix="/v1", tags=["completions"])


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """All models; language models complete, models that fill blanks complete with a suffix."""
    service = service_of(request)
    check_key(request, service.options)
    return {"object": "list", "data": [_model(one) for one in service.models]}


@router.get("/models/{name}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One model."""
    service = service_of(request)
    check_key(request, service.options)
    return _model(service.models.named(name))


@router.post("/completions", response_model=None)
async def completions(request: Request, asked: CompletionRequest) -> Response:
    """Go on from a prompt, or fill what is missing before a suffix; with `stream`, as server-sent events."""
    service = service_of(request)
    check_key(request, service.options)
    check(asked, service.options)
    named = service.models.named(asked.model)
    if asked.suffix:
        whole = await infilled(request, named, asked.prompts, asked.suffix, asked.tokens, asked.choices)
        return JSONResponse(_head(named) | whole)
    if not named.writes:
        raise RefusalError(400, f"{named.name} cannot continue a text; ask a language model", param="model")
    if named.model.framing.backward:
        raise RefusalError(400, f"{named.name} reads from right to left and cannot go on", param="model")
    completion = Completion(service, named, asked)
    # No warning for an empty prompt: a language model can start from nothing.
    numbers = [number for number, one in enumerate(asked.prompts, 1) if isinstance(one, str) and one]
    written = [one for one in asked.prompts if isinstance(one, str) and one]
    alone = len(asked.prompts) == 1
    completion.warnings = await service.warnings(named, written, numbers=None if alone else numbers)
    if asked.stream:
        pieces = completion.streamed()
        first = await anext(pieces)  # so that a full queue is still answered with its own status
        return StreamingResponse(_events(first, pieces), media_type="text/event-stream")
    return JSONResponse(await completion.whole(request))


class Completion:
    """The texts that one request asks for."""

    def __init__(self, service: Service, served: Served, asked: CompletionRequest) -> None:
        self.service, self.served, self.asked = service, served, asked
        self.framing = served.model.framing
        self.head = _head(served)
        self.warnings: dict[str, list[str]] = {}
        self.prompts = [self._ids(prompt) for prompt in asked.prompts]
        self.drafts = [
            Draft(ids, asked.manner(number * asked.choices + choice), Spelling(self.framing, ids))
            for number, ids in enumerate(self.prompts)
            for choice in range(asked.choices)
        ]

    async def whole(self, request: Request) -> dict[str, Any]:
        """The answer at once."""
        if self.asked.tokens:
            await self.service.written(request, self.served, self.drafts)
        prompt_scores: list[list[float]] = [[]] * len(self.prompts)
        if self.asked.echo and self.asked.logprobs is not None:
            prompt_scores = await self.service.computed(
                request,
                self.served,
                "score",
                lambda items, left: [one.tolist() for one in self.served.model.model.log_probs(items)],
                self.prompts,
            )
        choices = []
        for index, draft in enumerate(self.drafts):
            number = index // self.asked.choices
            scores = prompt_scores[number] if self.asked.logprobs is not None else None
            echoed = self._echoed(number)
            told = None if scores is None else self._log_probs(draft, scores)
            choices.append(_choice(index, echoed + draft.text, draft.finish or "length", told))
        return self.head | {"choices": choices, "usage": self._usage()} | self.warnings

    async def streamed(self) -> AsyncIterator[dict[str, Any]]:
        """The answer in pieces, each as soon as it is written; the writing stops when nobody reads on."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def hear(draft: Draft) -> None:
            # A reader that has not come round to the last news finds all of them when it does.
            if not draft.left and not news.is_set():
                loop.call_soon_threadsafe(news.set)

        for draft in self.drafts:
            draft.hear = hear
        told = dict.fromkeys(self.drafts, 0)
        deadline = time.monotonic() + self.service.options.timeout
        try:
            if self.asked.tokens:
                self.service.writers[self.served.name].submit(self.drafts)
            for index in range(len(self.drafts)):
                first = self.warnings if not index else {}
                yield self._piece(index, self._echoed(index // self.asked.choices), None) | first
            unfinished = list(self.drafts) if self.asked.tokens else []
            while unfinished:
                await _heard(news, deadline, unfinished)
                for draft in list(unfinished):
                    over, ready = draft.finish, len(draft.written)  # in this order: a finished text is whole
                    text = "".join(draft.written[told[draft] : ready])
                    told[draft] = ready
                    if over is not None:
                        unfinished.remove(draft)
                    if text or over is not None:
                        yield self._piece(self.drafts.index(draft), text, over)
            if self.asked.stream_options is not None and self.asked.stream_options.include_usage:
                yield self.head | {"choices": [], "usage": self._usage()}
        finally:
            for draft in self.drafts:
                draft.left = True
            self.service.count_tokens(self.served, self.drafts)

    def _ids(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return list(self.framing.ids(prompt, end=False))
        size = len(self.framing.codec.vocabulary)
        if wrong := [one for one in prompt if not 0 <= one < size]:
            raise RefusalError(
                400, f"prompt has the token {wrong[0]}; known are 0 to {size - 1}", param="prompt"
            )
        begin = self.framing.begin_id
        return prompt if begin is None or prompt[0] == begin else [begin, *prompt]

    def _echoed(self, number: int) -> str:
        if not self.asked.echo:
            return ""
        prompt = self.asked.prompts[number]
        return prompt if isinstance(prompt, str) else self.framing.text(prompt)

    def _piece(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        return self.head | {"choices": [_choice(index, text, finish, None)]}

    def _usage(self) -> dict[str, int]:
        read = sum(
            len(ids) - self.framing.given if isinstance(asked, str) else len(asked)
            for asked, ids in zip(self.asked.prompts, self.prompts, strict=True)
        )
        written = sum(len(draft.said) for draft in self.drafts)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _log_probs(self, draft: Draft, prompt_scores: Sequence[float]) -> dict[str, Any]:
        """ln P of every token; those of an echoed prompt come first, the first of them unknown."""
        echoed = len(prompt_scores)
        skip = self.framing.given if echoed else 0
        ids = [*draft.prompt, *(one.token for one in draft.said)]
        first = skip if echoed else len(draft.prompt)
        tokens = self.framing.pieces(ids)[first:]
        scores: list[float | None] = [*prompt_scores[skip:], *(one.log_prob for one in draft.said)]
        likely: list[dict[str, float | None] | None] = [None] * (echoed - skip)
        for place, one in enumerate(draft.said, len(draft.prompt)):
            likely.append(self._likely(ids[max(0, place - WINDOW) : place], tokens[place - first], one))
        offsets, place = [], 0
        for token in tokens:
            offsets.append(place)
            place += len(token)
        return {
            "tokens": tokens,
            "token_logprobs": [_finite(score) for score in scores],
            "top_logprobs": likely if self.asked.logprobs else None,
            "text_offset": offsets,
        }

    def _likely(self, before: list[int], piece: str, said: Said) -> dict[str, float | None]:
        """The likeliest tokens, spelled as in `tokens`; by their names where that tells two not apart."""
        told: dict[str, float | None] = {}
        for number, score in (dict(said.likely) | {said.token: said.log_prob}).items():
            own = piece if number == said.token else self.framing.addition(before, number)
            if number != said.token and own in ("", piece, *told):
                own = self.framing.codec.vocabulary.token(number)
            told[own] = _finite(score)
        return told


async def _heard(news: asyncio.Event, deadline: float, drafts: Sequence[Draft]) -> None:
    """Wait for more text, at most until the deadline; what is written to its end may be read at leisure."""
    if not all(draft.over for draft in drafts):
        await asyncio.wait_for(news.wait(), max(0.0, deadline - time.monotonic()))
        if time.monotonic() > deadline:
            raise TimeoutError
    news.clear()
    for draft in drafts:
        if draft.failure is not None:
            raise draft.failure


async def _events(first: dict[str, Any], pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
    """Server-sent events, to the last one that OpenAI's clients wait for; a failure is one of them."""
    try:
        yield _event(first)
        async for piece in pieces:
            yield _event(piece)
    except TimeoutError:
        yield _event(in_shape("/v1/", 504, "the text was not done in time"))
    except Exception:
        yield _event(in_shape("/v1/", 500, "the model failed; the server's log says why"))
        raise
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]
    yield "data: [DONE]\n\n"


def _event(values: dict[str, Any]) -> str:
    return f"data: {json.dumps(values, ensure_ascii=False)}\n\n"


def _head(served: Served) -> dict[str, Any]:
    return {
        "id": f"cmpl-{uuid.uuid4().hex}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": served.name,
    }


def _choice(index: int, text: str, finish: str | None, log_probs: dict[str, Any] | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}


def _model(served: Served) -> dict[str, Any]:
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "throughtime",
        "task": served.task,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("-inf") else value
