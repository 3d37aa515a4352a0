"""Networks that predict hidden steps of a sequence from the steps on both sides, and their graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from throughtime.errors import InputError
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import check_probability
from throughtime.layers.stack import Stack
from throughtime.models.heads import SoftmaxHead
from throughtime.tasks.fill.config import FillConfig

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.fill.model import Filler


class MaskedModel(nn.Module, ABC):
    r"""A bidirectional stack, and a softmax at the hidden steps only.

    .. math:: P(x_t | \text{all but } t) = \text{softmax}(W (\overrightarrow{h}_t, \overleftarrow{h}_t) + b)

    `places` [N] are the hidden steps: step t of row b of B rows is t * B + b, counted from 0. This holds for
    x of shape [T, B, ...] and, with a `batch_first` stack, [B, T, ...]. Or `places` is a boolean mask of the
    first two dimensions of x, and the steps follow each other as in `x[places]`.

    The model hides them itself, in its input. So several layers leak nothing: what the second layer learns
    about step t from its neighbours comes from a first layer that has read the mask there, not the answer.

    With `beside`, a step is predicted from states and inputs on both sides of it, which have not read it:

    .. math:: P(x_t | \text{all but } t) =
        \text{softmax}(W U (\overrightarrow{h}_{t-1}, x_{t-1}, \overleftarrow{h}_{t+1}, x_{t+1}) + b)

    One pass then predicts any number of steps, `asked`, hidden or not. The stack must have one layer: a
    second one would read the answer in the neighbours' states. The inputs shorten the way of what the two
    neighbours say, which is most of what a model learns first.
    """

    def __init__(
        self, stack: Stack, head: SoftmaxHead, *, beside: bool = False, output_dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not stack.bidirectional:
            raise InputError("stack", "reads from one end only; build it with bidirectional=True")
        if beside and len(stack.layers) > 1:
            raise InputError("stack", f"has {len(stack.layers)} layers, expected 1 with beside=True")
        self.stack, self.beside = stack, beside
        width, own = head.weight.shape[1], stack.output_size + 2 * stack.input_size * beside
        self.projection = nn.Linear(own, width) if width != own else nn.Identity()
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))
        self.head = head

    @abstractmethod
    def hide(self, x: Tensor, places: Tensor) -> Tensor:
        """The sequences as vectors, in the layout of x, with the steps at `places` hidden."""

    def flat_places(self, x: Tensor, places: Tensor) -> Tensor:
        """The positions of the steps at `places` after flattening the first two dimensions of x."""
        if not self.stack.batch_first:
            return places
        rows, steps = x.shape[:2]
        return places % rows * steps + places // rows

    def _check_places(self, name: str, x: Tensor, places: Tensor) -> Tensor:
        """The numbers of some steps, given by these numbers or by a mask; others are refused."""
        shape = tuple(x.shape[:2])
        if places.dtype == torch.bool and places.shape == shape:
            first, second = places.nonzero(as_tuple=True)
            step, row = (second, first) if self.stack.batch_first else (first, second)
            return step * shape[0 if self.stack.batch_first else 1] + row
        if places.dtype not in (torch.int32, torch.int64) or places.dim() != 1:
            raise InputError(
                name,
                f"has shape {list(places.shape)} of {places.dtype}, expected [N] numbers of steps, or a "
                f"boolean mask {list(shape)}",
            )
        # To read them on another device makes the host wait; there, torch refuses these numbers itself,
        # unless `flat_places` turns them into others.
        if places.numel() and (places.device.type == "cpu" or self.stack.batch_first):
            last = shape[0] * shape[1] - 1
            if (wrong := places[(places < 0) | (places > last)]).numel():
                raise InputError(name, f"holds {int(wrong[0])}, expected numbers of steps from 0 to {last}")
        return places

    def forward(
        self, x: Tensor, places: Tensor, lengths: Tensor | None = None, asked: Tensor | None = None
    ) -> Tensor:
        """The input of the softmax at each hidden step, or at each step of `asked`, [N, H]."""
        places = self._check_places("places", x, places)
        vectors = self.hide(x, places)
        outputs = self.stack(vectors, None, lengths).outputs
        if self.beside:
            outputs = join_sides(vectors, outputs, lengths, time=int(self.stack.batch_first))
        elif asked is not None:
            raise InputError("asked", "needs a model with beside=True: the others read what is not hidden")
        asked = places if asked is None else self._check_places("asked", x, asked)
        rows = outputs.flatten(0, 1).index_select(0, self.flat_places(x, asked))
        return cast(Tensor, self.output_dropout(self.projection(rows)))

    def loss(
        self,
        x: Tensor,
        places: Tensor,
        labels: Tensor,
        lengths: Tensor | None = None,
        asked: Tensor | None = None,
    ) -> Tensor:
        """The sum of -ln P(label) over the hidden steps, or those of `asked`; labels are [N]."""
        return self.head.loss(self(x, places, lengths, asked), labels)

    def log_probs(self, x: Tensor, places: Tensor, lengths: Tensor | None = None) -> Tensor:
        """ln P of every class at the hidden steps, [N, V]."""
        return self.head.log_probs(self(x, places, lengths))


class MaskedTokens(MaskedModel):
    """Predicts hidden tokens in sequences of ids [T, B]; `mask_id`, the id of `[MASK]`, hides a token.

    >>> import torch
    >>> stack = Stack("gru", 8, 16, bidirectional=True)
    >>> model = MaskedTokens(nn.Embedding(30, 8), stack, SoftmaxHead(32, 30), mask_id=1)
    >>> ids = torch.randint(2, 30, (5, 3))
    >>> model.log_probs(ids, torch.tensor([4, 9])).shape     # of step 1 in row 1, and of step 3 in row 0
    torch.Size([2, 30])
    """

    def __init__(
        self,
        embedding: nn.Embedding,
        stack: Stack,
        head: SoftmaxHead,
        *,
        mask_id: int,
        beside: bool = False,
        embedding_dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__(stack, head, beside=beside, output_dropout=output_dropout)
        self.embedding, self.mask_id = embedding, mask_id
        self.embedding_dropout = nn.Dropout(check_probability("embedding_dropout", embedding_dropout))

    def hide(self, x: Tensor, places: Tensor) -> Tensor:
        """The vectors of the ids, with that of the mask at `places`."""
        masked = x.flatten().index_fill(0, self.flat_places(x, places), self.mask_id).view_as(x)
        return cast(Tensor, self.embedding_dropout(self.embedding(masked)))


class MaskedSteps(MaskedModel):
    """Predicts the class of hidden steps in sequences of vectors [T, B, F]; a hidden step is zeros.

    >>> import torch
    >>> model = MaskedSteps(Stack("lstm", 10, 16, bidirectional=True), SoftmaxHead(32, 10))
    >>> model.log_probs(torch.randn(5, 1, 10), torch.tensor([3])).shape
    torch.Size([1, 10])
    """

    def hide(self, x: Tensor, places: Tensor) -> Tensor:
        """The same vectors, with zeros at `places`."""
        return x.flatten(0, 1).index_fill(0, self.flat_places(x, places), 0.0).view_as(x)


def join_sides(inputs: Tensor, outputs: Tensor, lengths: Tensor | None = None, *, time: int = 0) -> Tensor:
    """Return for each step the output from the left and the input before it, then those after it.

    Beyond the ends there are zeros, as in a first state. `time` is the dimension of the steps, 0 or 1.

    >>> import torch
    >>> inputs, outputs = torch.tensor([[[7]], [[8]], [[9]]]), torch.tensor([[[1, 10]], [[2, 20]], [[3, 30]]])
    >>> join_sides(inputs, outputs).squeeze().tolist()
    [[0, 0, 20, 8], [1, 7, 30, 9], [2, 8, 0, 0]]
    """
    left, right = outputs.chunk(2, dim=-1)
    steps, other = outputs.shape[time], (0, 0) * (2 - time)
    if lengths is not None:
        inside = torch.arange(steps, device=inputs.device)[:, None] < lengths.to(inputs.device)
        inputs = torch.where((inside.t() if time else inside)[..., None], inputs, 0.0)
    before = pad(torch.cat([left, inputs], dim=-1), (*other, 1, 0)).narrow(time, 0, steps)
    after = pad(torch.cat([right, inputs], dim=-1), (*other, 0, 1)).narrow(time, 1, steps)
    return torch.cat([before, after], dim=-1)


def build_filler(config: FillConfig, vocabulary_size: int, *, mask_id: int) -> MaskedTokens:
    """Build the network that the settings describe, with Xavier initialisation.

    With `tied`, the embedding is also the weights of the softmax, and the states of both directions are
    projected to its size.
    """
    embedding = nn.Embedding(vocabulary_size, config.embedding_size)
    stack = config.build_stack(config.embedding_size, bidirectional=True)
    weight = cast(nn.Parameter, embedding.weight) if config.tied else None
    head = SoftmaxHead(
        config.embedding_size if config.tied else stack.output_size, vocabulary_size, weight=weight
    )
    dropouts = {"embedding_dropout": config.embedding_dropout, "output_dropout": config.output_dropout}
    beside = config.structure == "beside"
    return initialise_network_(
        MaskedTokens(embedding, stack, head, mask_id=mask_id, beside=beside, **dropouts)
    )


LAST = 2**31 - 1  # the end of any sequence
SHAPES = ((1, 3), (1, 50), (3, 7), (3, 40))


def build_export(filler: Filler) -> ModelExport:
    """The graph of a model that fills blanks, and the settings and files that its runner needs."""
    from throughtime.graphs.write import ModelExport

    model = filler.model
    return ModelExport(
        lambda int8: {"model": build_filler_graph(model, int8)},
        {"never": filler._never},
        filler.codec.save,
        lambda: _cases(model),
        'fill("I am ___.")[0].text',
    )


def build_filler_graph(model: MaskedTokens, int8: bool) -> Graph:
    """Ids [T, B], lengths [B], and places [N], each a step times B plus a row, to ln P [N, V]."""
    from throughtime.graphs.graph import Graph

    graph = Graph("filler", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    places = graph.input("places", "int64", ["places"])
    mask = graph.op("Expand", graph.axes(model.mask_id), graph.op("Shape", places))
    flat = graph.op("ScatterElements", graph.op("Reshape", ids, graph.axes(-1)), places, mask)
    vectors = graph.lookup(model.embedding.weight, graph.op("Reshape", flat, graph.op("Shape", ids)))
    outputs, _ = model.stack.graph(graph, vectors, None, lengths)
    if model.beside:
        inside = graph.op("Where", graph.inside(vectors, lengths), vectors, graph.constant(0.0))
        left, right = (graph.concat([side, inside]) for side in graph.split(outputs, 2))
        before = graph.slice(graph.op("Pad", left, graph.axes(1, 0, 0, 0, 0, 0)), 0, -1, axis=0)
        after = graph.slice(graph.op("Pad", right, graph.axes(0, 0, 0, 1, 0, 0)), 1, LAST, axis=0)
        outputs = graph.concat([before, after])
    width = model.stack.output_size + 2 * model.stack.input_size * model.beside
    rows = graph.op("Reshape", outputs, graph.axes(-1, width))
    asked = graph.op("Gather", rows, places)
    if isinstance(model.projection, nn.Linear):
        asked = graph.linear(asked, model.projection.weight, model.projection.bias)
    words = model.head.weight.shape[0]
    graph.output(model.head.graph_log_probs(graph, asked), "log_probs", "float32", ["places", words])
    return graph


@torch.inference_mode()
def _cases(model: MaskedTokens) -> Iterator[Case]:
    from throughtime.graphs.write import Case, draw_ragged

    draws = torch.Generator().manual_seed(0)
    for batch, longest in SHAPES:
        ids, lengths = draw_ragged(0, model.embedding.num_embeddings, longest, batch, draws, least=1)
        places = torch.tensor([0, (longest - 1) * batch])  # in the first row, which has no padding
        given = {"ids": ids, "lengths": lengths, "places": places}
        expected = {"log_probs": model.log_probs(ids, places, lengths)}
        yield Case.of("model", f"{batch} x {longest}", given, expected)
