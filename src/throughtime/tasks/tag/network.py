"""The network of a tagger and its graph: words, letters and states of language models, read both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.layers.crf import Independent, LinearChain, TagHead
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import check_probability, sequence_dropout
from throughtime.layers.pooling import MaxPooling, MeanPooling, Pooling
from throughtime.layers.stack import Stack
from throughtime.models.indicators import IndicatorChain
from throughtime.models.language import FrozenReader
from throughtime.tasks.tag.runner import UNKNOWN
from throughtime.text.indicators import INDICATORS

if TYPE_CHECKING:
    from throughtime.data.batching.sequences import TaggedBatch
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.tag.model import Tagger


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
        self.output_size = self.stack.output_size
        self.dropout = nn.Dropout(check_probability("dropout", dropout))

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """Words as letters [C, W], one word per column, and their lengths [W]."""
        _, state = self.stack(self.dropout(self.embedding(characters)), None, lengths)
        # The state of each direction begins with its output.
        return torch.cat([state[0], state[len(state) // 2]], -1)


class TagScores(NamedTuple):
    """Scores of every tag at every word [T, B, S], and of every label of the sentence [B, K]."""

    tags: Tensor
    labels: Tensor | None


class ScoredWords(NamedTuple):
    """A batch of sentences as the network and the indicators score it."""

    numbers: list[int]
    lengths: Tensor
    scores: Tensor  # [T, B, S]
    spotted: Tensor | None  # [T, B, S]
    labels: Tensor | None

    def mix(self, share: float) -> Tensor:
        """The scores with a share of the indicators."""
        return self.scores if self.spotted is None else self.scores.float().lerp(self.spotted, share)


class SequenceTagger(nn.Module):
    """A bidirectional stack over words and their letters, and scores of tags from each state.

    With `num_characters=0` letters are not read. With `num_labels` above 0 the sentence gets a label, from
    the mean and the maximum of its states. `crf` scores the tags of a sentence as one chain. Training
    replaces the share `word_dropout` of the words by the unknown word, so that the model learns from letters
    and context too. With `vector_size` above 0, vectors of this size are read in place of words.
    """

    head: TagHead
    indicators: IndicatorChain | None
    """A chain that is fitted before the network, and mixed with it in answers."""

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
        vector_size: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = (
            nn.Linear(vector_size, word_size) if vector_size else nn.Embedding(num_words, word_size)
        )
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
        self.indicators = None

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
        if self.training and self.word_dropout and not words.is_floating_point():
            lost = torch.rand(words.shape, device=words.device) < self.word_dropout
            words = torch.where(lost, UNKNOWN, words)
        parts = [self.embedding(words)]
        if self.spelling is not None:
            forms = self.spelling(batch.characters, batch.character_lengths)
            # As in a table: the gradient of an index takes many kernels, and sums in no fixed order.
            parts.append(functional.embedding(batch.spelled, forms))
        if self.language is not None:
            read = zip(self.readers, batch.read, batch.read_places, strict=True)
            states = torch.cat([reader(ids, places) for reader, ids, places in read], -1)
            parts.append(self.language(self._apply_dropout(states, self.language_dropout)))
        return torch.cat(parts, -1)

    def _pool(self, states: Tensor, lengths: Tensor) -> Tensor:
        """Sentences as vectors, [B, 2 H]. Neither pooling uses the final state, so any tensor will do."""
        return torch.cat([pooling(states, states[0], lengths) for pooling in self.poolings], -1)

    def _apply_dropout(self, x: Tensor, p: float) -> Tensor:
        return sequence_dropout(x, p, self.training, self.variational)


SHAPES = ((1, 1), (1, 40), (3, 7), (3, 30))


def build_export(tagger: Tagger) -> ModelExport:
    """The graph of a tagger with its language models, and the settings and files that its runner needs."""
    from throughtime.graphs.graph import to_array
    from throughtime.graphs.write import ModelExport

    model, codec, vectors = tagger.model, tagger.codec, tagger.vectors
    weights = tagger.mix_heads().weights()
    chain = weights and {name: to_array(one).tolist() for name, one in weights._asdict().items()}

    def save(folder: Path) -> None:
        codec.save(folder)
        if vectors is not None:
            vectors.save(folder)
        for number, language in enumerate(tagger.languages):
            language.reading.codec.save(folder / f"language-{number}")

    return ModelExport(
        lambda int8: {"model": build_tagger_graph(model, int8)},
        {
            "vectors": codec.vectors,
            "lowercase": codec.lowercase,
            "max_characters": codec.max_characters,
            "spelled": model.spelling is not None,
            "labelled": model.labels is not None,
            "indicators": model.indicators is not None,
            "chain": chain,
            "languages": [
                {name: getattr(language.reading, name) for name in ("begin_id", "backward", "between")}
                for language in tagger.languages
            ],
        },
        save,
        lambda: _cases(tagger),
        'tag(["a sentence in words"])[0].tags' if vectors is None else "tag([array])[0].tags",
    )


def build_tagger_graph(model: SequenceTagger, int8: bool) -> Graph:
    """From words [T, B], their letters and language models to scores of tags [T, B, S] and labels [B, K]."""
    from throughtime.graphs.graph import Graph

    graph = Graph("tagger", int8=int8)
    embedding, shape = model.embedding, ("time", "batch")
    if isinstance(embedding, nn.Linear):
        words = graph.input("words", "float32", [*shape, embedding.in_features])
        parts = [graph.linear(words, embedding.weight, embedding.bias)]
    else:
        words = graph.input("words", "int64", shape)
        parts = [graph.lookup(embedding.weight, words)]
    lengths = graph.input("lengths", "int64", ["batch"])
    if model.spelling is not None:
        characters = graph.input("characters", "int64", ["letters", "forms"])
        sizes = graph.input("character_lengths", "int64", ["forms"])
        spelled = graph.input("spelled", "int64", ["time", "batch"])
        vectors = graph.lookup(model.spelling.embedding.weight, characters)
        _, state = model.spelling.stack.graph(graph, vectors, None, sizes)
        forms = graph.op("Concat", state[0], state[len(state) // 2], axis=-1)  # of both directions
        parts.append(graph.op("Gather", forms, spelled))
    if model.language is not None:
        read = [_read(graph, model, number) for number in range(len(model.readers))]
        parts.append(graph.linear(graph.concat(read), model.language.weight, model.language.bias))
    states, _ = model.stack.graph(graph, graph.concat(parts), None, lengths)
    if model.indicators is None:
        scores = graph.linear(states, model.scores.weight, model.scores.bias)
    else:
        share = float(model.indicators.share)
        indicators = graph.input("indicators", "int64", ["time", "batch", INDICATORS])
        scored = graph.lookup(share * model.indicators.table, indicators)
        scored = graph.op("ReduceSum", scored, graph.axes(2), keepdims=0)
        own = graph.linear(states, (1 - share) * model.scores.weight, (1 - share) * model.scores.bias)
        scores = graph.op("Add", own, scored)
    graph.output(scores, "tags", "float32", ["time", "batch", model.scores.out_features])
    if model.labels is not None:
        both = [cast(Pooling, pooling).graph(graph, states, states, lengths) for pooling in model.poolings]
        labels = graph.linear(graph.concat(both), model.labels.weight, model.labels.bias)
        graph.output(labels, "labels", "float32", ["batch", model.labels.out_features])
    return graph


def _read(graph: Graph, model: SequenceTagger, number: int) -> str:
    """The outputs of a language model at the end of each word, [T, B, H]."""
    language = model.readers[number].model
    ids = graph.input(f"read_{number}", "int64", [f"read_{number}", "batch"])
    places = graph.input(f"places_{number}", "int64", ["time", "batch"])
    outputs, _ = language.stack.graph(graph, language.graph_embed(graph, ids))
    width = language.stack.output_size
    wide = graph.op(
        "Expand",
        graph.op("Unsqueeze", places, graph.axes(-1)),
        graph.sizes(graph.size(places, 0), graph.size(places, 1), width),
    )
    return graph.op("GatherElements", outputs, wide, axis=0)


@torch.inference_mode()
def _cases(tagger: Tagger) -> Iterator[Case]:
    from throughtime.data.batching.sequences import TaggedBatches
    from throughtime.graphs.write import Case
    from throughtime.tasks.tag.codec import read_vectors

    model, draws = tagger.model, np.random.default_rng(0)
    known = [word for word in tagger.codec.words if word not in tagger.codec.words.reserved]
    for batch, longest in SHAPES:
        lengths = [longest, *draws.integers(1, longest + 1, batch - 1).tolist()]
        sentences: list[Any] = [
            [known[index] for index in draws.integers(len(known), size=length)] for length in lengths
        ]
        if (vectors := tagger.vectors) is not None:
            sentences = [draws.standard_normal((length, vectors.size), np.float32) for length in lengths]
        rows, frames = tagger.assets.rows(sentences)
        (one,) = TaggedBatches(rows, batch_size=batch, shuffle=False)
        one = read_vectors(one, frames)
        scores, labels = model(one)
        given = {"words": one.words, "lengths": one.lengths}
        if model.spelling is not None:
            spelling = {"characters": one.characters, "character_lengths": one.character_lengths}
            given |= {**spelling, "spelled": one.spelled}
        for number in range(len(model.readers)):
            given[f"read_{number}"] = one.read[number]
            given[f"places_{number}"] = one.read_places[number]
        expected = {"tags": scores} if labels is None else {"tags": scores, "labels": labels}
        if model.indicators is not None:
            given["indicators"] = tagger.indicate([sentences[row] for row in one.indices.tolist()])
            expected["tags"] = scores.lerp(model.indicators(given["indicators"]), model.indicators.share)
        long = {name: value if value.is_floating_point() else value.long() for name, value in given.items()}
        yield Case.of("model", f"{batch} x {longest}", long, expected)
