"""What a server logs, a line for each request and for each other event, and what it counts, for Prometheus.

Texts and keys are never logged.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

LOGGER = logging.getLogger("throughtime.serve")
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""The id of the request that is being answered, for lines that other code logs meanwhile."""
PLAIN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def request_id(value: bytes) -> str:
    """Return the id that a client or a proxy gave, if it is short and plain, else a new one.

    >>> request_id(b"a1-b2")
    'a1-b2'
    >>> len(request_id(b"two words"))
    12
    """
    return value.decode() if PLAIN_ID.fullmatch(value) else uuid.uuid4().hex[:12]


def write_request(values: Mapping[str, Any], *, as_json: bool, stream: TextIO | None = None) -> None:
    """Write the line of one request to the stream, or to stderr."""
    stream, now = stream or sys.stderr, datetime.now(UTC)
    if as_json:
        line = json.dumps({"time": now.isoformat(timespec="milliseconds"), **values})
    else:
        path, key = values["path"], f" {values['key']}" if "key" in values else ""
        shown = quote(path, safe="/:@!$&'()*+,;=", errors="replace")  # a space would begin another field
        place = f"{values['client']}{key} {values['method']} {shown}"
        line = f"{now:%H:%M:%S} {place} {values['status']} {values['ms']:.0f} ms {values['request']}"
    stream.write(line + "\n")
    stream.flush()


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON, with the id of its request and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {"time": when, "level": record.levelname.lower(), "message": record.getMessage().strip()}
        if (request := REQUEST.get()) is not None:
            values["request"] = request
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values)


def log_config(as_json: bool) -> dict[str, Any]:
    """Return uvicorn's configuration of logging with our logger beside its own."""
    from uvicorn.config import LOGGING_CONFIG

    config: dict[str, Any] = deepcopy(LOGGING_CONFIG)
    config["loggers"][LOGGER.name] = {"handlers": ["default"], "level": "WARNING", "propagate": False}
    if as_json:
        config["formatters"]["default"] = {"()": JsonLines}
    return config


class Repeated:
    """Logs a warning at most once a second; the next line tells how many were left out.

    >>> warn = Repeated(clock=iter([5.0, 5.1, 6.2]).__next__, log=print)
    >>> for _ in range(3):
    ...     warn("the disk is full")
    the disk is full
    the disk is full (2 times)
    """

    def __init__(self, clock: Any = time.monotonic, log: Any = LOGGER.warning) -> None:
        self._clock, self._log, self._last, self._count = clock, log, float("-inf"), 0

    def __call__(self, sentence: str) -> None:
        """Log the sentence, unless one was logged within the last second."""
        now = self._clock()
        self._count += 1
        if now - self._last >= 1:
            self._log(sentence if self._count == 1 else f"{sentence} ({self._count} times)")
            self._last, self._count = now, 0


FRESH = 1.0
"""Seconds in which the same text is returned again."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
REASONS = {
    401: "key",
    403: "key",
    404: "unknown",
    405: "method",
    408: "late",
    413: "size",
    421: "host",
    429: "rate",
    431: "size",
    499: "left",
    500: "failure",
    503: "overload",
    504: "timeout",
}
"""Why a request was refused, by status; another reason is `invalid`, or the one that a check notes."""


class ServerMetrics:
    """Metrics of one application; safe to change from any thread. Keys are counted by name."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        name, model = "throughtime_{}".format, ["model"]
        labels = ["method", "path", "status"]
        self.requests = Counter(name("requests"), "Requests answered.", labels, registry=own)
        self.running = Gauge(name("requests_running"), "Requests being answered.", registry=own)
        time_text, refused = "Time to answer.", "Requests not answered, by reason."
        self.seconds = Histogram(name("request_seconds"), time_text, ["path"], buckets=SECONDS, registry=own)
        self.refusals = Counter(name("refusals"), refused, ["reason"], registry=own)
        self.keys = Counter(name("key_requests"), "Requests with a valid key.", ["key"], registry=own)
        self.connections = Gauge(name("connections"), "Open connections.", registry=own)
        together = "Texts or series computed together."
        self.batches = Histogram(name("batch_items"), together, model, buckets=SIZES, registry=own)
        self.queue = Gauge(name("queue_items"), "Texts or series that wait for a model.", model, registry=own)
        self.tokens = Counter(name("generated_tokens"), "Tokens of completions.", model, registry=own)
        ProcessCollector(registry=own)  # memory, processor time and open files, where the system has /proc
        self._text, self._last = b"", float("-inf")

    def write(self) -> bytes:
        """Return all metrics as text; writing it takes too long to do it for every request."""
        if time.monotonic() - self._last >= FRESH:
            self._text, self._last = generate_latest(self.registry), time.monotonic()
        return self._text

    @property
    def request_count(self) -> int:
        """The number of requests answered so far."""
        samples = [sample for family in self.requests.collect() for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))
