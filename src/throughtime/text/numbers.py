"""Numbers as people read them in pictures and sentences."""

from __future__ import annotations


def signed(value: float) -> str:
    """Two decimals, and a minus that is one: as wide as a digit, and no hyphen at which a line may break.

    >>> signed(-7.314), signed(0.5)
    ('−7.31', '0.50')
    """
    return f"{value:.2f}".replace("-", "−")
