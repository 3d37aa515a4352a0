"""A long text read piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from throughtime.models.language import NOTHING
from throughtime.models.readers import STEPS, StreamScorer, surprisals


@pytest.mark.usefixtures("double")
def test_pieces_carry_the_state_and_score_every_token_once(small):
    model = small()
    ids = np.random.default_rng(0).integers(5, size=2 * STEPS + 7).astype(np.uint16)
    pieces = list(surprisals(model, ids, NOTHING))
    assert [len(piece) for piece in pieces] == [1, STEPS, STEPS, 6]
    [whole] = model.log_probs([ids.tolist()])
    np.testing.assert_allclose(-torch.cat(pieces).numpy(), whole, atol=1e-9)


@pytest.mark.usefixtures("double")
def test_the_first_token_is_read_after_the_beginning(small):
    model = small()
    ids = np.array([3, 1, 4])
    [marked] = surprisals(model, ids, begin=2)
    [whole] = model.log_probs([[2, 3, 1, 4]])
    np.testing.assert_allclose(-marked.numpy(), whole[1:], atol=1e-9)


def test_the_size_of_pieces_is_the_readers_and_progress_is_told(small):
    reader = StreamScorer()
    reader.steps = 4
    told = []
    pieces = list(surprisals(small(), np.arange(10) % 5, 0, reader=reader, progress=told.append))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert told == [4, 8, 10]
