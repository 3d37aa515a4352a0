"""What Prometheus reads at /metrics: counters, gauges and histograms in its text format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)

Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How many values lie at or below each bound, for each set of labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def add(self, value: float, labels: Labels) -> None:
        """One more value."""
        counts = self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def lines(self, name: str) -> Iterator[str]:
        """The lines of all its series."""
        for labels, counts in self.counts.items():
            total = 0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), counts, strict=True):
                total += count
                yield sample(f"{name}_bucket", (*labels, ("le", bound)), total)
            yield sample(f"{name}_sum", labels, self.sums[labels])
            yield sample(f"{name}_count", labels, total)


class Metrics:
    """Counted from several threads. `queued` gives the items that wait for each model, asked when shown."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[Labels, int] = {}
        self._seconds = Histogram(SECONDS)
        self._batches = Histogram(SIZES)
        self._tokens: dict[Labels, int] = {}
        self.running = 0
        self.queued: Callable[[], Iterable[tuple[str, int]]] = tuple

    @property
    def requests(self) -> int:
        """All requests so far."""
        with self._lock:
            return sum(self._requests.values())

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        with self._lock:
            labels = (("method", method), ("path", path), ("status", str(status)))
            self._requests[labels] = self._requests.get(labels, 0) + 1
            self._seconds.add(seconds, (("path", path),))

    def batch(self, model: str, items: int) -> None:
        """So many items were computed together."""
        with self._lock:
            self._batches.add(items, (("model", model),))

    def tokens(self, model: str, count: int) -> None:
        """A language model wrote so many tokens."""
        with self._lock:
            labels = (("model", model),)
            self._tokens[labels] = self._tokens.get(labels, 0) + count

    def text(self) -> str:
        """All of it."""
        queued: dict[Labels, int] = {(("model", name),): count for name, count in self.queued()}
        with self._lock:
            families = (
                ("requests_total", "counter", "Requests answered.", _plain(self._requests)),
                ("requests_running", "gauge", "Requests being answered.", _plain({(): self.running})),
                ("request_seconds", "histogram", "Time to answer.", self._seconds.lines),
                ("batch_items", "histogram", "Texts or series computed together.", self._batches.lines),
                ("queue_items", "gauge", "Texts or series that wait for a model.", _plain(queued)),
                ("generated_tokens_total", "counter", "Tokens of completions.", _plain(self._tokens)),
            )
            lines: list[str] = []
            for short, kind, told, samples in families:
                name = f"throughtime_{short}"
                lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}", *samples(name)]
        return "\n".join(lines) + "\n"


def sample(name: str, labels: Labels, value: float) -> str:
    r"""One line of the format.

    >>> sample("throughtime_requests_total", (("path", 'a"b'),), 3)
    'throughtime_requests_total{path="a\\"b"} 3'
    """
    if not labels:
        return f"{name} {value}"
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    told = ",".join(f'{key}="{text.translate(escaped)}"' for key, text in labels)
    return f"{name}{{{told}}} {value}"


def _plain(values: dict[Labels, int]) -> Callable[[str], list[str]]:
    return lambda name: [sample(name, labels, value) for labels, value in values.items()]
