"""The best path against trying all of them, ragged rows included."""

from __future__ import annotations

import itertools

import pytest
import torch

from throughtime.search.exact import viterbi


@pytest.mark.parametrize("seed", range(5))
def test_best_path_equals_brute_force_for_every_row_and_length(seed):  # R12
    source = torch.Generator().manual_seed(seed)
    scores = torch.randn(5, 3, 4, generator=source, dtype=torch.float64)
    transitions = torch.randn(4, 4, generator=source, dtype=torch.float64)
    lengths = torch.tensor([5, 1, 3])
    best = viterbi(scores, transitions, lengths)
    for row, length in enumerate(lengths.tolist()):

        def total(path, row=row):
            steps = sum(scores[t, row, s] for t, s in enumerate(path))
            return float(steps + sum(transitions[a, b] for a, b in itertools.pairwise(path)))

        expected = max(itertools.product(range(4), repeat=length), key=total)
        assert best.states[:length, row].tolist() == list(expected)
        assert best.states[length:, row].tolist() == [0] * (5 - length)
        assert float(best.score[row]) == pytest.approx(total(expected))
