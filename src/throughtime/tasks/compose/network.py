"""A language model that starts from a label or a vector, and its graphs.

This condition takes the place of the encoder of an `EncoderDecoder`; decoder and search stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import Ops
from throughtime.layers.embedding import initialise_network_
from throughtime.models.decoders import ContextDecoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import Bridge, Encoder, EncoderDecoder, EncoderOutput, GraphEncoded
from throughtime.tasks.compose.config import ComposeConfig

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.compose.model import Composer


class LabelCondition(Encoder):
    """A learned vector for each label; the source is the number of a label per row, [1, B]."""

    def __init__(self, labels: int, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(labels, size)
        self.output_size, self.state_sizes = size, (size,)

    def forward(self, source: Tensor, lengths: Tensor) -> EncoderOutput:
        """See `Encoder`."""
        return _wrap_condition(self.table(source), lengths)

    def graph(self, ops: Ops, source: str, lengths: str) -> GraphEncoded:
        """See `Encoder`."""
        return _wrap_graph_condition(ops, ops.lookup(self.table.weight, source), lengths)


class VectorCondition(Encoder):
    """tanh(W v + b) of a standardised vector v; the source is one vector per row, [1, B, width].

    `mean` and `scale` come from the training data and are saved with the weights.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, size)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.output_size, self.state_sizes = size, (size,)

    @torch.no_grad()
    def standardise(self, vectors: Tensor) -> None:
        """Set mean and scale from these vectors [N, width]; a component that never varies keeps its scale."""
        spread = vectors.double().std(0, correction=0)
        self.mean.copy_(vectors.double().mean(0))
        self.scale.copy_(torch.where(spread > 0, spread, 1.0))

    def forward(self, source: Tensor, lengths: Tensor) -> EncoderOutput:
        """See `Encoder`."""
        return _wrap_condition(torch.tanh(self.projection((source - self.mean) / self.scale)), lengths)

    def graph(self, ops: Ops, source: str, lengths: str) -> GraphEncoded:
        """See `Encoder`."""
        centred = ops.op("Sub", source, ops.weight(self.mean))
        standard = ops.op("Div", centred, ops.weight(self.scale))
        projected = ops.linear(standard, self.projection.weight, self.projection.bias)
        return _wrap_graph_condition(ops, ops.op("Tanh", projected), lengths)


def _wrap_condition(vectors: Tensor, lengths: Tensor) -> EncoderOutput:
    """A condition [1, B, H] in the form of an encoder's output."""
    final = vectors.squeeze(0)  # unlike an index, its gradient needs no zeros to be put into
    return EncoderOutput(vectors, (final,), final, lengths)


def _wrap_graph_condition(ops: Ops, vectors: str, lengths: str) -> GraphEncoded:
    """The same in a graph."""
    final = ops.op("Squeeze", vectors, ops.axes(0))
    return GraphEncoded(vectors, (final,), final, lengths)


class ConditionedLanguageModel(EncoderDecoder):
    """P(text given a condition), token by token; the prompts of a search are conditions."""

    encoder: LabelCondition | VectorCondition

    def conditions(self, given: Sequence[Sequence[float]]) -> Tensor:
        """Numbers of labels, such as [[3], ...], or vectors as a source: [1, B] or [1, B, width]."""
        device = next(self.parameters()).device
        if isinstance(self.encoder, LabelCondition):
            return torch.tensor([one[0] for one in given], dtype=torch.long, device=device)[None]
        return torch.tensor([list(one) for one in given], device=device)[None]

    def prepare(self, prompts: Sequence[Sequence[float]]) -> tuple[Tensor, Tensor]:
        """Arrange the conditions as a source of one step."""
        source = self.conditions(prompts)
        return source, torch.ones(len(prompts), dtype=torch.long, device=source.device)


