"""What a server counts, for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

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
        self.seconds = Histogram(
            name("request_seconds"), "Time to answer.", ["path"], buckets=SECONDS, registry=own
        )
        self.refusals = Counter(
            name("refusals"), "Requests not answered, by reason.", ["reason"], registry=own
        )
        self.keys = Counter(name("key_requests"), "Requests with a valid key.", ["key"], registry=own)
        self.connections = Gauge(name("connections"), "Open connections.", registry=own)
        self.batches = Histogram(
            name("batch_items"), "Texts or series computed together.", model, buckets=SIZES, registry=own
        )
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
