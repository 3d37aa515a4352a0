"""The network of a classifier and its graph: embedding, recurrent layers, pooling, a softmax over labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import check_probability
from throughtime.layers.pooling import POOLINGS, Pooling
from throughtime.models.convolutions import ConvolutionClassifier
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.linear_classifier import OPERATIONS, SparseRows, fit_chosen
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.text.grams import HASH, Grams

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.classify.model import Classifier


class GramClassifier(nn.Module):
    """A linear softmax over the n-grams of words and letters of a text, beside the network."""

    part = "grams"
    keys: Tensor
    rarity: Tensor
    weight: Tensor
    bias: Tensor
    mixture: Tensor

    def __init__(self, grams: int, labels: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.full((grams,), HASH))
        self.register_buffer("rarity", torch.zeros(grams))
        self.register_buffer("weight", torch.zeros(grams, labels))
        self.register_buffer("bias", torch.zeros(labels))
        self.register_buffer("mixture", torch.tensor([1.0, 0.0]))

    @property
    def grams(self) -> Grams:
        """The n-grams that it knows."""
        return Grams(self.keys.cpu().numpy(), self.rarity.cpu().numpy())

    @torch.no_grad()
    def learn(self, texts: Sequence[str], labels: Sequence[int], seed: int, effort: float) -> None:
        """Collect the n-grams of texts and fit their weights; `effort` is a share of the usual products."""
        known = Grams.of(texts, len(self.keys))
        count = len(known.keys)
        if not count:
            return
        rows = SparseRows.of([known.read(text) for text in texts], count)
        fitted = fit_chosen(
            rows, torch.tensor(labels), len(self.bias), seed=seed, operations=effort * OPERATIONS
        )
        self.keys[:count] = torch.from_numpy(known.keys)
        self.rarity[:count] = torch.from_numpy(known.rarity)
        self.weight[:count], self.bias[:] = fitted.weight, fitted.bias

    def log_probs(self, columns: Tensor, values: Tensor) -> Tensor:
        """ln P of every label for one text, whose n-grams have these numbers and weights: [1, labels]."""
        return torch.log_softmax(values @ self.weight[columns] + self.bias, 0)[None]

    def graph(self, int8: bool) -> Graph:
        """The same, and with the hashes and the rarity of the n-grams."""
        from throughtime.graphs.graph import Graph

        graph = Graph("grams", int8=int8)
        columns = graph.input("columns", "int64", ["grams"])
        values = graph.input("values", "float32", ["grams"])
        rows = graph.lookup(self.weight, columns)
        added = graph.op("MatMul", graph.op("Unsqueeze", values, graph.axes(0)), rows)
        scores = graph.op("Add", added, graph.weight(self.bias))
        labels = len(self.bias)
        graph.output(graph.op("LogSoftmax", scores, axis=-1), "log_probs", "float32", [1, labels])
        graph.output(graph.constant(self.keys.cpu().numpy(), "int64"), "keys", "int64", [len(self.keys)])
        graph.output(graph.weight(self.rarity), "rarity", "float32", [len(self.rarity)])
        return graph


Partner = GramClassifier | ConvolutionClassifier
"""What may stand beside the network."""


class SequenceClassifier(nn.Module):
    r"""P(label given a sequence): softmax(W q(h_1..h_T) + b), with q one of `POOLINGS`.

    `partner` is None, or a classifier beside it, with whose answers its own are mixed.

    Training replaces the share `word_dropout` of the tokens by `unknown_id`, so that the model learns what to
    do with unknown words; None if the vocabulary has no unknown token.

    >>> model = build_classifier(ClassifyConfig(data="", hidden_size=16, embedding_size=8), 30, 3)
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
        partner: Partner | None = None,
    ) -> None:
        super().__init__()
        self.partner = partner
        self.encoder, self.pooling = encoder, pooling
        self.head = SoftmaxHead(encoder.output_size, labels)
        self.unknown_id = unknown_id
        self.word_dropout = check_probability("word_dropout", word_dropout)
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The input of the head: one vector for each sequence of ids [T, B], as [B, H]."""
        encoded = self.encoder(self._drop_words(ids), lengths)
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

    def _drop_words(self, ids: Tensor) -> Tensor:
        if not self.training or not self.word_dropout or self.unknown_id is None:
            return ids
        return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, self.unknown_id)


def build_classifier(
    config: ClassifyConfig,
    vocabulary_size: int,
    labels: int,
    *,
    unknown_id: int | None = None,
    vectors: VectorCodec | None = None,
) -> SequenceClassifier:
    """Build the network that the settings describe, with Xavier initialisation.

    With `vectors` it reads vectors of `vocabulary_size` numbers in place of tokens.
    """
    stack = config.build_stack(config.embedding_size)
    embedding = (nn.Embedding if vectors is None else nn.Linear)(vocabulary_size, config.embedding_size)
    encoder = RecurrentEncoder(embedding, stack, dropout=config.embedding_dropout)
    pooling = POOLINGS[config.pooling](encoder.output_size)
    dropouts = {"word_dropout": config.word_dropout, "output_dropout": config.output_dropout}
    partner: Partner | None = GramClassifier(config.grams, labels) if config.grams else None
    if vectors is not None and config.convolutions:
        sizes = (len(vectors.features), vectors.stride, vectors.steps)
        partner = ConvolutionClassifier(*sizes, labels, config.convolutions)
    return initialise_network_(
        SequenceClassifier(encoder, pooling, labels, unknown_id=unknown_id, partner=partner, **dropouts)
    )


SHAPES = ((1, 1), (1, 50), (3, 7), (3, 40))


def build_export(classifier: Classifier) -> ModelExport:
    """The graph of a classifier, and the settings and files that its runner needs."""
    from throughtime.graphs.write import ModelExport

    model, partner = classifier.model, getattr(classifier.model, "partner", None)
    settings = {"labels": list(classifier.labels.names), "max_length": classifier.config.max_length}
    return ModelExport(
        lambda int8: {
            "model": build_classifier_graph(model, int8),
            **({} if partner is None else {partner.part: build_partner_graph(partner, int8)}),
        },
        settings | {"mixture": list(classifier.mixture)},
        classifier.codec.save,
        lambda: _cases(model),
        'classify(["a text"])[0].label' if classifier.vectors is None else "classify([array])[0].label",
    )


def build_classifier_graph(model: SequenceClassifier, int8: bool) -> Graph:
    """Ids [T, B] and their lengths [B], to ln P [B, labels]."""
    from throughtime.graphs.graph import Graph

    graph = Graph("classifier", int8=int8)
    embedding = model.encoder.embedding
    if isinstance(embedding, nn.Linear):
        ids = graph.input("ids", "float32", ["time", "batch", embedding.in_features])
    else:
        ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    encoded = model.encoder.graph(graph, ids, lengths)
    vector = model.pooling.graph(graph, encoded.outputs, encoded.final, lengths)
    labels = model.head.weight.shape[0]
    graph.output(model.head.graph_log_probs(graph, vector), "log_probs", "float32", ["batch", labels])
    return graph


def build_partner_graph(partner: Partner, int8: bool) -> Graph:
    """The graph of what stands beside the network."""
    if isinstance(partner, GramClassifier):
        return partner.graph(int8)
    from throughtime.graphs.graph import Graph

    graph = Graph(partner.part, int8=int8)
    frames = graph.input("frames", "float32", ["time", "batch", partner.stride * partner.features])
    answer = partner.graph(graph, frames, graph.input("lengths", "int64", ["batch"]))
    graph.output(answer, "log_probs", "float32", ["batch", len(partner.bias)])
    return graph


@torch.inference_mode()
def _cases(model: SequenceClassifier) -> Iterator[Case]:
    from throughtime.graphs.write import Case, draw_ragged

    draws = torch.Generator().manual_seed(0)
    embedding = model.encoder.embedding
    for batch, longest in SHAPES:
        words = 1 if isinstance(embedding, nn.Linear) else embedding.num_embeddings
        ids, lengths = draw_ragged(0, words, longest, batch, draws)
        if isinstance(embedding, nn.Linear):
            ids = torch.randn(longest, batch, embedding.in_features, generator=draws)
            lengths = lengths.clamp(min=1)  # no sequence of vectors is empty
        expected = {"log_probs": model.log_probs(ids, lengths)}
        yield Case.of("model", f"{batch} x {longest}", {"ids": ids, "lengths": lengths}, expected)
        partner = getattr(model, "partner", None)
        if isinstance(partner, ConvolutionClassifier):
            given = {"frames": ids, "lengths": lengths}
            answer = {"log_probs": partner.log_probs(ids, lengths)}
            yield Case.of(partner.part, f"{batch} x {longest}", given, answer)
        elif partner is not None:
            columns = torch.randint(0, len(partner.keys), (longest,), generator=draws)
            given = {"columns": columns, "values": torch.rand(longest, generator=draws)}
            answer = {"log_probs": partner.log_probs(*given.values())}
            yield Case.of("grams", f"{longest} n-grams", given, answer)
