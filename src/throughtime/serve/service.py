"""The models of a server with their threads, and how requests reach them."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import Any, TypeVar

from starlette.requests import Request

from throughtime.interrupt import interruptible
from throughtime.layers.devices import trim_memory
from throughtime.serve.batching import Batcher, Compute, Worker, as_failure
from throughtime.serve.keys import Keys
from throughtime.serve.middleware import Ending, Rates
from throughtime.serve.models import Models, Served
from throughtime.serve.observing import ServerMetrics
from throughtime.serve.requests import (
    CLIENT_LEFT,
    Options,
    RefusalError,
    TextsRequest,
    as_list,
    check_key,
    check_texts,
)
from throughtime.serve.writing import Writer
from throughtime.text.languages import SAMPLES, Detector, plain_code

Result = TypeVar("Result")
WORDS = 3_000
"""Number of words of a vocabulary from which a language is detected."""
ASIDE = 2
"""Number of threads for what takes long and needs no model: bodies, answers, warnings, detection, HTML."""
SWITCH = 0.001
"""Seconds after which a thread lets another one run; Python's default is five times as long."""
HOUSEKEEPING = 5.0
"""Seconds between two rounds of `Service._keep_house`."""
NOTICE = 5.0
"""Seconds in which a computation has to notice that nobody waits for it."""


class Service:
    """What endpoints use; they get it from `admit`, or from `get_service` without a check."""

    def __init__(self, models: Models, options: Options) -> None:
        self.models, self.options, self.metrics, self.ending = models, options, ServerMetrics(), Ending()
        self.keys, self.rates = Keys(options.api_key, options.key_file), Rates(options.rate_limit)
        batches, limits = self.metrics.batches, {"most": options.batch, "queue": options.queue}
        self.batchers = {
            name: Batcher(name, wait=options.batch_wait, observe=batches.labels(name).observe, **limits)
            for name in (model.name for model in models)
        }
        writing = models.find_by_ability("generate")
        self.writers = {model.name: Writer(model.name, model.model, **limits) for model in writing}
        self._aside = ThreadPoolExecutor(ASIDE, thread_name_prefix="aside")
        self._closing = threading.Event()
        threading.Thread(target=self._keep_house, name="housekeeping", daemon=True).start()
        for name in self.batchers:
            self.metrics.queue.labels(name).set_function(partial(self._count_waiting, name))

    @cached_property
    def detector(self) -> Detector:
        """Tells the languages of the translators apart; built when it is first needed."""
        return Detector(language_samples(self.models.find_by_ability("translate")))

    async def warnings(
        self, request: Request, served: Served, texts: Sequence[str], **how: Any
    ) -> dict[str, list[str]]:
        """Warnings about these texts as a field `warnings`; an empty dict if there are none."""
        warn = getattr(served.model, "input_warnings", None)
        sentences = {} if warn is None else await self.run_aside(request, partial(warn, texts, **how))
        return {"warnings": [*sentences.values()]} if sentences else {}

    async def run_aside(self, request: Request, function: Callable[[], Result]) -> Result:
        """Run a function in a thread beside the event loop and the models.

        Like a computation of a model, it is interrupted at the time limit or when the client disconnects.
        """
        left = threading.Event()

        def run() -> Result:
            try:
                with interruptible(left.is_set):
                    return function()
            except BaseException as error:
                if as_failure(error) is error:
                    raise
                raise as_failure(error) from error

        try:
            result: Result = await self.wait_for(request, asyncio.wrap_future(self._aside.submit(run)))
        finally:
            left.set()
        return result

    async def compute(
        self, request: Request, served: Served, key: Hashable, compute: Compute, items: Sequence[Any]
    ) -> list[Any]:
        """Compute a result for each item on the thread of the model, in batches with others of equal key.

        Items of a client that disconnects or waits too long are removed or abandoned.
        """
        if not items:
            return []
        job = self.batchers[served.name].submit(key, compute, items)
        try:
            results: list[Any] = await self.wait_for(request, asyncio.wrap_future(job.future))
        finally:
            job.left = True
        return results

    async def wait_for(self, request: Request, future: asyncio.Future[Any]) -> Any:
        """Return the result of the future, unless the client disconnects or the time is over."""
        gone = asyncio.ensure_future(_wait_for_disconnect(request))
        rest = self.deadline(request) - time.monotonic()
        try:
            await asyncio.wait({future, gone}, timeout=max(0.0, rest), return_when="FIRST_COMPLETED")
            if future.done():
                return future.result()
            if gone.done():
                raise RefusalError(CLIENT_LEFT, "the client has disconnected")
            raise TimeoutError
        except TimeoutError:
            sentence = f"not finished within {self.options.timeout:g} s; send a smaller request"
            raise RefusalError(504, sentence) from None
        finally:
            gone.cancel()
            future.cancel()
            del future  # its error has this frame: a cycle would keep what the frames of the error hold

    def deadline(self, request: Request) -> float:
        """Return when the time of a request is over, by `time.monotonic`; it begins with the first call."""
        latest = time.monotonic() + self.options.timeout
        return float(request.scope.setdefault("throughtime.deadline", latest))

    async def close(self) -> None:
        """Finish all work and stop all threads; return at once if the shutdown is hurried."""
        self._closing.set()

        def close() -> None:
            for worker in self._workers():
                worker.close()
            self._aside.shutdown(cancel_futures=True)

        # A daemon thread: a hurried shutdown does not wait for models that still compute.
        closing = threading.Thread(target=close, name="closing", daemon=True)
        closing.start()
        while closing.is_alive() and not self.ending.hurried:
            await asyncio.sleep(0.01)

    def check_readiness(self) -> dict[str, str]:
        """Return the state of each model's threads: "ready", "stuck", or "stopped" during a shutdown.

        A thread is stuck if it has computed for longer than any request waits, and some seconds more to
        notice that nobody waits.
        """
        states = dict.fromkeys(self.batchers, "ready")
        for worker in self._workers():
            if not worker.alive:
                states[worker.name] = "stopped"
            elif worker.busy > self.options.timeout + NOTICE:
                states[worker.name] = "stuck"
        return states

    def _keep_house(self) -> None:
        """Return freed memory to the system every few seconds."""
        while not self._closing.wait(HOUSEKEEPING):
            trim_memory()

    def _workers(self) -> list[Worker]:
        return [*self.batchers.values(), *self.writers.values()]

    def _count_waiting(self, name: str) -> int:
        return sum(worker.waiting for worker in self._workers() if worker.name == name)


