"""The network of a tagger: words, their letters and states of language models, read in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from throughtime.layers.crf import Independent, LinearChain, TagHead
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import check_probability, variational_dropout
from throughtime.layers.pooling import MaxPooling, MeanPooling
from throughtime.layers.stack import Stack
from throughtime.models.language import FrozenReader
from throughtime.tasks.tag.reading import UNKNOWN

if TYPE_CHECKING:
    from throughtime.data.batching.tagged import TaggedBatch


class SpellingReader(nn.Module):
    """The last states of a stack that reads the letters of a word in both directions: [W, 2 H].

    >>> reader = SpellingReader(30, embedding_size=8, hidden_size=16)
    >>> reader(torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 3])).shape
    torch.Size([3, 32])
    """

    def __init__(
        self,
        characters: int,
        *,
        cell: str = "lstm",
        embedding_size: int = 32,
        hidden_size: int = 64,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding_size)
        self.stack = Stack(cell, embedding_size, hidden_size, bidirectional=True)
        self.dropout = nn.Dropout(check_probability("dropout", dropout))

    @property
    def output_size(self) -> int:
        """The size of both directions together."""
        return self.stack.output_size

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """Words as letters [C, W], one word per column, and their lengths [W]."""
        _, state = self.stack(self.dropout(self.embedding(characters)), None, lengths)
        # The state of each direction begins with its output.
        return torch.cat([state[0], state[len(state) // 2]], -1)


class TagScores(NamedTuple):
    """Scores of every tag at every word [T, B, S], and of every label of the sentence [B, K]."""

    tags: Tensor
    labels: Tensor | None


class SequenceTagger(nn.Module):
    """A bidirectional stack over words and their letters, and scores of tags from each state.

    With `num_characters=0` letters are not read. With `num_labels` above 0 the sentence gets a label, from
    the mean and the maximum of its states. `crf` scores the tags of a sentence as one chain. Training
    replaces the share `word_dropout` of the words by the unknown word, so that the model learns from letters
    and context too.
    """

    head: TagHead

    def __init__(
        self,
        num_words: int,
        num_characters: int,
        num_tags: int,
        num_labels: int = 0,
        *,
        cell: str = "lstm",
        word_size: int = 128,
        character_size: int = 32,
        character_hidden_size: int = 64,
        hidden_size: int = 200,
        num_layers: int = 2,
        crf: bool = True,
        word_dropout: float = 0.0,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        output_dropout: float = 0.0,
        variational: bool = False,
        readers: Sequence[FrozenReader] = (),
        language_size: int = 256,
        language_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, word_size)
        self.spelling = (
            SpellingReader(
                num_characters,
                cell=cell,
                embedding_size=character_size,
                hidden_size=character_hidden_size,
                dropout=input_dropout / 2,
            )
            if num_characters
            else None
        )
        self.readers = tuple(readers)
        read = sum(reader.output_size for reader in self.readers)
        self.language = nn.Linear(read, language_size) if read else None
        width = word_size + (language_size if read else 0)
        width += self.spelling.output_size if self.spelling is not None else 0
        self.stack = Stack(
            cell,
            width,
            hidden_size,
            num_layers,
            bidirectional=True,
            dropout=hidden_dropout,
            variational=variational,
        )
        self.scores = nn.Linear(self.stack.output_size, num_tags)
        self.poolings = nn.ModuleList(kind(self.stack.output_size) for kind in (MeanPooling, MaxPooling))
        self.labels = nn.Linear(2 * self.stack.output_size, num_labels) if num_labels else None
        self.word_dropout = check_probability("word_dropout", word_dropout)
        self.input_dropout = check_probability("input_dropout", input_dropout)
        self.language_dropout = check_probability("language_dropout", language_dropout)
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.variational = variational
        initialise_network_(self)
        self.head = LinearChain(num_tags) if crf else Independent()

    def forward(self, batch: TaggedBatch) -> TagScores:
        """The scores of a batch of sentences; the tags and labels of the batch are ignored."""
        x = self._apply_dropout(self._read(batch), self.input_dropout)
        states, _ = self.stack(x, None, batch.lengths)
        states = self._apply_dropout(states, self.output_dropout)
        labels = None if self.labels is None else self.labels(self._pool(states, batch.lengths))
        return TagScores(self.scores(states), labels)

    def _read(self, batch: TaggedBatch) -> Tensor:
        """The input of the stack, [T, B, I]."""
        words = batch.words
        if self.training and self.word_dropout:
            lost = torch.rand(words.shape, device=words.device) < self.word_dropout
            words = torch.where(lost, UNKNOWN, words)
        parts = [self.embedding(words)]
        if self.spelling is not None:
            forms = self.spelling(batch.characters, batch.character_lengths)
            # As in a table: the gradient of an index takes many kernels, and sums in no fixed order.
            parts.append(embedding(batch.spelled, forms))
        if self.language is not None:
            read = zip(self.readers, batch.read, batch.read_places, strict=True)
            states = torch.cat([reader(ids, places) for reader, ids, places in read], -1)
            parts.append(self.language(self._apply_dropout(states, self.language_dropout)))
        return torch.cat(parts, -1)

    def _pool(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Sentences as vectors, [B, 2 H]. Neither pooling uses the final state, so any tensor will do."""
        return torch.cat([pooling(states, states[0], lengths) for pooling in self.poolings], -1)

    def _apply_dropout(self, x: Tensor, p: float) -> Tensor:
        if not self.training or not p:
            return x
        return variational_dropout(x, p) if self.variational else dropout(x, p)