def build_composer(
    config: ComposeConfig, condition: LabelCondition | VectorCondition, vocabulary_size: int, *, bos_id: int
) -> ConditionedLanguageModel:
    """Build the network that the settings describe, with Xavier initialisation.

    The condition gives the first state of every layer and, with `fed`, is an input at each step too. With
    `tied`, the embedding is also the weights of the output layer, and its size is `hidden_size`.

    >>> model = build_composer(ComposeConfig(data="", hidden_size=16), LabelCondition(3, 8), 20, bos_id=1)
    >>> labels, texts = torch.tensor([[0, 2]]), torch.ones(5, 2, dtype=torch.long)
    >>> model.log_probs(labels, torch.ones(2), texts).shape
    torch.Size([5, 2, 20])
    """
    embedding = nn.Embedding(vocabulary_size, config.hidden_size if config.tied else config.embedding_size)
    stack = config.build_stack(embedding.embedding_dim + (condition.output_size if config.fed else 0))
    decoder = ContextDecoder(
        stack,
        embedding,
        context="last" if config.fed else None,
        context_size=condition.output_size,
        bridge=Bridge(condition.state_sizes, stack.state_sizes),
        dropout=config.embedding_dropout,
        output_dropout=config.output_dropout,
    )
    weight = cast(nn.Parameter, embedding.weight) if config.tied else None
    head = SoftmaxHead(stack.output_size, vocabulary_size, weight=weight)
    return initialise_network_(ConditionedLanguageModel(condition, decoder, head, bos_id=bos_id))


SHAPES = ((1, 1), (1, 5), (3, 2))
"""The numbers of conditions and of texts for each at which an export is checked."""


def build_export(composer: Composer) -> ModelExport:
    """The graphs of a composer, and the settings and files that its runner needs."""
    from throughtime.graphs.write import ModelExport

    model = composer.model
    return ModelExport(
        lambda int8: {
            "encoder": build_condition_graph(model, int8),
            "decoder": build_step_graph(model, int8),
        },
        {
            "begin_id": model.bos_id,
            "end_id": composer.specials.eos_id,
            "barred": composer.barred,
            "labels": None if composer.labels is None else list(composer.labels.names),
            "width": composer.width,
            "generation": dict(composer.generation),
        },
        composer.codec.save,
        lambda: _cases(model),
        composer.describe().python,
    )


def build_condition_graph(model: ConditionedLanguageModel, int8: bool) -> Graph:
    """The numbers of labels [1, S], or vectors [1, S, width], to the first state and what is kept."""
    from throughtime.graphs.graph import Graph
    from throughtime.tasks.decoder_graphs import add_start, describe_memory

    graph = Graph("encoder", int8=int8)
    if isinstance(model.encoder, VectorCondition):
        source = graph.input("source", "float32", [1, "sentences", len(model.encoder.mean)])
    else:
        source = graph.input("source", "int64", [1, "sentences"])
    add_start(graph, model, source, "", describe_memory(model, _draw(model, torch.Generator())))
    return graph


def build_step_graph(model: ConditionedLanguageModel, int8: bool) -> Graph:
    """The last tokens [rows], the state and what is kept, to ln P [rows, V] and the next state."""
    from throughtime.graphs.graph import Graph
    from throughtime.tasks.decoder_graphs import add_step, describe_memory

    graph, shapes = Graph("decoder", int8=int8), describe_memory(model, _draw(model, torch.Generator()))
    stepped = add_step(graph, model, shapes)
    log_probs = model.head.graph_log_probs(graph, stepped.output)
    graph.output(log_probs, "log_probs", "float32", ["rows", "vocabulary"])
    graph.state_outputs("next", stepped.state, shapes.sizes, "rows")
    return graph


def _draw(model: ConditionedLanguageModel, draws: torch.Generator) -> list[float]:
    """A condition by chance."""
    encoder = model.encoder
    if isinstance(encoder, VectorCondition):
        chance = torch.randn(len(encoder.mean), generator=draws)
        return [float(one) for one in encoder.mean.cpu() + encoder.scale.cpu() * chance]
    return [int(torch.randint(encoder.table.num_embeddings, (), generator=draws))]


def _cases(model: ConditionedLanguageModel) -> Iterator[Case]:
    from throughtime.graphs.write import Case
    from throughtime.tasks.decoder_graphs import check_start

    draws, words = torch.Generator().manual_seed(0), cast(ContextDecoder, model.decoder).embedding
    assert words is not None
    for count, each in SHAPES:
        source, lengths = model.prepare([_draw(model, draws) for _ in range(count)])
        started, case = check_start(model, source, lengths, each, words.num_embeddings, draws)
        yield Case.of("encoder", f"{count} conditions", {"source": source}, started)
        expected = {"log_probs": case.step.log_probs, **case.reached}
        yield Case.of("decoder", f"{count} conditions, {each} texts each", case.inputs, expected)
