"""Middleware for every request: limits of rate and size, and the access log."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TextIO

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from throughtime.serve.observing import REASONS, REQUEST, ServerMetrics, request_id, write_request
from throughtime.serve.origins import address_group, make_safe
from throughtime.serve.requests import CLIENT_LEFT, Options, refusal

CLIENTS = 10_000
MAX_QUERY_FIELDS = 100
PROBES = ("/health", "/ready")
"""Paths that are answered at any rate: who watches the server would take a refusal for a failure."""
METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
FAILED = "the server failed; its log says why"
PAST = 0.0


class Ending:
    """The shutdown: once begun, requests that have arrived are finished; once hurried, none are."""

    def __init__(self) -> None:
        self.begun = self.hurried = False
        self._waits: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """Abort every request that has not fully arrived. Call this in the event loop."""
        self.begun = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(PAST)

    async def receive(self, receive: Receive, deadline: float) -> Message:
        """Return the next message of a request; TimeoutError at the deadline, or once shutdown has begun."""
        # A message that is ready is still received: it comes before the timeout.
        async with asyncio.timeout_at(PAST if self.begun else deadline) as wait:
            self._waits.add(wait)
            try:
                return await receive()
            finally:
                self._waits.discard(wait)


class Rates:
    """Limits the requests per minute of each client with a token bucket that holds one minute.

    >>> rates = Rates(2, clock=iter([0.0, 0.0, 0.0, 31.0]).__next__)
    >>> [rates.seconds_to_wait("one") for _ in range(4)]
    [0, 0, 30, 0]
    """

    def __init__(self, each_minute: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = each_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when

    def seconds_to_wait(self, client: str) -> int:
        """Count one request of a client; return 0, or the seconds until its next request is allowed."""
        if self.most is None:
            return 0
        now = self.clock()
        left, then = self._buckets.pop(client, (float(self.most), now))
        left = min(self.most, left + (now - then) * self.most / 60)
        taken = left >= 1
        self._buckets[client] = (left - taken, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0 if taken else max(1, -int(-(1 - left) * 60 // self.most))


class Limits:
    """Refuses requests before they are read: 429 for their rate, 413 for their size, 408 if a body is late.

    During shutdown, an incomplete body is answered with 503.
    """

    def __init__(self, app: ASGIApp, options: Options, ending: Ending) -> None:
        self.app, self.options, self.ending = app, options, ending
        self.too_large = f"the request is larger than {options.max_bytes:,} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer: ASGIApp = self.app
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > self.options.max_bytes:
            answer = refusal(scope["path"], 413, self.too_large)
        if scope["query_string"].count(b"&") >= MAX_QUERY_FIELDS:
            answer = refusal(scope["path"], 413, f"the query has more than {MAX_QUERY_FIELDS} fields")
        if (wait := scope["state"]["wait"]) and scope["path"] not in PROBES:
            sentence = f"more than {self.options.rate_limit} requests in a minute; wait {wait} s"
            answer = refusal(scope["path"], 429, sentence, {"Retry-After": str(wait)})
        await answer(scope, self._limit_body(receive), send)

    def _limit_body(self, receive: Receive) -> Receive:
        """Return the same messages, until a body is too large or too late, or the server stops."""
        size, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self.options.timeout

        async def receive_limited() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()
            try:
                message = await self.ending.receive(receive, deadline)
            except TimeoutError:
                if self.ending.begun:
                    retry = {"Retry-After": "5"}
                    raise HTTPException(503, "the server is shutting down", headers=retry) from None
                raise HTTPException(408, "the request did not arrive completely in time") from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > self.options.max_bytes:
                raise HTTPException(413, self.too_large)
            return message

        return receive_limited


class AccessLog:
    """Logs and counts every request, under an id that its answer carries in `X-Request-Id`.

    `Limits` refuses requests above the rate, but it never sees those that others answer before it.
    Answers get the headers for browsers here. Failures are answered here, too, so that they have them all.
    Texts and keys are never logged.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServerMetrics,
        rates: Rates,
        policy: str,
        as_json: bool,
        stream: TextIO | None = None,
    ) -> None:
        self.app, self.metrics, self.rates = app, metrics, rates
        self.policy, self.as_json, self.stream = policy, as_json, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, started = time.monotonic(), CLIENT_LEFT, False
        number = request_id(dict(scope["headers"]).get(b"x-request-id", b""))
        REQUEST.set(number)
        scope.setdefault("state", {})["wait"] = self.rates.seconds_to_wait(address_group(_client(scope)))

        async def send_named(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", []), (b"x-request-id", number.encode())]
                make_safe(message, self.policy)
            await send(message)

        try:
            with self.metrics.running.track_inprogress():
                await self.app(scope, receive, send_named)
        except Exception:
            status = 500
            if not started:
                closing = {"Connection": "close"}  # as uvicorn does after a failure
                await refusal(scope["path"], 500, FAILED, closing)(scope, receive, send_named)
            raise  # the server logs it
        finally:
            self._count(scope, status, time.monotonic() - began, number)

    def _count(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        # Unknown paths share one label, so that the number of counters stays small.
        path = getattr(scope.get("route"), "path", None) or "other"
        self.metrics.requests.labels(method, path, status).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        notes = scope.get("state", {})
        if status >= 400:
            self.metrics.refusals.labels(notes.get("reason") or REASONS.get(status, "invalid")).inc()
        values = {
            "request": number,
            "client": _client(scope),
            "method": method,
            "path": scope["path"][:200],
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        if (key := notes.get("key")) is not None:
            self.metrics.keys.labels(key).inc()
            values["key"] = key
        write_request(values, as_json=self.as_json, stream=self.stream)


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("-",))[0])
