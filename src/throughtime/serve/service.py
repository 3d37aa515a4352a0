"""The models of a server with their threads, and the way from a request to them and back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from starlette.requests import Request

from throughtime.ngram.detection import SAMPLES, Detector
from throughtime.serve.batching import Batcher, Compute
from throughtime.serve.ending import Ending
from throughtime.serve.metrics import Metrics
from throughtime.serve.models import Models, Served
from throughtime.serve.options import Options
from throughtime.serve.refusals import CLIENT_LEFT, RefusalError
from throughtime.serve.writing import Draft, Writer
from throughtime.text.languages import plain_code

WORDS = 3_000
"""Number of words of a vocabulary from which a language is detected."""


class Service:
    """What every endpoint reaches as `request.app.state.service`."""

    def __init__(self, models: Models, options: Options) -> None:
        self.models, self.options, self.metrics, self.ending = models, options, Metrics(), Ending()
        self.batchers = {one.name: self._batcher(one) for one in models}
        self.writers = {one.name: self._writer(one) for one in models if one.writes}
        self.metrics.queued = self._queued

    @cached_property
    def detector(self) -> Detector:
        """Tells the languages of the translators apart; made when it is first asked."""
        return Detector(texts_of(self.models.of("translate")))

    async def warnings(self, served: Served, texts: Sequence[str], **how: Any) -> dict[str, list[str]]:
        """Warnings about these texts as a field `warnings`; an empty dict if there are none."""
        found = await asyncio.to_thread(served.model.input_warnings, texts, **how)
        return {"warnings": [*found.values()]} if found else {}

    async def computed(
        self, request: Request, served: Served, key: Hashable, compute: Compute, items: Sequence[Any]
    ) -> list[Any]:
        """A result for each item, from the model's own thread, batched with others of an equal key.

        Whoever leaves or waits too long is taken out of the queue; what nobody waits for is given up.
        """
        if not items:
            return []
        job = self.batchers[served.name].submit(key, compute, items)
        try:
            found: list[Any] = await self.awaited(request, asyncio.wrap_future(job.future))
        finally:
            job.left = True
        return found

    async def written(self, request: Request, served: Served, drafts: Sequence[Draft]) -> None:
        """Return when all drafts are whole."""
        loop = asyncio.get_running_loop()
        whole: asyncio.Future[None] = loop.create_future()
        unfinished = len(drafts)

        def finished() -> None:
            nonlocal unfinished
            unfinished -= 1
            if not unfinished and not whole.done():
                whole.set_result(None)

        def hear(draft: Draft) -> None:
            if draft.over:
                loop.call_soon_threadsafe(finished)

        for draft in drafts:
            draft.hear = hear
        try:
            self.writers[served.name].submit(drafts)
            await self.awaited(request, whole)
        finally:
            for draft in drafts:
                draft.left = True
            self.metrics.tokens(served.name, sum(len(draft.said) for draft in drafts))
        for draft in drafts:
            if draft.failure is not None:
                raise draft.failure

    async def awaited(self, request: Request, future: asyncio.Future[Any]) -> Any:
        """The future's result, unless the client leaves or the time is over before."""
        gone = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({future, gone}, timeout=self.options.timeout, return_when="FIRST_COMPLETED")
            if future.done():
                return future.result()
            if gone.done():
                raise RefusalError(CLIENT_LEFT, "the client has left")
            raise RefusalError(504, f"not done within {self.options.timeout:g} s; ask for less at once")
        finally:
            gone.cancel()
            future.cancel()

    async def closed(self) -> None:
        """Return when all threads have stopped, or at once where the end is hurried."""
        # A daemon thread: a hurried end does not wait for what a model still computes, for nobody.
        closing = threading.Thread(target=self.close, name="closing", daemon=True)
        closing.start()
        while closing.is_alive() and not self.ending.hurried:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Finish what runs and waits, and stop all threads."""
        for batcher in self.batchers.values():
            batcher.close()
        for writer in self.writers.values():
            writer.close()

    def _batcher(self, served: Served) -> Batcher:
        options = self.options
        return Batcher(
            served.name,
            wait=options.batch_wait,
            most=options.batch,
            queue=options.queue,
            observe=lambda items, seconds: self.metrics.batch(served.name, items),
        )

    def _writer(self, served: Served) -> Writer:
        return Writer(served.name, served.model, most=self.options.batch, queue=self.options.queue)

    def _queued(self) -> list[tuple[str, int]]:
        waiting = {name: batcher.waiting for name, batcher in self.batchers.items()}
        return [
            (name, count + (self.writers[name].waiting if name in self.writers else 0))
            for name, count in waiting.items()
        ]


def texts_of(translators: Iterable[Served]) -> dict[str, Sequence[str]]:
    """Text in each language of these translators, for languages that have any.

    A model folder holds no text: without a sample of a language, the vocabulary of its side is used, unless
    both sides share one.
    """
    texts: dict[str, list[str]] = {}
    for served in translators:
        codecs = served.model.codecs
        for code, codec in ((served.source, codecs.source), (served.target, codecs.target)):
            found = texts.setdefault(code, [])
            if not found and plain_code(code) in SAMPLES:
                found.append(SAMPLES[plain_code(code)])
            if not found and not codecs.shared:
                found += list(islice(filter(str.isalpha, codec.vocabulary), WORDS))
    return {code: own for code, own in texts.items() if own}


def service_of(request: Request) -> Service:
    """The service of the application that a request came to."""
    service: Service = request.app.state.service
    return service


async def _left(request: Request) -> None:
    """Return when the client closes its connection; its request was read whole before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
