"""From ids to vectors: one-hot rows, and the first weights of embeddings."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from throughtime.cells.initial import xavier_
from throughtime.errors import InputError

MAX_ONE_HOT = 8_192
"""Largest vocabulary of one-hot vectors: the table of all of them grows as its square."""


def one_hot(ids: Tensor, vocabulary_size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A row of zeros with a single one for each id: [T, B] -> [T, B, V].

    >>> one_hot(torch.tensor([[0, 2]]), 3).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]
    """
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise InputError("ids", f"are {ids.dtype}, expected whole numbers, such as torch.long")
    if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= vocabulary_size):
        problem = f"are {int(ids.min())}..{int(ids.max())}, expected 0..{vocabulary_size - 1}"
        raise InputError("ids", problem)
    return nn.functional.one_hot(ids.long(), vocabulary_size).to(dtype)


class OneHotEmbedding(nn.Module):
    """A fixed table whose row i is the one-hot vector of id i: an embedding of the identity, with no weights.

    >>> OneHotEmbedding(3)(torch.tensor([2, 0])).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    sparse = False
    weight: Tensor

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        if vocabulary_size > MAX_ONE_HOT:
            raise InputError(
                "embedding",
                f"is one-hot, but the vocabulary has {vocabulary_size:,} tokens, expected at most "
                f"{MAX_ONE_HOT:,}; use a learned embedding or a smaller vocabulary",
            )
        self.num_embeddings = self.embedding_dim = vocabulary_size
        self.register_buffer("weight", torch.eye(vocabulary_size), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows of ids: [...] -> [..., V]."""
        return self.weight[ids]


AnyModule = TypeVar("AnyModule", bound=nn.Module)


def initialise_network_(module: AnyModule) -> AnyModule:
    """Draw first weights by Xavier, and every embedding of width E from N(0, 1 / E).

    Xavier would count all words of a table, although a step reads only one: with vectors that small, the
    layers above learn nothing for hundreds of updates. On torch's meta device, nothing is drawn.
    """
    if any(weight.is_meta for weight in module.parameters()):  # whose values are read from a file
        return module
    xavier_(module)
    for layer in module.modules():
        if isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, std=layer.embedding_dim**-0.5)
    return module
