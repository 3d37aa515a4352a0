"""Numbers as people read them in pictures and sentences."""

from __future__ import annotations


def several(count: int, noun: str) -> str:
    """A count with its noun.

    >>> several(1, "text"), several(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def signed(value: float) -> str:
    """Two decimals, and a minus that is one: as wide as a digit, and no hyphen at which a line may break.

    >>> signed(-7.314), signed(0.5)
    ('−7.31', '0.50')
    """
    return f"{value:.2f}".replace("-", "−")
