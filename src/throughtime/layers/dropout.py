"""Dropout for sequences: one mask over time, whole words, recurrent weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.nn.functional import dropout

from throughtime.cells.base import Cell
from throughtime.errors import InputError


def check_probability(name: str, p: float) -> float:
    """Return p, or raise an error that names the option."""
    if not 0 <= p < 1:
        raise InputError(name, f"is {p}, expected 0 or more and less than 1")
    return p


def variational_dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Drop the same units of a row at every step (Gal and Ghahramani, 2016): x [T, B, H], mask [1, B, H].

    >>> import torch
    >>> y = variational_dropout(torch.ones(4, 3, 50), 0.5)
    >>> bool((y == y[0]).all()), sorted(set(y.flatten().tolist()))
    (True, [0.0, 2.0])
    """
    check_probability("dropout", p)
    if not training or p == 0:
        return x
    return x * dropout(x.new_ones(1, *x.shape[1:]), p)


def embedding_dropout(embedded: Tensor, ids: Tensor, words: int, p: float, training: bool = True) -> Tensor:
    """Drop whole words: a word of the vocabulary is zero everywhere in the batch, or nowhere.

    One number is drawn for each of the `words` of the vocabulary, and `embedded` [T, B, E] is scaled by the
    number of its id. The embedding table is not touched, so that its gradient can stay sparse.

    >>> import torch
    >>> ids = torch.tensor([[3], [7], [3]])
    >>> y = embedding_dropout(torch.ones(3, 1, 2), ids, words=10, p=0.5)
    >>> torch.equal(y[0], y[2]), bool((y == y[..., :1]).all())
    (True, True)
    """
    check_probability("embedding dropout", p)
    if not training or p == 0:
        return embedded
    return embedded * dropout(embedded.new_ones(words), p)[ids][..., None]


@contextmanager
def weight_drop(cell: Cell, p: float, training: bool = True) -> Iterator[None]:
    """Inside the block, some recurrent weights are zero, the same ones at every step (Merity et al., 2018).

    The cell's own weights do not change and receive the gradient of those that were kept.
    """
    check_probability("weight_drop", p)
    if not training or p == 0:
        yield
        return
    with cell.replacing({"weight_hh": dropout(cell.weights()["weight_hh"], p)}):
        yield
