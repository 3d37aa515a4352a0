"""What a request asks for, estimated before any of it is computed, and the limits of what it may ask for.

The estimates are upper bounds that need no model: a text has at most one token for each character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MAX_BEAMS, MAX_CHOICES = 20, 16
MAX_OF_OPTION = {"groups": MAX_BEAMS, "per_group": MAX_CHOICES, "budget": 2_000}
"""The maximum of options that decide how much a search computes."""
USUAL_BEAMS = 10
"""Hypotheses of a search that does not say how many."""
GROUP = 3
"""Hypotheses for each result of a diverse search."""
MAX_TOKENS_OF_SHORTEST = 48
"""Tokens that a translation of the shortest text may have."""
TOKEN, ROUNDED, NUMBER, ENTRY = 8, 8, 24, 80
"""Bytes of an answer for a token of a text, for a number, rounded or not, and for an entry with a name."""
GATES = 6
"""Numbers for each unit of a cell and each token: its gates and its state."""


class Cost(NamedTuple):
    """An estimate. A step is one token or row that a model reads or writes, counted for each hypothesis."""

    steps: int
    answer: int  # bytes

    @classmethod
    def of_reading(cls, texts: Sequence[str], entries: int = 0) -> Cost:
        """Each text is read once; `entries` are answered for each of its characters."""
        characters = sum(map(len, texts))
        return cls(characters, characters * (TOKEN + entries * ENTRY))

    @classmethod
    def of_writing(cls, read: int, texts: int, tokens: int, rows: int = 1, likely: int | None = None) -> Cost:
        """`read` tokens, then `texts` of at most `tokens` each, searched with `rows` hypotheses.

        `likely` tokens are reported for each token, with its log-probability; none of it if that is None.
        """
        each = TOKEN if likely is None else TOKEN + ENTRY + likely * 2 * NUMBER
        return cls(read + texts * tokens * rows, texts * (tokens * each + ENTRY))

    @classmethod
    def of_translating(cls, texts: Sequence[str], options: Mapping[str, Any]) -> Cost:
        """Each text is searched; a translation has at most twice its tokens, and some more."""
        tokens = sum(2 * len(text) + MAX_TOKENS_OF_SHORTEST for text in texts)
        rows = count_hypotheses(options)
        return cls(tokens * rows, tokens * TOKEN * int(options.get("num_return_sequences") or 1))

    @classmethod
    def of_attending(cls, parts: Sequence[int], options: Mapping[str, Any]) -> Cost:
        """Parts of a text with these numbers of tokens are translated.

        Each result has its alignment, and the scores and weights of its attention, which are rounded.
        """
        tokens = [2 * read + MAX_TOKENS_OF_SHORTEST for read in parts]
        cells = sum(read * written for read, written in zip(parts, tokens, strict=True))
        results = int(options.get("num_return_sequences", 1))
        return cls(sum(tokens) * count_hypotheses(options), results * cells * (NUMBER + 2 * ROUNDED))

    @classmethod
    def of_filling(cls, texts: Iterable[tuple[int, int]], k: int, num_beams: int = USUAL_BEAMS) -> Cost:
        """For each blank of a text, all partial fillings are read; `texts` are characters and blanks."""
        steps = answer = 0
        for characters, blanks in texts:
            steps += blanks * max(k, num_beams) * characters
            answer += k * (characters + blanks * NUMBER + ENTRY)
        return cls(steps, answer)

    @classmethod
    def of_forecasting(
        cls, series: int, lookback: int, h: int, levels: int, *, paths: int = 0, each: int = 1
    ) -> Cost:
        """Each series is read from its last `lookback` rows on, and continued for `h` rows on each path.

        `each` is the number of rows that the model reads for the next row of a path.
        """
        return cls(
            series * (lookback + h * each * (1 + paths)), series * (ENTRY + h * NUMBER * (2 + 2 * levels))
        )


def count_hypotheses(options: Mapping[str, Any]) -> int:
    """Return the number of hypotheses that a search with these options keeps at each step, at most.

    Exact search keeps one; its `budget` limits the number of its steps.

    >>> [count_hypotheses(one) for one in ({"search": "beam", "num_beams": 4}, {"search": "greedy"}, {})]
    [4, 1, 10]
    """
    if options.get("search") in ("greedy", "exact"):
        return 1
    counts = [int(options.get(name) or 0) for name in ("num_beams", "num_return_sequences")]
    return max(counts) if counts[0] else max(USUAL_BEAMS, GROUP * counts[1])
