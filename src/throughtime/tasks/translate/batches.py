"""Which sentences are translated together."""

from __future__ import annotations

from collections.abc import Sequence

from throughtime.search import Strategy

SENTENCES_AT_ONCE, ROWS_AT_ONCE = 128, 2_048
LENGTH_STEP = 16


def sentences_at_once(strategy: Strategy) -> int:
    """How many sentences are searched together: fewer under a wide beam, as memory goes by its rows.

    >>> from throughtime.search import Beam
    >>> sentences_at_once(Beam(0, 5)), sentences_at_once(Beam(0, 500))
    (128, 4)
    """
    rows: int = getattr(strategy, "num_beams", 1)
    return max(1, min(SENTENCES_AT_ONCE, ROWS_AT_ONCE // rows))


def batches_by_length(
    prompts: Sequence[Sequence[int]], max_length: int | None = None, most_sentences: int = SENTENCES_AT_ONCE
) -> list[tuple[int, list[int]]]:
    """Batches of prompt numbers, short ones first, each with the most tokens its results may have.

    That number follows from a sentence's own length alone, so no sentence depends on its neighbours.

    >>> batches_by_length([[5] * 40, [5] * 3, [5] * 7])
    [(48, [1, 2]), (112, [0])]
    """
    found: list[tuple[int, list[int]]] = []
    for number in sorted(range(len(prompts)), key=lambda number: len(prompts[number])):
        steps = -(-len(prompts[number]) // LENGTH_STEP)
        most = max_length or LENGTH_STEP * (2 * steps + 1)
        if not found or found[-1][0] != most or len(found[-1][1]) == most_sentences:
            found.append((most, []))
        found[-1][1].append(number)
    return found
