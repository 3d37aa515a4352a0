"""One-hot rows and embedding tables."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import throughtime as tt
from throughtime.errors import InputError
from throughtime.layers.embedding import embedding_from_vectors, one_hot


def test_one_hot_is_the_embedding_of_the_identity():  # R26
    ids = torch.randint(28, (35, 32), generator=torch.Generator().manual_seed(0))
    rows = one_hot(ids, 28)
    assert rows.shape == (35, 32, 28)
    assert torch.equal(rows, nn.Embedding.from_pretrained(torch.eye(28))(ids))
    with pytest.raises(InputError, match=r"0\.\.27, got 5\.\.28"):
        one_hot(torch.tensor([5, 28]), 28)


def test_lookup_gives_a_row_for_each_id_and_equal_ones_for_equal_ids():  # R27
    rows = nn.Embedding(30, 3)(torch.tensor([7, 4, 11, 11, 14]))
    assert rows.shape == (5, 3)
    assert torch.equal(rows[2], rows[3])
    assert not torch.equal(rows[0], rows[1])


def test_vectors_fill_an_embedding(tmp_path):
    file = tmp_path / "words.vec"
    file.write_text("2 3\ncat 1 2 3\nsea 4 5 6\n")
    vocabulary = tt.Vocabulary.build(["sea", "cat", "sky"], reserved=("<pad>", "<unk>"))
    table, found = embedding_from_vectors(file, vocabulary)
    assert found == 2
    assert table(torch.tensor(vocabulary[["cat", "sea"]])).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert table.weight.requires_grad
    assert table.padding_idx == 0
