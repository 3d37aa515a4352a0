"""Pooling: real positions only, whatever the padding holds and however long it is."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses

from throughtime.layers.pooling import POOLINGS

LENGTHS = torch.tensor([4, 1, 0, 3])


@pytest.fixture
def sequences():
    torch.manual_seed(0)
    inside = torch.arange(4)[:, None] < LENGTHS
    outputs = torch.randn(4, 4, 6, dtype=torch.float64) * inside[..., None]
    final = torch.stack([outputs[max(0, length - 1), row] for row, length in enumerate(LENGTHS.tolist())])
    return outputs, final


@pytest.mark.parametrize("name", POOLINGS)
def test_a_padded_batch_is_each_row_alone(name, sequences):
    outputs, final = sequences
    pooling = POOLINGS[name](6).double()
    together = pooling(outputs, final, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = pooling(
            outputs[: max(1, length), row : row + 1], final[row : row + 1], LENGTHS[row : row + 1]
        )
        assert torch.allclose(together[row], alone[0], atol=1e-12)


@pytest.mark.parametrize("name", POOLINGS)
def test_an_empty_row_is_zero_and_has_a_gradient(name, sequences):
    outputs, final = sequences
    outputs.requires_grad_()
    final.requires_grad_()
    pooled = POOLINGS[name](6).double()(outputs, final, LENGTHS)
    assert torch.equal(pooled[2], torch.zeros(6, dtype=torch.float64))
    pooled.sum().backward()
    used = final if name == "last" else outputs
    assert used.grad.isfinite().all()
    assert used.grad.any()
    if name in ("max", "attention"):
        assert not outputs.grad[1:, 1].any()  # past its row's end


def test_what_each_takes(sequences):  # R81
    outputs, final = sequences
    row = outputs[:3, 3]
    assert torch.allclose(POOLINGS["mean"](6)(outputs, final, LENGTHS)[3], row.mean(0))
    assert torch.equal(POOLINGS["max"](6)(outputs, final, LENGTHS)[3], row.amax(0))
    assert torch.equal(POOLINGS["last"](6)(outputs, final, LENGTHS)[3], row[-1])
    attention = POOLINGS["attention"](6).double()
    weights = attention.weights(outputs, LENGTHS)
    assert torch.allclose(weights.sum(1), (LENGTHS > 0).double())
    assert torch.allclose(attention(outputs, final, LENGTHS)[3], weights[3, :3] @ row)


def test_an_unknown_name_is_told_its_neighbour():
    with refuses("pooling", "'atention'", "'attention'"):
        POOLINGS["atention"](6)
