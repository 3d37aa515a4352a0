"""Which sentences are translated together."""

from __future__ import annotations

from throughtime.search import Beam, Strategy

SENTENCES_AT_ONCE, ROWS_AT_ONCE = 128, 2_048


def sentences_at_once(strategy: Strategy) -> int:
    """How many sentences are searched together: fewer under a wide beam, as memory goes by its rows.

    >>> sentences_at_once(Beam(0, 5)), sentences_at_once(Beam(0, 500))
    (128, 4)
    """
    rows = strategy.width * strategy.groups if isinstance(strategy, Beam) else 1
    return max(1, min(SENTENCES_AT_ONCE, ROWS_AT_ONCE // rows))
