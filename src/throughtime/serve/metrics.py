"""What Prometheus reads at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one application; they may be changed from any thread."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "throughtime_requests", "Requests answered.", ["method", "path", "status"], registry=own
        )
        self.running = Gauge("throughtime_requests_running", "Requests being answered.", registry=own)
        self.seconds = Histogram(
            "throughtime_request_seconds", "Time to answer.", ["path"], buckets=SECONDS, registry=own
        )
        self.batches = Histogram(
            "throughtime_batch_items",
            "Texts or series computed together.",
            ["model"],
            buckets=SIZES,
            registry=own,
        )
        self.queue = Gauge(
            "throughtime_queue_items", "Texts or series that wait for a model.", ["model"], registry=own
        )
        self.tokens = Counter(
            "throughtime_generated_tokens", "Tokens of completions.", ["model"], registry=own
        )

    @property
    def request_count(self) -> int:
        """The number of requests answered so far."""
        samples = [sample for family in self.requests.collect() for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
