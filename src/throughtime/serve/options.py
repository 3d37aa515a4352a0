"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Who may ask, how much, and how requests are put together. Times are in seconds."""

    api_key: str | None = None
    cors: tuple[str, ...] = ()
    rate_limit: int | None = None  # requests a minute, of each client
    timeout: float = 30.0
    max_bytes: int = 1_000_000  # of a request
    max_characters: int = 20_000  # of its texts together
    max_texts: int = 128
    max_tokens: int = 2_000  # of a completion
    max_rows: int = 100_000  # of all series of a request together
    max_horizon: int = 2_000
    batch: int = 64  # texts computed together
    batch_wait: float = 0.004  # how long the first of them waits for others
    queue: int = 256  # texts that may wait for a model
    log_json: bool = False
