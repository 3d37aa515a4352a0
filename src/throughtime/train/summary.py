"""How a training ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What is known of a training once it is over."""

    steps: int
    epochs: int
    seconds: float
    train: dict[str, float]  # of the last epoch, dropout included
    best: dict[str, float]
    best_epoch: int
    why: str
