"""The recurrent language model: an embedding, a stack of cells, a softmax over the next token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pad_sequence

from throughtime.cells.base import Cell, Ops, State
from throughtime.errors import InputError, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.layers.embedding import OneHotEmbedding
from throughtime.layers.layer import build_cell, check_probability, embedding_dropout, sequence_dropout
from throughtime.layers.stack import Stack
from throughtime.models.heads import HEADS, Head, SoftmaxHead
from throughtime.models.widths import layer_widths
from throughtime.recurrence.backpropagation import scan_sliding
from throughtime.search.generate import Memory, Step
from throughtime.search.step_model import ScoringModel

NOTHING = -1
"""The input before the first token of a text without a beginning mark: a vector of zeros that does not change
the state, so that the first token is read as in training."""
STEPS_AT_ONCE = 256
ROWS_AT_ONCE = 64


class LayerOutputs(NamedTuple):
    """The outputs of the layers [T, B, H], the same after dropout, and the last state."""

    outputs: Tensor
    dropped: Tensor
    state: State


class RecurrentLanguageModel(nn.Module, ScoringModel):
    r"""P(x_t given all tokens before it), with a state that summarises them.

    .. math:: h_t = \text{layers}(E x_{t-1}, h_{t-1}), \quad P(x_t | x_{<t}) = \text{softmax}(W h_t + b)

    `embedding="one-hot"` feeds the one-hot vectors themselves, so that E is the identity and has no weights.
    `tied` makes W the table E itself; the last layer is then as wide as an embedding, unless there are
    several `experts` (see `MixtureHead`). `last_size` is the width of the last layer, if it differs. Dropout
    applies to whole words (`embedding_dropout`), to the inputs of the first layer (`input_dropout`), of the
    other layers (`hidden_dropout`), of the head (`output_dropout`) and of its experts (`expert_dropout`), and
    to recurrent weights (`weight_drop`); `variational` keeps one mask over time.

    >>> model = RecurrentLanguageModel(28, cell="gru", embedding_size=16, hidden_size=32, num_layers=2)
    >>> outputs, _, state = model(torch.zeros(5, 3, dtype=torch.long))
    >>> outputs.shape, [tuple(part.shape) for part in state]
    (torch.Size([5, 3, 16]), [(3, 32), (3, 16)])
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        cell: str = "lstm",
        embedding_size: int = 256,
        hidden_size: int = 256,
        num_layers: int = 1,
        tied: bool = True,
        embedding: str = "learned",
        head: str = "softmax",
        experts: int = 1,
        last_size: int | None = None,
        embedding_dropout: float = 0.0,
        input_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        output_dropout: float = 0.0,
        expert_dropout: float = 0.0,
        weight_drop: float = 0.0,
        variational: bool = False,
        residual: bool = False,
        layer_norm: bool = False,
        initial: str = "zero",
    ) -> None:
        super().__init__()
        check_whole("num_layers", num_layers)
        if embedding == "one-hot":
            if tied:
                raise InputError("tied", "needs a learned embedding, whose weights it shares; set tied=false")
            self.embedding: nn.Embedding | OneHotEmbedding = OneHotEmbedding(vocabulary_size)
            embedding_size = vocabulary_size
        else:
            self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        sizes = layer_widths(
            embedding_size, hidden_size, num_layers, tied=tied, experts=experts, last_size=last_size
        )
        self.stack = Stack.of(
            _cells(cell, embedding_size, sizes, initial),
            dropout=hidden_dropout,
            variational=variational,
            weight_drop=weight_drop,
            residual=residual,
            layer_norm=layer_norm,
        )
        self.head = _head(
            head, self.stack.output_size, self.embedding, tied, experts, expert_dropout, variational
        )
        self.embedding_dropout = check_probability("embedding_dropout", embedding_dropout)
        self.input_dropout = check_probability("input_dropout", input_dropout)
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.variational, self.vocabulary_size = variational, vocabulary_size

    def initial_state(self, batch: int) -> State:
        """Return the state before the first token."""
        return self.stack.initial_state(batch)

    def forward(
        self,
        ids: Tensor,
        state: State | None = None,
        carry: Tensor | None = None,
        *,
        sliding: int | None = None,
    ) -> LayerOutputs:
        """Read ids [T, B]; the output at t depends on all ids up to and including t.

        Ids [B, T] are read as `model(ids.T)`, and `.outputs.transpose(0, 1)` has the batch first again.
        `carry` and `sliding` only affect gradients: see `carries` and `scan_sliding`.
        """
        x = self._drop(self.embed(ids), self.input_dropout)
        if sliding is None:
            outputs, last = self.stack(x, state, carry=carry)
        else:
            begin = self.initial_state(ids.shape[1]) if state is None else state
            outputs, last = scan_sliding(self.stack, x, begin, sliding)
        return LayerOutputs(outputs, self._drop(outputs, self.output_dropout), last)

    def prepare(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Arrange the prompts: the last token of each, and those before it [T, B] with their number."""
        if self.stack.refuses_generation is not None:
            raise InputError("generate", self.stack.refuses_generation)
        last = torch.tensor([prompt[-1] if prompt else NOTHING for prompt in prompts])
        ids = pad_sequence([torch.tensor([*prompt[:-1]], dtype=torch.long) for prompt in prompts])
        return last, ids, torch.tensor([max(0, len(prompt) - 1) for prompt in prompts])

    def read(self, last: Tensor, ids: Tensor, lengths: Tensor) -> tuple[Tensor, State, Memory]:
        """Read all tokens of each prompt but the last, which is the first input of the search."""
        device = self.embedding.weight.device
        state = self.initial_state(len(last))
        for first in range(0, len(ids), STEPS_AT_ONCE):
            check_interrupt()
            piece = ids[first : first + STEPS_AT_ONCE].to(device)
            within = (lengths - first).clamp(0, len(piece))
            state = self.stack(self.embed(piece), state, within).state
        return last.to(device), state, Memory.empty(len(last), device)

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return ln P of every next token, [rows, V]."""
        outputs, reached = self.stack.step(self.embed(last), state)
        real = (last != NOTHING)[:, None]
        states = tuple(torch.where(real, new, old) for new, old in zip(reached, state, strict=True))
        return Step(self.head.log_probs(outputs), states)

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """The modules that `step` reads."""
        return (self,)

    @torch.inference_mode()
    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float64]]:
        """Return ln P of every id given those before it, piece by piece to save memory."""
        results: list[npt.NDArray[np.float64]] = [np.zeros(0)] * len(sequences)
        order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
        for first in range(0, len(order), ROWS_AT_ONCE):
            chosen = order[first : first + ROWS_AT_ONCE]
            rows = self._surprisals([sequences[i] for i in chosen])
            for i, row in zip(chosen, rows, strict=True):
                results[i] = -row[: len(sequences[i])].astype(np.float64)
        return results

    def _surprisals(self, sequences: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        device = self.embedding.weight.device
        labels = pad_sequence([torch.tensor([*ids], dtype=torch.long) for ids in sequences])  # [T, B]
        nothing = torch.full_like(labels[:1], NOTHING)
        pieces = zip(labels[:-1].split(STEPS_AT_ONCE), labels[1:].split(STEPS_AT_ONCE), strict=True)
        state = self.initial_state(len(sequences))
        parts = [torch.zeros(0, len(sequences))]
        for x, y in [(nothing, labels[:1]), *pieces]:
            if not len(x):
                continue
            check_interrupt()
            read = self(x.to(device), state)
            state = state if x is nothing else read.state
            surprisals = self.head.surprisals(read.outputs.flatten(0, 1), y.flatten().to(device))
            parts.append(surprisals.view(y.shape).cpu())
        return torch.cat(parts).T.numpy()

    def embed(self, ids: Tensor) -> Tensor:
        """Return the vectors of ids; NOTHING is zeros."""
        table = self.embedding
        # Only the trainer asks for a gradient of some rows; others expect that of the whole table.
        rows_only = self.training and table.sparse
        vectors = embedding(ids.clamp(min=0), table.weight, sparse=rows_only)
        if self.training:
            # Batches hold real tokens only. Dropping words here avoids a pass over the whole table.
            return embedding_dropout(vectors, ids, self.vocabulary_size, self.embedding_dropout)
        return vectors * (ids >= 0)[..., None]

    def graph_embed(self, ops: Ops, ids: str) -> str:
        """Return vectors of ids [T, B] in a graph; NOTHING is zeros."""
        zero = ops.constant(0, "int64")
        real = ops.op("Unsqueeze", ops.op("GreaterOrEqual", ids, zero), ops.axes(-1))
        vectors = ops.lookup(self.embedding.weight, ops.op("Max", ids, zero))
        return ops.op("Where", real, vectors, ops.constant(0.0))

    def _drop(self, x: Tensor, p: float) -> Tensor:
        return sequence_dropout(x, p, self.training, self.variational)


def _cells(name: str, input_size: int, sizes: Sequence[int], initial: str) -> list[Cell]:
    cells: list[Cell] = []
    for size in sizes:
        width = cells[-1].output_size if cells else input_size
        cells.append(build_cell(name, width, size, initial=initial))
    return cells


def _head(
    name: str,
    hidden_size: int,
    embedding: nn.Embedding | OneHotEmbedding,
    tied: bool,
    experts: int,
    dropout: float,
    variational: bool,
) -> Head:
    vocabulary_size = embedding.num_embeddings
    weight = cast(nn.Parameter, embedding.weight) if tied else None
    if dropout and experts == 1:
        raise InputError(
            "expert_dropout", f"is {dropout}, but there is only one expert; set experts to 2 or more"
        )
    if name == "softmax":
        if experts == 1:
            return SoftmaxHead(hidden_size, vocabulary_size, weight=weight)
        from throughtime.models.other_heads import MixtureHead

        return MixtureHead(
            hidden_size,
            vocabulary_size,
            experts=experts,
            width=embedding.embedding_dim,
            weight=weight,
            dropout=dropout,
            variational=variational,
        )
    build = HEADS[name]
    if tied:
        raise InputError("tied", f"is not possible with the {name} head; set tied=false")
    if experts > 1:
        raise InputError("experts", f"is {experts}, but the {name} head has no experts; set head=softmax")
    return build(hidden_size, vocabulary_size)


class FrozenReader:
    """The states of a frozen language model at the end of each word.

    It is not a module on purpose: the optimiser and the checkpoints of the model that uses it need not hold
    its weights. It moves to the device of its input.

    >>> model = RecurrentLanguageModel(28, embedding_size=16)
    >>> ids, places = torch.zeros(9, 2, dtype=torch.long), torch.tensor([[3, 2], [8, 0]])
    >>> FrozenReader(model)(ids, places).shape
    torch.Size([2, 2, 16])
    """

    def __init__(self, model: RecurrentLanguageModel) -> None:
        self.model = model.eval().requires_grad_(False)
        self.output_size = model.stack.output_size

    @torch.no_grad()
    def __call__(self, ids: Tensor, places: Tensor) -> Tensor:
        """Read ids [R, B] and keep the outputs at `places` [T, B]: [T, B, H]."""
        if self.model.embedding.weight.device != ids.device:
            self.model.to(ids.device)
        state = self.model.initial_state(ids.shape[1])
        features = torch.zeros(*places.shape, self.output_size, device=ids.device)
        # Piece by piece, so that long sentences need no more memory than their words.
        for first in range(0, len(ids), STEPS_AT_ONCE):
            outputs, _, state = self.model(ids[first : first + STEPS_AT_ONCE], state)
            step = places - first
            here = ((step >= 0) & (step < len(outputs)))[..., None]
            chosen = step.clamp(0, len(outputs) - 1)[..., None].expand(-1, -1, outputs.shape[2])
            features = torch.where(here, outputs.gather(0, chosen).float(), features)
        return features