def prepare_interpreter() -> None:
    """Shorten the pauses of a process that serves models; call it once, when they are loaded.

    The garbage collector holds the interpreter while it visits all objects, so it leaves out those that are
    there to stay; and a thread that waits for the interpreter gets it sooner.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH)


def language_samples(translators: Iterable[Served]) -> dict[str, Sequence[str]]:
    """Return text in each language of these translators, for languages that have any.

    Without a sample of a language, the vocabulary of its side is used, unless both sides share one.
    """
    texts: dict[str, list[str]] = {}
    for served in translators:
        codecs = served.model.codecs
        for code, codec in ((served.source, codecs.source), (served.target, codecs.target)):
            samples = texts.setdefault(code, [])
            if not samples and plain_code(code) in SAMPLES:
                samples.append(SAMPLES[plain_code(code)])
            if not samples and not codecs.shared:
                samples += list(islice(filter(str.isalpha, codec.vocabulary), WORDS))
    return {code: own for code, own in texts.items() if own}


def get_service(request: Request) -> Service:
    """Return the service of the application that received a request."""
    service: Service = request.app.state.service
    return service


def batch_key(kind: str, options: Mapping[str, Any]) -> Hashable:
    """Return the key of a search with these options.

    Draws depend on the place of a text in its batch, so a request with a seed is a separate batch.
    """
    return (kind, *sorted(options.items()), object() if options.get("seed") is not None else None)


def admit(request: Request, texts: Sequence[str] = (), key: str | None = None) -> Service:
    """Return the service, after checking the API key and the size of the texts."""
    service = get_service(request)
    service.deadline(request)
    check_key(request, service.keys, key)
    check_texts(texts, service.options)
    return service


async def ask(
    request: Request,
    asked: TextsRequest,
    ability: str,
    compute: Callable[[Any, list[str]], Sequence[Any]],
    kind: str | None = None,
) -> tuple[Served, list[Any], dict[str, list[str]]]:
    """Return a model with this ability, its answer to each text, and its warnings about the texts.

    `compute(model, texts)` runs in batches with requests to the same path of equal options.
    """
    texts = as_list(asked.q)
    service = admit(request, texts)
    served = service.models.choose(asked.model, ability, kind)
    key = (request.url.path, *asked.model_dump(exclude={"q", "model"}).values())
    answers = await service.compute(request, served, key, partial(compute, served.model), texts)
    # No warning for an empty prompt: a language model can start from nothing.
    silent = ability == "generate" and not any(texts)
    return served, answers, {} if silent else await service.warnings(request, served, texts)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client closes its connection; its request has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
