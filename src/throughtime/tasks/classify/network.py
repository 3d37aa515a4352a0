"""The network of a classifier: embedding, recurrent layers, pooling, and a softmax over the labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.layers.dropout import check_probability
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.pooling import POOLINGS, Pooling
from throughtime.layers.stack import Stack
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import RecurrentEncoder


class SequenceClassifier(nn.Module):
    r"""P(label given a sequence): softmax(W q(h_1..h_T) + b), with q one of `POOLINGS`.

    Training replaces the share `word_dropout` of the tokens by `unknown_id`, so that the model learns what to
    do with unknown words; None if the vocabulary has no unknown token.

    >>> model = build(30, 3, hidden_size=16, embedding_size=8)
    >>> ids, lengths = torch.zeros(5, 2, dtype=torch.long), torch.tensor([5, 0])
    >>> model.log_probs(ids, lengths).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        encoder: RecurrentEncoder,
        pooling: Pooling,
        labels: int,
        *,
        unknown_id: int | None = None,
        word_dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.head = SoftmaxHead(encoder.output_size, labels)
        self.unknown_id = unknown_id
        self.word_dropout = check_probability("word_dropout", word_dropout)
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The input of the head: one vector for each sequence of ids [T, B], as [B, H]."""
        encoded = self.encoder(self._with_words_dropped(ids), lengths)
        pooled: Tensor = self.output_dropout(self.pooling(encoded.outputs, encoded.final, lengths))
        return pooled

    def log_probs(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """ln P of every label, [B, labels]."""
        return self.head.log_probs(self(ids, lengths))

    @torch.no_grad()
    def expect(self, frequencies: Tensor) -> None:
        """Set the bias of the head to these frequencies of the labels."""
        assert self.head.bias is not None
        self.head.bias.copy_(frequencies.log())

    def _with_words_dropped(self, ids: Tensor) -> Tensor:
        if not self.training or not self.word_dropout or self.unknown_id is None:
            return ids
        return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, self.unknown_id)


def build(
    vocabulary_size: int,
    labels: int,
    *,
    unknown_id: int | None = None,
    cell: str = "lstm",
    embedding_size: int = 128,
    hidden_size: int = 128,
    num_layers: int = 1,
    bidirectional: bool = True,
    pooling: str = "max",
    residual: bool = False,
    layer_norm: bool = False,
    word_dropout: float = 0.0,
    embedding_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    output_dropout: float = 0.0,
    weight_drop: float = 0.0,
) -> SequenceClassifier:
    """Build a classifier with Xavier initialisation; `hidden_size` is that of one direction."""
    stack = Stack(
        cell,
        embedding_size,
        hidden_size,
        num_layers,
        bidirectional=bidirectional,
        dropout=hidden_dropout,
        weight_drop=weight_drop,
        residual=residual,
        layer_norm=layer_norm,
    )
    embedding = nn.Embedding(vocabulary_size, embedding_size)
    encoder = RecurrentEncoder(embedding, stack, dropout=embedding_dropout)
    return initialise_network_(
        SequenceClassifier(
            encoder,
            POOLINGS[pooling](encoder.output_size),
            labels,
            unknown_id=unknown_id,
            word_dropout=word_dropout,
            output_dropout=output_dropout,
        )
    )
