"""The tagger: words, spellings and what language models say of them, read from both ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from throughtime.data.batching.tagged import TaggedBatch
from throughtime.layers.crf import Independent, LinearChain, TagHead
from throughtime.layers.dropout import check_probability, variational_dropout
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.pooling import MaxPooling, MeanPooling
from throughtime.layers.stack import Stack
from throughtime.models.language import FrozenReader
from throughtime.tasks.tag.characters import SpellingReader

UNKNOWN = 0
"""The id of all words that the vocabulary lacks."""


class TagScores(NamedTuple):
    """Scores of every tag at every word [T, B, S], and of every label of the sentence [B, K]."""

    tags: Tensor
    labels: Tensor | None


class Tagger(nn.Module):
    """Words and spellings into a deep bidirectional stack, and from each state the scores of tags.

    `characters` is the size of their vocabulary; 0 does without spellings. `labels` above 0 adds a label for
    the whole sentence, read from the mean and the maximum of its states. `crf` makes the tags of a sentence
    one chain. In training, words become unknown at the rate `word_dropout`, so that spelling and context
    have to do.
    """

    head: TagHead

    def __init__(
        self,
        words: int,
        characters: int,
        tags: int,
        labels: int = 0,
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
        self.embedding = nn.Embedding(words, word_size)
        self.spelling = (
            SpellingReader(
                characters,
                cell=cell,
                embedding_size=character_size,
                hidden_size=character_hidden_size,
                dropout=input_dropout / 2,
            )
            if characters
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
        self.scores = nn.Linear(self.stack.output_size, tags)
        self.poolings = nn.ModuleList(kind(self.stack.output_size) for kind in (MeanPooling, MaxPooling))
        self.labels = nn.Linear(2 * self.stack.output_size, labels) if labels else None
        self.word_dropout = check_probability("word_dropout", word_dropout)
        self.input_dropout = check_probability("input_dropout", input_dropout)
        self.language_dropout = check_probability("language_dropout", language_dropout)
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.variational = variational
        initialise_network_(self)
        self.head = LinearChain(tags) if crf else Independent()

    def forward(self, batch: TaggedBatch) -> TagScores:
        """The scores of a batch of sentences; its tags and labels are not looked at."""
        x = self._dropped(self._read(batch), self.input_dropout)
        states, _ = self.stack(x, None, batch.lengths)
        states = self._dropped(states, self.output_dropout)
        labels = None if self.labels is None else self.labels(self._pooled(states, batch.lengths))
        return TagScores(self.scores(states), labels)

    def _read(self, batch: TaggedBatch) -> Tensor:
        """What is known of each word before its neighbours are: [T, B, I]."""
        words = batch.words
        if self.training and self.word_dropout:
            lost = torch.rand(words.shape, device=words.device) < self.word_dropout
            words = torch.where(lost, UNKNOWN, words)
        parts = [self.embedding(words)]
        if self.spelling is not None:
            parts.append(self.spelling(batch.characters, batch.character_lengths)[batch.spelled])
        if self.language is not None:
            read = zip(self.readers, batch.read, batch.read_places, strict=True)
            states = torch.cat([reader(ids, places) for reader, ids, places in read], -1)
            parts.append(self.language(self._dropped(states, self.language_dropout)))
        return torch.cat(parts, -1)

    def _pooled(self, states: Tensor, lengths: Tensor) -> Tensor:
        """A whole sentence, [B, 2 H]. Neither pooling looks at a final state, so any stands in for it."""
        return torch.cat([pooling(states, states[0], lengths) for pooling in self.poolings], -1)

    def _dropped(self, x: Tensor, p: float) -> Tensor:
        if not self.training or not p:
            return x
        return variational_dropout(x, p) if self.variational else dropout(x, p)
