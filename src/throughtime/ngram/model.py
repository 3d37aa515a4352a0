"""An n-gram language model over ids: counts and a smoothing, as a step model for search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from throughtime.errors import InputError
from throughtime.ngram.counts import (
    MISSING,
    Floats,
    Ints,
    NgramCounts,
    NgramLevel,
    check_ids,
    no_counts,
    read_parts,
)
from throughtime.ngram.probabilities import NgramProbabilities
from throughtime.ngram.smoothing import Fixed, Interpolation, Smoothing
from throughtime.search.step_model import ScoringModel

if TYPE_CHECKING:
    from torch import Tensor

    from throughtime.search.generate import Memory, SearchState, Step


class NgramModel(NgramProbabilities, ScoringModel):
    """P(next id | the last order - 1 ids), as a step model for search.

    >>> from throughtime.ngram.smoothing import RelativeFrequency
    >>> text = [0, 1, 0, 1, 0, 2]                                        # a b a b a c
    >>> model = NgramModel(NgramCounts.of([text], order=2, vocabulary_size=3), RelativeFrequency())
    >>> model.distribution(np.array([[0]])).round(3).tolist()            # after a: b twice, c once
    [[0.0, 0.667, 0.333]]
    """

    def backoff_form(self, *, in_place: bool = False) -> Iterator[tuple[Floats, Floats | None]]:
        """For each length, P of each n-gram after its context, and its weight as a context, if it can be one.

        Probabilities have this form in ARPA files. The smoothing must mix each context with the next shorter.
        If they are computed `in_place`, they overwrite `own`, and the model cannot be used as it is any more.
        """
        base, shares, back, _, replaces = self.interpolation
        links = self.counts.suffix_links()
        next(links)
        shorter = base
        for n in range(1, self.order + 1):
            if n == 1 or replaces:
                probability = base if n == 1 else shares[n - 1]
            else:
                probability = shares[n - 1] if in_place else np.empty(len(shares[n - 1]))
                suffix = next(links)
                for part, context in self.counts.levels[n - 1].slices():
                    lower, weight = shorter[suffix[part]], back[n - 1][context]
                    probability[part] = np.where(
                        np.isnan(weight), lower, shares[n - 1][part] + weight * lower
                    )
            yield probability, back[n] if n < self.order else None
            shorter = probability

    def prepare(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor]:
        """Arrange the last ids of each prompt in a row, as many as the model looks at and one more."""
        import torch

        width = max(self.order - 1, 1)
        words = torch.full((len(prompts), width + 1), MISSING)
        for row, prompt in enumerate(prompts):
            recent = list(prompt)[-width - 1 :]
            if recent:
                words[row, -len(recent) :] = torch.from_numpy(check_ids(recent, self.vocabulary_size))
        return (words,)

    def read(self, words: Tensor) -> tuple[Tensor, SearchState, Memory]:
        """Begin with the last id of each prompt, and the words before it as the state."""
        from throughtime.search.generate import Memory

        return words[:, -1], (words[:, :-1],), Memory.empty(len(words))

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Predict one more word for each row."""
        import torch

        from throughtime.search.generate import Step

        words = torch.cat([state[0], last[:, None]], dim=1)  # [R, width + 1]
        p = self.distribution(words.numpy())
        return Step(torch.from_numpy(p).log(), (words[:, 1:],))

    def tensors(self) -> dict[str, Ints | Floats]:
        """What is saved of each length: its keys, and counts or probabilities.

        Models of ARPA files and pruned models hold probabilities; pruned models also the counts of words.
        """
        named: dict[str, Ints | Floats] = {}
        fixed = self.interpolation if isinstance(self.smoothing, Fixed) else None
        for n, level in enumerate(self.counts.levels, start=1):
            if n > 1:
                named[f"keys.{n}"] = level.keys
            if fixed is None or level.count.any():
                named[f"count.{n}"] = level.count
            if fixed is None:
                continue
            if n == 1:
                named["probability.1"] = fixed.base
            else:
                named |= {f"probability.{n}": fixed.own[n - 1], f"weight.{n - 1}": fixed.back[n - 1]}
        return named

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, Any],
        never: Sequence[int],
        smoothing: Smoothing | None,
        where: str = "tensors",
    ) -> NgramModel:
        """Build the model from what `tensors` returned; `where` names them in errors.

        Without a smoothing, the tensors hold probabilities, as of an ARPA file or a pruned model.
        """
        stored = "count" if smoothing is not None else "probability"
        if f"{stored}.1" not in tensors:
            raise InputError(
                where, f"have no {stored}.1, so they are not those of an n-gram model; train it again"
            )
        size = len(np.atleast_1d(tensors[f"{stored}.1"]))
        levels: list[NgramLevel] = []
        while (n := len(levels) + 1) == 1 or f"keys.{n}" in tensors:
            keys = np.arange(size) if n == 1 else tensors[f"keys.{n}"]
            count = no_counts(np.size(keys)) if smoothing is None else np.empty(0, np.int64)
            levels.append(NgramLevel(keys, tensors.get(f"count.{n}", count), size))
            if not levels[-1].fits(len(levels[-2].keys) if n > 1 else 1):
                raise InputError(where, f"have damaged n-grams of length {n}; train the model again")
        counts = NgramCounts(tuple(levels), size, tuple(never))
        return cls(
            counts, smoothing if smoothing is not None else _read_probabilities(tensors, counts, where)
        )


def _read_probabilities(tensors: Mapping[str, Any], counts: NgramCounts, where: str) -> Fixed:
    """The probabilities of an ARPA file or of a pruned model, as they were saved."""
    arrays: dict[str, list[Floats]] = {"probability": [], "weight": []}
    for n, level in enumerate(counts.levels, start=1):
        for name in arrays if n < counts.order else ("probability",):
            values = tensors.get(f"{name}.{n}", np.empty(0))
            whole = values.dtype in (np.float32, np.float64) and values.shape == level.keys.shape
            most = 1.0 if name == "probability" else np.inf  # a weight may exceed 1
            # A comparison with NaN is false.
            if not whole or not all(
                ((values_read >= 0) & (values_read <= most)).all() for values_read in read_parts(values)
            ):
                raise InputError(where, f"have a damaged {name}.{n}; train or import the model again")
            arrays[name].append(values)
    base, *shares = arrays["probability"]
    empty = np.empty(0)
    return Fixed(Interpolation(base, (empty, *shares), (empty, *arrays["weight"]), False, replaces=True))
