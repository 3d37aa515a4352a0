"""The lexical shortlist of a translator: the target tokens that each source token allows. No torch.

A product over the whole vocabulary is half of the time of a search on a CPU, and nearly all of it is spent on
words that have nothing to do with the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, check_whole

Ids = NDArray[np.int64]

MAX_CANDIDATES = 100
"""Number of target tokens that are stored for a source token, at most."""
DEFAULT_CANDIDATES = 30
"""How many of them are used unless another number is given."""
MIN_VOCABULARY = 2_000
"""Size of a target vocabulary from which on a shortlist is worth its cost."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The likely translations of each source token, and the target tokens that every sentence may use.

    Those of source token s are `ids[starts[s]:starts[s + 1]]`, best first; `always` rises.

    >>> shortlist = Shortlist(np.array([0, 2, 3]), np.array([7, 5, 4]), np.array([0, 1]))
    >>> shortlist.candidates([0, 1], 1).tolist(), shortlist.candidates([0], 2, [9]).tolist()
    ([0, 1, 4, 7], [0, 1, 5, 7, 9])
    """

    starts: Ids
    ids: NDArray[Any]
    always: Ids

    def check(self, source_size: int, target_size: int) -> None:
        """Raise a ValueError if the tables do not belong to vocabularies of these sizes."""
        for name, array in (("starts", self.starts), ("ids", self.ids), ("always", self.always)):
            if array.ndim != 1 or array.dtype.kind != "i":
                raise ValueError(f"{name} is not a list of whole numbers")
        starts = self.starts
        if len(starts) != source_size + 1:
            raise ValueError(f"it has {len(starts) - 1} source tokens, but the model has {source_size}")
        if starts[0] != 0 or starts[-1] != len(self.ids) or (np.diff(starts) < 0).any():
            raise ValueError("its starts do not increase from 0 to the number of ids")
        for ids in (self.ids, self.always):
            if len(ids) and not 0 <= ids.min() <= ids.max() < target_size:
                raise ValueError(f"it names a target token outside of 0 to {target_size - 1}")
        if (np.diff(self.always) <= 0).any():
            raise ValueError("the tokens for every sentence do not rise")

    def candidates(self, prompt: Iterable[int], count: int, extra: Sequence[int] = ()) -> Ids:
        """The target tokens for a sentence, rising: `count` for each source token, and `extra` ones."""
        own = np.unique(np.fromiter(prompt, dtype=np.int64))
        first, last = self.starts[own], self.starts[own + 1]
        lists = [self.ids[a:b] for a, b in zip(first, np.minimum(last, first + count), strict=True)]
        return np.unique(np.concatenate([self.always, np.array(extra, dtype=np.int64), *lists]))

    def keeps(self, token: int) -> bool:
        """Whether a token has the same number among the candidates of every sentence as in the vocabulary."""
        return bool(len(self.always) > token and self.always[token] == token)


def choose_count(
    asked: int | None, shortlist: Shortlist | None, target_size: int, *, worthwhile: bool
) -> int:
    """The number of candidates per source token; 0 for the whole vocabulary.

    Unless `asked`, a model that has a shortlist uses it where that is `worthwhile` and its vocabulary is
    large. Asking for one that is missing is an error.
    """
    if asked is None:
        default = shortlist is not None and worthwhile and target_size >= MIN_VOCABULARY
        return DEFAULT_CANDIDATES if default else 0
    check_whole("shortlist", asked, 0, MAX_CANDIDATES)
    if asked and shortlist is None:
        raise InputError(
            "shortlist", f"is {asked}, but this model has none; call build_shortlist(), or set it to 0"
        )
    return asked
