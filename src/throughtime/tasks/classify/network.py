"""The network of a classifier and its graph: embedding, recurrent layers, pooling, a softmax over labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from throughtime.cells.base import Ops
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import check_probability
from throughtime.layers.pooling import POOLINGS, Pooling
from throughtime.models.convolutions import ConvolutionClassifier
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.linear_classifier import OPERATIONS, Partner, SparseRows, fit_chosen
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.text.grams import HASH, Grams

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.classify.model import Classifier


class GramClassifier(Partner):
    """A linear softmax over the n-grams of words and letters of a text, beside the network."""

    name, title = "grams", "n-grams of letters and words"
    constants = ("keys", "rarity", "mixture")
    keys: Tensor
    rarity: Tensor

    def __init__(self, grams: int, labels: int) -> None:
        super().__init__(grams, labels)
        self.register_buffer("keys", torch.full((grams,), HASH))
        self.register_buffer("rarity", torch.zeros(grams))

    @property
    def inputs(self) -> Mapping[str, tuple[str, list[str | int]]]:
        """The numbers of the n-grams of one text, and their weights."""
        return {"columns": ("int64", ["grams"]), "values": ("float32", ["grams"])}

    @property
    def grams(self) -> Grams:
        """The n-grams that it knows."""
        return Grams(self.keys.cpu().numpy(), self.rarity.cpu().numpy())

    @torch.no_grad()
    def learn(self, sequences: Sequence[Any], labels: Sequence[int], seed: int, effort: float) -> None:
        """Collect the n-grams of texts and fit their weights."""
        known, numbers = Grams.of(sequences, len(self.keys)), torch.tensor(labels)
        self.bias[:] = (torch.bincount(numbers, minlength=len(self.bias)) + 0.1).log()
        if count := len(known.keys):
            rows = SparseRows.of([known.read(text) for text in sequences], count)
            fitted = fit_chosen(rows, numbers, len(self.bias), seed=seed, operations=effort * OPERATIONS)
            self.keys[:count] = torch.from_numpy(known.keys)
            self.rarity[:count] = torch.from_numpy(known.rarity)
            self.weight[:count], self.bias[:] = fitted.weight, fitted.bias

    def score(self, *given: Tensor) -> Tensor:
        """See `Partner`."""
        columns, values = given
        return (values @ self.weight[columns])[None]

    def graph(self, ops: Ops, *given: str) -> str:
        """See `Partner`."""
        columns, values = given
        rows = ops.lookup(self.weight, columns)
        return ops.op("MatMul", ops.op("Unsqueeze", values, ops.axes(0)), rows)

    def draw(self, size: int, batch: int, draws: torch.Generator) -> list[Tensor]:
        """See `Partner`."""
        columns = torch.randint(0, len(self.keys), (size,), generator=draws)
        return [columns, torch.rand(size, generator=draws)]


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
    partner: Partner | None = None
    if vectors is None and config.grams:
        partner = GramClassifier(config.grams, labels)
    elif vectors is not None and config.convolutions:
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
    return ModelExport(
        lambda int8: {
            "model": build_classifier_graph(model, int8),
            **({} if partner is None else {partner.name: build_partner_graph(partner, int8)}),
        },
        {"labels": list(classifier.labels.names), "max_length": classifier.config.max_length},
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
    """The graph of what stands beside the network, which also gives its constants."""
    from throughtime.graphs.graph import Graph

    graph = Graph(partner.name, int8=int8)
    scores = partner.graph(graph, *(graph.input(name, *form) for name, form in partner.inputs.items()))
    answer = graph.op("LogSoftmax", graph.op("Add", scores, graph.weight(partner.bias)), axis=-1)
    graph.output(answer, "log_probs", "float32", ["batch", len(partner.bias)])
    for name in partner.constants:
        tensor = partner.get_buffer(name)
        kind = str(tensor.dtype).removeprefix("torch.")
        graph.output(graph.constant(tensor.cpu().numpy(), kind), name, kind, [len(tensor)])
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
        if (partner := getattr(model, "partner", None)) is not None:
            given = partner.draw(longest, batch, draws)
            answer = {"log_probs": partner.log_probs(*given)}
            named = dict(zip(partner.inputs, given, strict=True))
            yield Case.of(partner.name, f"{batch} x {longest}", named, answer)
