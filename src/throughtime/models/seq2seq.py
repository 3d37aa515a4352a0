"""Encoder and decoder: read one sequence into states, write another one from them.

A custom encoder or decoder is a subclass with one or two methods; `EncoderDecoder` turns any pair into a step
model for every search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from throughtime.cells.base import GraphState, Ops, State
from throughtime.cells.graph import no_graph
from throughtime.errors import InputError, check_number
from throughtime.models.heads import Head
from throughtime.runtime.search import LENGTH_STEP
from throughtime.search.generate import Memory, Step
from throughtime.search.step_model import StepModel

DecoderMemory = tuple[Tensor, ...]
"""What stays the same while a sentence is decoded: each tensor [sentences, ...]."""
T = TypeVar("T", Tensor, str)


class EncoderOutput(NamedTuple):
    """The result of an encoder."""

    outputs: Tensor  # [T, B, H], zero past each row's length
    state: State  # the last state, flat, layer by layer; both directions concatenated in each tensor
    final: Tensor  # [B, H], the last output of the top layer, of each direction at its own end
    lengths: Tensor  # [B]


class DecoderOutput(NamedTuple):
    """The result of a decoder for one step, [rows, H], or for a whole target, [L, B, H]."""

    outputs: Tensor
    state: State
    extras: Mapping[str, Tensor] = {}  # attention: [rows, T], or [L, B, T]


class GraphEncoded(NamedTuple):
    """`EncoderOutput` in a graph."""

    outputs: str
    state: GraphState
    final: str
    lengths: str


class GraphDecoded(NamedTuple):
    """One step of a decoder in a graph."""

    output: str  # [rows, H]
    state: GraphState
    attention: str | None = None  # [rows, T]


class Encoder(nn.Module, ABC):
    """Reads source ids [T, B] of given lengths. With `graph` it can be exported."""

    output_size: int
    state_sizes: tuple[int, ...]

    @abstractmethod
    def forward(self, source: Tensor, lengths: Tensor) -> EncoderOutput:
        """Return outputs of all steps and the last state."""

    def graph(self, ops: Ops, source: str, lengths: str) -> GraphEncoded:
        """`forward` in a graph."""
        raise no_graph(self, "graph")


class Decoder(nn.Module, ABC):
    """Writes a target, one token at a time, from the result of an encoder.

    With `graph_start` and `graph_step` it can be exported.
    """

    output_size: int
    attends = False
    """Whether each step has attention, as `extras["attention"]`."""
    recordable = True
    """Whether `step` is a function of its arguments and the weights alone. On a GPU a search then records it
    once and replays it; a decoder that counts its steps or reads other values must set this to False."""

    @abstractmethod
    def start(self, encoded: EncoderOutput) -> tuple[State, DecoderMemory]:
        """Return the first state, and what is kept per sentence while it is decoded."""

    @abstractmethod
    def step(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read one token per row, [rows]; the rows of a sentence are adjacent and share `memory.kept`."""

    def run(self, inputs: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read a whole target, [L, B], one row per sentence; by default step by step."""
        steps: list[DecoderOutput] = []
        for last in inputs:
            steps.append(self.step(last, state, memory))
            state = steps[-1].state
        return _stack_steps(steps)

    def graph_start(self, ops: Ops, encoded: GraphEncoded) -> tuple[GraphState, GraphState]:
        """`start` in a graph."""
        raise no_graph(self, "graph_start")

    def graph_step(self, ops: Ops, last: str, state: GraphState, kept: GraphState) -> GraphDecoded:
        """`step` in a graph; each sentence has the same number of rows."""
        raise no_graph(self, "graph_step")


class DecodingModel(StepModel):
    """A step model that ends with an output layer, and can compute its input alone."""

    head: Head

    def decode(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Feed one token per row; return what the head reads, [rows, H]."""
        raise NotImplementedError

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return ln P of every next token, [rows, V]."""
        outputs, reached, extras = self.decode(last, state, memory)
        return Step(self.head.log_probs(outputs), reached, extras)

    def step_scores(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return what the head's softmax is computed from."""
        outputs, reached, extras = self.decode(last, state, memory)
        return Step(self.head.scores(outputs), reached, extras)


class EncoderDecoder(nn.Module, DecodingModel):
    """An encoder, a decoder and a head over the target's vocabulary.

    The prompts of a search are source sentences as ids; the target begins with `bos_id`.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head, *, bos_id: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head, self.bos_id = encoder, decoder, head, bos_id

    @property
    def attends(self) -> bool:
        """Whether the decoder has attention."""
        return self.decoder.attends

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[State, Memory]:
        """Read sources [T, B]: the state that the decoder begins with, and the memory of each sentence."""
        state, memory = self.decoder.start(self.encoder(source, lengths))
        return state, Memory(memory, torch.arange(source.shape[1], device=source.device))

    def forward(self, source: Tensor, lengths: Tensor, inputs: Tensor) -> DecoderOutput:
        """Teacher forcing: the decoder's outputs [L, B, H] for target inputs [L, B]."""
        state, memory = self.encode(source, lengths)
        return self.decoder.run(inputs, state, memory)

    def run_scheduled(
        self, source: Tensor, lengths: Tensor, inputs: Tensor, ratio: float | Tensor
    ) -> DecoderOutput:
        """Teacher forcing with this probability, drawn for each row and step (Bengio et al., 2015).

        Otherwise a row reads its own prediction, the likeliest token. With a ratio of 1 this is `forward`;
        the first token is always the given one. A ratio in a tensor is not checked, so that the host does not
        wait for the device.
        """
        if not isinstance(ratio, Tensor):
            check_number("teacher forcing ratio", ratio, 0, 1)
            if ratio == 1:
                return self(source, lengths, inputs)  # type: ignore[no-any-return]
        state, memory = self.encode(source, lengths)
        steps: list[DecoderOutput] = []
        forced = torch.rand(inputs.shape, device=inputs.device) < ratio
        for t, reference in enumerate(inputs):
            if t > 0:
                reference = torch.where(forced[t], reference, self._predict(steps[-1].outputs))
            steps.append(self.decoder.step(reference, state, memory))
            state = steps[-1].state
        return _stack_steps(steps)

    def log_probs(
        self, source: Tensor, lengths: Tensor, inputs: Tensor, *, batch_first: bool = False
    ) -> Tensor:
        """Return ln P of every token at each step of a target, [L, B, V]; with `batch_first` [B, L, V]."""
        if batch_first:
            return self.log_probs(source.T, lengths, inputs.T).transpose(0, 1)
        outputs: Tensor = self(source, lengths, inputs).outputs
        log_probs = self.head.log_probs(outputs.flatten(0, 1))
        return log_probs.view(*outputs.shape[:2], -1)

    def prepare(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Arrange the sources in a tensor [T, B], with their lengths [B], on the host."""
        lengths = np.array([len(ids) for ids in prompts], dtype=np.int64)
        # On a GPU a search is recorded for each length of the longest source, so there are few of them.
        step = LENGTH_STEP if next(self.parameters()).is_cuda else 1
        longest = -(-int(lengths.max()) // step) * step
        source = np.zeros((len(prompts), longest), dtype=np.int64)
        source[np.arange(longest) < lengths[:, None]] = [*chain.from_iterable(prompts)]
        return torch.from_numpy(source.T.copy()), torch.from_numpy(lengths)

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, State, Memory]:
        """Read the sources, wherever they are; every target begins with the same token."""
        device = next(self.parameters()).device
        state, memory = self.encode(source.to(device), lengths)
        return torch.full((len(lengths),), self.bos_id, device=device), state, memory

    def decode(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Feed one token per row; return what the head reads, [rows, H]."""
        return self.decoder.step(last, state, memory)

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """The modules that `step` reads, if the decoder can be recorded."""
        return (self.decoder, self.head) if self.decoder.recordable else ()

    @property
    def reading_modules(self) -> Sequence[nn.Module]:
        """The modules that `read` reads, if the decoder can be recorded."""
        return (self,) if self.decoder.recordable else ()

    @torch.no_grad()
    def _predict(self, outputs: Tensor) -> Tensor:
        return self.head.log_probs(outputs).argmax(dim=1)


def _stack_steps(steps: Sequence[DecoderOutput]) -> DecoderOutput:
    """Stack the outputs of all steps; the state is that of the last one."""
    extras = {name: torch.stack([step.extras[name] for step in steps]) for name in steps[0].extras}
    return DecoderOutput(torch.stack([step.outputs for step in steps]), steps[-1].state, extras)


class Bridge(nn.Module):
    """The encoder's state itself if its sizes are the decoder's; otherwise tanh(W s + b) for each tensor.

    If the two have different numbers of tensors (other cells, other depths), each tensor of the decoder is
    computed from all those of the encoder. Without `project`, different sizes are refused.

    >>> bridge = Bridge((512, 512), (300, 300))
    >>> [tuple(part.shape) for part in bridge((torch.zeros(2, 512), torch.zeros(2, 512)))]
    [(2, 300), (2, 300)]
    """

    def __init__(
        self, encoder_sizes: Sequence[int], decoder_sizes: Sequence[int], *, project: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.pairwise = len(encoder_sizes) == len(decoder_sizes)
        if tuple(encoder_sizes) == tuple(decoder_sizes):
            return
        if not project:
            raise InputError(
                "bridge",
                f"the encoder's state has sizes {list(encoder_sizes)} (both directions together), but the "
                f"decoder's {list(decoder_sizes)}; make them equal, or allow a bridge between them",
            )
        widths = encoder_sizes if self.pairwise else [sum(encoder_sizes)] * len(decoder_sizes)
        self.layers.extend(nn.Linear(*sizes) for sizes in zip(widths, decoder_sizes, strict=True))

    def forward(self, state: State) -> State:
        """Return the decoder's first state."""
        return self._map(state, partial(torch.cat, dim=-1), lambda layer, values: torch.tanh(layer(values)))

    def graph(self, ops: Ops, state: GraphState) -> GraphState:
        """`forward` in a graph."""

        def project(layer: nn.Linear, values: str) -> str:
            return ops.op("Tanh", ops.linear(values, layer.weight, layer.bias))

        return self._map(state, ops.concat, project)

    def _map(
        self, state: tuple[T, ...], join: Callable[[tuple[T, ...]], T], project: Callable[[nn.Linear, T], T]
    ) -> tuple[T, ...]:
        if not self.layers:
            return state
        layers = cast(list[nn.Linear], list(self.layers))
        if not self.pairwise:
            state = (state[0] if len(state) == 1 else join(state),) * len(layers)
        return tuple(map(project, layers, state))
