"""The access log: a line for each request, without what was asked in it."""

from __future__ import annotations

import json
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from throughtime.serve.metrics import Metrics
from throughtime.serve.refusals import CLIENT_LEFT

KNOWN_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())


class AccessLog:
    """Logs and counts every request, and names each in `X-Request-Id`. Texts and keys are never logged."""

    def __init__(self, app: ASGIApp, metrics: Metrics, lines: bool, stream: TextIO | None = None) -> None:
        self.app, self.metrics, self.lines, self.stream = app, metrics, lines, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), CLIENT_LEFT
        number = uuid.uuid4().hex[:12]

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", number.encode())]
            await send(message)

        try:
            with self.metrics.running.track_inprogress():
                await self.app(scope, receive, told)
        except Exception:
            status = 500
            raise
        finally:
            seconds = time.monotonic() - began
            method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
            # Paths that nobody serves are countless; one word for all keeps the counters few.
            path = getattr(scope.get("route"), "path", None) or "other"
            self.metrics.requests.labels(method, path, status).inc()
            self.metrics.seconds.labels(path).observe(seconds)
            self._log(scope, method, status, seconds, number)

    def _log(self, scope: Scope, method: str, status: int, seconds: float, number: str) -> None:
        stream = self.stream or sys.stderr
        now = datetime.now(UTC)
        client = (scope.get("client") or ("-",))[0]
        path = scope["path"][:200]
        if self.lines:
            values: dict[str, Any] = {
                "time": now.isoformat(timespec="milliseconds"),
                "request": number,
                "client": client,
                "method": method,
                "path": path,
                "status": status,
                "ms": round(1000 * seconds, 1),
            }
            stream.write(json.dumps(values) + "\n")
        else:
            shown = path if path.isascii() and path.isprintable() else ascii(path)
            stream.write(f"{now:%H:%M:%S} {client} {method} {shown} {status} {1000 * seconds:.0f} ms\n")
        stream.flush()
