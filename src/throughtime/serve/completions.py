"""Language models with OpenAI's completions API."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from throughtime.interrupt import check_interrupt
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.completion_request import CompletionRequest, refuse
from throughtime.serve.models import Served
from throughtime.serve.prediction import infill
from throughtime.serve.requests import error_body
from throughtime.serve.service import Service, admit, batch_key
from throughtime.serve.writing import Draft, WrittenToken
from throughtime.text.codec import WINDOW
from throughtime.text.texts import finite

if TYPE_CHECKING:
    from throughtime.search.generate import Finished

router = APIRouter(prefix="/v1", tags=["completions"])


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
        refuse("model", f"{named.name} cannot continue a text; choose a language model")
    if named.model.framing.backward:
        refuse("model", f"{named.name} reads from right to left and cannot continue a prompt")
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
            Draft(ids, asked.sampling(number * asked.choices + choice), self.framing)
            for number, ids in enumerate(self.prompts)
            for choice in range(asked.choices)
        ]

    async def whole(self) -> dict[str, Any]:
        """Return the whole answer."""
        await self.service.wait_for(self.request, asyncio.ensure_future(self._finish()))
        prompt_scores: list[list[float]] = [[]] * len(self.prompts)
        if self.asked.echo and self.asked.logprobs is not None:
            score = self.served.model.model.log_probs

            def compute(prompts: list[list[int]]) -> list[list[float]]:
                return [one.tolist() for one in score(prompts)]

            prompt_scores = await self.service.compute(
                self.request, self.served, "score", compute, self.prompts
            )
        return await self.service.run_aside(self.request, partial(self._answer, prompt_scores))

    def _answer(self, prompt_scores: Sequence[Sequence[float]]) -> dict[str, Any]:
        choices, wanted = [], self.asked.logprobs is not None
        for index, draft in enumerate(self.drafts):
            number = index // self.asked.choices
            log_probs = self._log_probs(draft, prompt_scores[number]) if wanted else None
            text = self._echo(number) + draft.text
            choices.append(_choice(index, text, draft.finish or "length", log_probs))
        return self.head | {"choices": choices, "usage": self._usage()} | self.warnings

    async def search(self) -> dict[str, Any]:
        """Return the whole answer, found by the strategy that `search` names."""
        asked, model = self.asked, self.served.model
        names = {"temperature", "top_k", "top_p", "seed", "num_beams", "length_penalty"}
        limits = {"num_return_sequences": asked.choices, "max_new_tokens": asked.tokens}
        options = asked.search_options(**asked.model_dump(include=names), **limits)

        def compute(prompts: list[list[int]]) -> list[list[Finished]]:
            results: list[list[Finished]] = model.write(prompts, model.strategy(**options), asked.tokens)
            return results

        key = batch_key("completions", options)
        results = await self.service.compute(self.request, self.served, key, compute, self.prompts)
        return await self.service.run_aside(self.request, partial(self._build_answer, results))

    def _build_answer(self, results: list[list[Finished]]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        written = 0
        for number, (ids, own) in enumerate(zip(self.prompts, results, strict=True)):
            for one in own:
                check_interrupt()
                text = "".join(self.framing.pieces([*ids, *one.tokens])[len(ids) :])
                reason = "stop" if one.ended else "length"
                choices.append(_choice(len(choices), self._echo(number) + text, reason))
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
            refuse("prompt", f"prompt has the token id {wrong[0]}, expected 0 to {size - 1}")
        begin = self.framing.begin_id
        return prompt if begin is None or prompt[0] == begin else [begin, *prompt]

    def _echo(self, number: int) -> str:
        if not self.asked.echo:
            return ""
        prompt = self.asked.prompts[number]
        return prompt if isinstance(prompt, str) else self.framing.text(prompt)

    def _piece(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        return self.head | {"choices": [_choice(index, text, finish)]}

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
        ids = [*draft.prompt, *(token.token for token in draft.tokens)]
        first = skip if echoed else len(draft.prompt)
        tokens = self.framing.pieces(ids)[first:]
        scores: list[float | None] = [*prompt_scores[skip:], *(one.log_prob for one in draft.tokens)]
        likely: list[dict[str, float | None] | None] = [None] * (echoed - skip)
        for place, one in enumerate(draft.tokens, len(draft.prompt)):
            check_interrupt()
            likely.append(self._likely(ids[max(0, place - WINDOW) : place], tokens[place - first], one))
        return {
            "tokens": tokens,
            "token_logprobs": finite(scores),
            "top_logprobs": likely if self.asked.logprobs else None,
            "text_offset": [0, *accumulate(map(len, tokens))][:-1],
        }

    def _likely(self, before: list[int], piece: str, written: WrittenToken) -> dict[str, float | None]:
        """Return the likeliest tokens, spelled as in `tokens`; by their names if two are spelled alike."""
        log_probs: dict[str, float | None] = {}
        for number, score in (dict(written.likely) | {written.token: written.log_prob}).items():
            own = piece if number == written.token else self.framing.addition(before, number)
            if number != written.token and own in ("", piece, *log_probs):
                own = self.framing.codec.vocabulary.token(number)
            log_probs[own] = finite(score)
        return log_probs


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
            await asyncio.sleep(0)  # sending suspends a stream only where its client is slow
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


def _choice(index: int, text: str, finish: str | None, log_probs: Any = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish}


def _model(served: Served) -> dict[str, Any]:
    values = {"id": served.name, "object": "model", "created": 0, "owned_by": "throughtime"}
    return values | {"task": served.task}
