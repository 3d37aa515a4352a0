"""Who may ask, how often and how much: keys, rates, sizes of requests."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from throughtime.serve.ending import Ending
from throughtime.serve.options import Options
from throughtime.serve.refusals import RefusalError, refusal

CLIENTS = 10_000


class Rates:
    """So many requests a minute of each client: a bucket that fills evenly and holds a minute's worth.

    >>> rates = Rates(2, clock=iter([0.0, 0.0, 0.0, 31.0]).__next__)
    >>> [rates.seconds_to_wait("one") for _ in range(4)]
    [0, 0, 30, 0]
    """

    def __init__(self, each_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = each_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when

    def seconds_to_wait(self, client: str) -> int:
        """Take one request off the client's bucket; where it is empty, how long until it is not."""
        now = self.clock()
        left, then = self._buckets.pop(client, (float(self.most), now))
        left = min(self.most, left + (now - then) * self.most / 60)
        taken = left >= 1
        self._buckets[client] = (left - taken, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0 if taken else max(1, -int(-(1 - left) * 60 // self.most))


class Limits:
    """Refuses what is too much before it is read: 429 by rate, 413 by size, 408 where a body never ends.

    When the server stops, a body that is not whole is 503.
    """

    def __init__(self, app: ASGIApp, options: Options, ending: Ending) -> None:
        self.app, self.options, self.ending = app, options, ending
        self.rates = Rates(options.rate_limit) if options.rate_limit else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        if self.rates is not None and scope["method"] == "POST":  # what only looks costs nothing
            wait = self.rates.seconds_to_wait((scope.get("client") or ("-",))[0])
            if wait:
                sentence = f"more than {self.options.rate_limit} requests in a minute; wait {wait} s"
                refused = refusal(path, 429, sentence, headers={"Retry-After": str(wait)})
                await refused(scope, receive, send)
                return
        if _length(scope) > self.options.max_bytes:
            await refusal(path, 413, self._too_large())(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        """The same messages, cut off where a body is too large or too late, or the server stops."""
        size, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self.options.timeout

        async def counted() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()
            try:
                message = await self.ending.arrival(receive, deadline)
            except TimeoutError:
                if self.ending.begun:
                    raise HTTPException(
                        503, "the server is shutting down", headers={"Retry-After": "5"}
                    ) from None
                raise HTTPException(408, "the request did not arrive whole in time") from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > self.options.max_bytes:
                raise HTTPException(413, self._too_large())
            return message

        return counted

    def _too_large(self) -> str:
        return f"the request is larger than {self.options.max_bytes:,} bytes"


def check_key(request: Request, options: Options, given: str | None = None) -> None:
    """Refuse who has no key: as a bearer token, or in the field `api_key` where a contract has one."""
    if options.api_key is None:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    keys = [key for key in (given, token if scheme.lower() == "bearer" else None) if key]
    if any(hmac.compare_digest(key.encode(), options.api_key.encode()) for key in keys):
        return
    if request.url.path.startswith("/v1/"):
        sentence = "the API key is wrong" if keys else "give the API key as `Authorization: Bearer KEY`"
        raise RefusalError(401, sentence, code="invalid_api_key")
    raise RefusalError(403, "the API key is wrong" if keys else "give the API key in the field api_key")


def check_texts(texts: list[str], options: Options) -> None:
    """Refuse more texts, or longer ones, than the server takes at once."""
    if len(texts) > options.max_texts:
        raise RefusalError(413, f"{len(texts):,} texts at once; at most {options.max_texts:,} are taken")
    size = sum(map(len, texts))
    if size > options.max_characters:
        raise RefusalError(413, f"{size:,} characters of text; at most {options.max_characters:,} are taken")


def _length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
