"""The classifier's network: padding, dropped words, first expectations."""

from __future__ import annotations

import pytest
import torch

from throughtime.layers.pooling import POOLINGS
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.network import build_classifier


def small(unknown_id=None, **settings):
    torch.manual_seed(1)
    config = ClassifyConfig(data="", embedding_size=6, hidden_size=5, **settings)
    return build_classifier(config, 12, 3, unknown_id=unknown_id)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_padded_batch_is_each_row_alone(pooling, bidirectional):  # R65: padding never leaks in
    model = small(pooling=pooling, bidirectional=bidirectional, num_layers=2).double().eval()
    lengths = torch.tensor([5, 1, 0, 3])
    ids = torch.randint(1, 12, (5, 4))
    together = model.log_probs(ids, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = model.log_probs(ids[:length, row : row + 1], lengths[row : row + 1])
        assert torch.allclose(together[row], alone[0], atol=1e-9)


def test_of_nothing_it_expects_what_it_was_told():
    model = small().eval()
    shares = torch.tensor([0.7, 0.2, 0.1])
    model.expect(shares)
    found = model.log_probs(torch.zeros(0, 1, dtype=torch.long), torch.tensor([0]))
    assert torch.allclose(found.exp()[0], shares)
