"""One-hot rows and embedding tables."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.layers.embedding import one_hot
from throughtime.models.language import RecurrentLanguageModel


def test_one_hot_is_the_embedding_of_the_identity():  # R26
    ids = torch.randint(28, (35, 32), generator=torch.Generator().manual_seed(0))
    rows = one_hot(ids, 28)
    assert rows.shape == (35, 32, 28)
    assert torch.equal(rows, nn.Embedding.from_pretrained(torch.eye(28))(ids))
    with refuses("ids", "5..28", "0..27"):
        one_hot(torch.tensor([5, 28]), 28)


@pytest.mark.parametrize("ids", [torch.tensor([0.5]), torch.tensor([True]), torch.tensor([1j])])
def test_one_hot_takes_whole_numbers_only(ids):
    with refuses("ids"):
        one_hot(ids, 3)


IDS = [7, 4, 11, 11, 14]


@pytest.mark.parametrize("training", [True, False])
def test_a_model_looks_up_a_row_for_each_id_and_equal_ones_for_equal_ids(training):  # R27
    model = RecurrentLanguageModel(30, embedding_size=3, hidden_size=4, tied=False).train(training)
    read = []
    model.stack.register_forward_pre_hook(lambda stack, given: read.append(given[0]))
    model(torch.tensor(IDS)[:, None])
    [rows] = [x[:, 0] for x in read]
    assert rows.shape == (5, 3)
    assert torch.equal(rows[2], rows[3])
    assert len({tuple(row) for row in rows.tolist()}) == 4
    assert torch.equal(rows, model.embedding.weight[IDS])
