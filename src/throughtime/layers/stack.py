"""A stack of recurrent layers, in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor, nn

from throughtime.accelerate import lay_out_weights
from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.errors import InputError, check_whole
from throughtime.layers.layer import (
    Builder,
    Layer,
    build_cell,
    check_probability,
    graph_norm,
    list_bare_cells,
    sequence_dropout,
)
from throughtime.recurrence.backend import Result
from throughtime.recurrence.choice import are_alike, prefers_one_call
from throughtime.recurrence.scan import run_single, scan, scan_layers
from throughtime.recurrence.steps import AlikeRows

if TYPE_CHECKING:
    from throughtime.cells.exchange import TorchRecurrence


class Stack(nn.Module):
    """Layers of any cell, each reading the outputs of the one below it.

    `cell` is a name of `CELLS`, or a callable that builds a cell from an input size and a hidden size, such
    as a class. A cell of your own needs only `__init__` with these two sizes, `project` and `step`. For a
    cell with options give a function: `functools.partial(tt.GRU, reset="before")`.

    - `bidirectional`: a second cell in each layer reads from the right; the outputs of both are concatenated.
    - `dropout` of the inputs of every layer but the first, in training; `variational` keeps one mask over
      time.
    - `weight_drop`: the share of recurrent weights that each scan drops, in training.
    - `residual` adds a layer's input to its output if both have the same width.
    - `layer_norm` normalises the outputs of a layer (after the residual sum). Not its inputs: a series with
      one value per step would be normalised to a constant.
    - `initial`: the first state is "zero" or "learned"; `forward` takes a state to continue from.
    - `batch_first`: inputs and outputs are [batch, time, features]; states are [batch, units] in any case.

    The state is one flat tuple: layer by layer, and within a layer first from the left, then from the right.

    >>> stack = Stack("lstm", 16, 32, num_layers=2, dropout=0.2)
    >>> y, state = stack(torch.zeros(7, 3, 16))
    >>> y.shape, [tuple(part.shape) for part in state]
    (torch.Size([7, 3, 32]), [(3, 32), (3, 32), (3, 32), (3, 32)])
    """

    def __init__(
        self,
        cell: Builder,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        variational: bool = False,
        weight_drop: float = 0.0,
        residual: bool = False,
        layer_norm: bool = False,
        initial: str = "zero",
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        check_whole("num_layers", num_layers)
        layers: list[Layer] = []
        for _ in range(num_layers):
            width = layers[-1].output_size if layers else input_size
            cells = [build_cell(cell, width, hidden_size, initial=initial) for _ in range(1 + bidirectional)]
            layers.append(Layer(*cells, weight_drop=weight_drop))
            if layers[-1].input_size != width:
                raise InputError("cells", f"one reads {layers[-1].input_size} values but gets {width}")
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.LayerNorm(layer.output_size) for layer in layers if layer_norm)
        self._alike = are_alike([layer.cells for layer in layers])
        self.input_size, self.batch_first = input_size, batch_first
        self.bidirectional, self.residual = bidirectional, residual
        self.dropout, self.variational = check_probability("dropout", dropout), variational
        self._lay_out_weights()

    @classmethod
    def of(cls, cells: Sequence[Cell], backward: Sequence[Cell] = (), **options: Any) -> Self:
        """A stack of these cells, lowest first; those of `backward` read from the right.

        `options` are those of `Stack` that do not describe cells, such as `dropout`.

        >>> from throughtime.cells import GRU, LSTM
        >>> Stack.of([LSTM(8, 32), GRU(32, 16)]).state_sizes
        (32, 32, 16)
        """
        if not cells or len(backward) not in (0, len(cells)):
            counts = f"{len(cells)} and {len(backward)} backward"
            raise InputError("cells", f"are {counts}; give at least one, and as many backward ones or none")
        rows = zip(cells, backward, strict=True) if backward else ((cell,) for cell in cells)
        remaining = iter([cell for row in rows for cell in row])
        return cls(
            lambda input_size, hidden_size: next(remaining),
            cells[0].input_size,
            cells[0].hidden_size,
            len(cells),
            bidirectional=bool(backward),
            **options,
        )

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def output_size(self) -> int:
        """The width of the outputs, both directions together."""
        return self._layers()[-1].output_size

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each tensor of the state."""
        return tuple(size for layer in self._layers() for size in layer.state_sizes)

    @property
    def refuses_generation(self) -> str | None:
        """The reason why it cannot generate from left to right; None if it can."""
        if self.bidirectional:
            return "a bidirectional stack reads tokens that are not generated yet"
        return None

    def initial_state(self, batch: int) -> State:
        """The state before the first step: zeros, or the learned state."""
        return tuple(part for layer in self._layers() for part in layer.initial_state(batch))

    def forward(
        self,
        x: Tensor,
        state: State | Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        carry: Tensor | None = None,
        backend: str = "auto",
    ) -> Result:
        """Run all layers through all steps: outputs [T, B, H] of the last layer, and the last state of all.

        With `batch_first` x and the outputs are [B, T, ...]; states and `carry` [T, B] are as in `scan`, and
        so is a sequence [T, I] without a batch.
        """
        if x.dim() == 2 and x.shape[1] == self.input_size:
            run = partial(self.forward, backend=backend)
            axis = 0 if self.batch_first else 1
            return run_single(run, self.state_sizes, x, state, lengths, carry, axis)
        if self.batch_first:
            self._check_input(x, ("batch", "time"))
            x = x.transpose(0, 1)
        else:
            self._check_input(x, ("time", "batch"))
        layers = self._layers()
        states = None if state is None else self._check_state(x.shape[1], state)
        alone = len(layers) == 1 and not self.bidirectional
        layered = self._alike and backend == "auto" and prefers_one_call(x)
        at_once: Result | None = None
        cells = self._list_bare_cells(layers) if alone or layered else None
        if cells is not None:
            if layered:
                at_once = scan_layers(cells, x, states, lengths, carry)
            if alone and at_once is None:
                at_once = scan(cells[0][0], x, states, lengths, carry=carry, backend=backend)
        if at_once is not None:
            return Result(at_once[0].transpose(0, 1), at_once[1]) if self.batch_first else at_once
        last: list[Tensor] = []
        for number, layer in enumerate(layers):
            entering: State | None = None
            if states is not None:
                entering = states[len(last) : len(last) + len(layer.state_sizes)]
            elif type(layer) is not Layer:  # a layer of the user's own may need a first state
                entering = layer.initial_state(x.shape[1])
            y, reached = layer(self._drop(number, x), entering, lengths, carry, backend)
            x = self._finish_layer(number, x, y)
            if lengths is not None and (self.residual or self.norms):
                inside = torch.arange(x.shape[0], device=x.device)[:, None] < lengths.to(x.device)
                x = torch.where(inside[..., None], x, 0.0)
            last += reached
        return Result(x.transpose(0, 1) if self.batch_first else x, tuple(last))

    def step(self, x: Tensor, state: State | Tensor, alike: AlikeRows | None = None) -> tuple[Tensor, State]:
        """One step of every layer, for generation: x [B, I] to y [B, H], and the next state."""
        if self.refuses_generation is not None:
            raise InputError("step", f"{self.refuses_generation}; build it with bidirectional=False")
        if self.training and self._keeps_masks():
            raise InputError(
                "step",
                "in training, variational dropout and weight drop keep one mask for a whole sequence, which "
                "a single step does not have; call forward, or eval() first",
            )
        self._check_input(x, ("batch",))
        states = self._check_state(x.shape[0], state)
        reached: list[Tensor] = []
        for number, layer in enumerate(self._layers()):
            entering = states[len(reached) : len(reached) + len(layer.state_sizes)]
            shared = () if number or type(layer) is not Layer else (alike,)  # a subclass need not take it
            stepped = layer.step(self._drop(number, x), entering, *shared)
            x = self._finish_layer(number, x, stepped[0])
            reached += stepped
        return x, tuple(reached)

    def graph(
        self, ops: Ops, x: str, state: GraphState | None = None, lengths: str | None = None
    ) -> tuple[str, GraphState]:
        """`forward` in a graph: outputs [T, B, H] of the last layer, and the last state of all."""
        reached: list[str] = []
        for number, layer in enumerate(self._layers()):
            entering = None if state is None else state[len(reached) : len(reached) + len(layer.state_sizes)]
            y, last = ops.scan(layer.cells, x, entering, lengths)
            x = self._graph_finish_layer(ops, number, x, y)
            if lengths is not None and (self.residual or self.norms):
                x = ops.op("Where", ops.inside(x, lengths), x, ops.constant(0.0))
            reached += last
        return x, tuple(reached)

    def graph_step(self, ops: Ops, x: str, state: GraphState) -> tuple[str, GraphState]:
        """`step` in a graph."""
        reached: list[str] = []
        for number, layer in enumerate(self._layers()):
            entering = state[len(reached) : len(reached) + len(layer.state_sizes)]
            stepped = layer.from_left.graph_step_from(ops, x, entering)
            x = self._graph_finish_layer(ops, number, x, stepped[0])
            reached += stepped
        return x, tuple(reached)

    def graph_initial_state(self, ops: Ops, batch: str) -> GraphState:
        """`initial_state` in a graph."""
        cells = (cell for layer in self._layers() for cell in layer.cells)
        return tuple(name for cell in cells for name in cell.graph_initial_state(ops, batch))

    @classmethod
    def from_torch(cls, module: TorchRecurrence) -> Self:
        """A stack with the layers and weights of an nn.RNN, nn.GRU or nn.LSTM.

        >>> stack = Stack.from_torch(nn.GRU(8, 16, num_layers=2, bidirectional=True))
        >>> stack.output_size, stack.num_layers
        (32, 2)
        """
        from throughtime.cells.exchange import counterpart, load_torch

        stack = cls(
            counterpart(module),
            module.input_size,
            module.hidden_size,
            module.num_layers,
            bidirectional=module.bidirectional,
            dropout=module.dropout,
            batch_first=module.batch_first,
        ).to(next(module.parameters()))
        for number, layer in enumerate(stack._layers()):
            for direction, cell in enumerate(layer.cells):
                load_torch(cell, module, number, reverse=direction == 1)
        return stack.train(module.training)

    def to_torch(self) -> TorchRecurrence:
        """The nn.RNN, nn.GRU or nn.LSTM that computes the same, with these weights.

        Torch has no `variational` and no `weight_drop`; these act only in training and are left out.
        """
        from throughtime.cells.exchange import empty_module, store_torch

        layers = self._layers()
        learned = any(len(cell.learned_state) for layer in layers for cell in layer.cells)
        options = {"residual": self.residual, "layer_norm": bool(self.norms), "initial='learned'": learned}
        if used := [option for option, wanted in options.items() if wanted]:
            raise InputError(used[0], "torch's modules have no such option and would compute something else")
        module = empty_module(
            layers[0].from_left,
            num_layers=self.num_layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            batch_first=self.batch_first,
        )
        for number, layer in enumerate(layers):
            for direction, cell in enumerate(layer.cells):
                store_torch(cell, module, number, reverse=direction == 1)
        return module.train(self.training)

    def extra_repr(self) -> str:
        """The options, for `print`."""
        options = ("bidirectional", "dropout", "variational", "residual", "batch_first")
        return ", ".join(f"{option}={getattr(self, option)}" for option in options)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._lay_out_weights()
        return self

    def _lay_out_weights(self) -> None:
        """On a GPU, put the weights into memory as torch's kernels want them."""
        layers, together = self._layers(), not (self.dropout or self.residual or self.norms)
        if all(isinstance(layer, Layer) for layer in layers):  # a user may have replaced one
            lay_out_weights([layer.cells for layer in layers], together)

    def _layers(self) -> list[Layer]:
        # Without the lookups of `nn.Module`, which are slow for a short scan.
        return [*self._modules["layers"]._modules.values()]  # type: ignore[union-attr]

    def _list_bare_cells(self, layers: Sequence[Layer]) -> list[tuple[Cell, ...]] | None:
        """Return the cells of each layer if nothing happens between them and no hook watches, else None."""
        dropped = self.dropout and self.training and len(layers) > 1
        joined = dropped or self.residual or self._modules["norms"]._modules  # type: ignore[union-attr]
        return None if joined else list_bare_cells(layers)

    def _keeps_masks(self) -> bool:
        shared = self.variational and self.dropout > 0 and self.num_layers > 1
        return shared or any(layer.weight_drop for layer in self._layers())

    def _drop(self, number: int, x: Tensor) -> Tensor:
        return x if number == 0 else sequence_dropout(x, self.dropout, self.training, self.variational)

    def _finish_layer(self, number: int, x: Tensor, y: Tensor) -> Tensor:
        """The output of a layer, from its input x and the outputs y of its cells."""
        y = x + y if self.residual and x.shape[-1] == y.shape[-1] else y
        return self.norms[number](y) if self.norms else y

    def _graph_finish_layer(self, ops: Ops, number: int, x: str, y: str) -> str:
        layer = self._layers()[number]
        if self.residual and layer.input_size == layer.output_size:
            y = ops.op("Add", x, y)
        return graph_norm(ops, cast(nn.LayerNorm, self.norms[number]), y) if self.norms else y

    def _check_input(self, x: Tensor, axes: tuple[str, ...]) -> None:
        if x.dim() != len(axes) + 1 or x.shape[-1] != self.input_size:
            expected = f"[{', '.join(axes)}, {self.input_size}]"
            expected += f" or, without a batch, [time, {self.input_size}]" if len(axes) == 2 else ""
            raise InputError("x", f"has shape {list(x.shape)}, expected {expected}")

    def _check_state(self, batch: int, state: State | Tensor | None) -> State:
        if state is None:
            return self.initial_state(batch)
        tensors = (state,) if isinstance(state, Tensor) else tuple(state)
        got, expected = [[*tensor.shape] for tensor in tensors], [[batch, size] for size in self.state_sizes]
        if got != expected:
            raise InputError("state", f"has shapes {got}, expected a flat tuple of {expected}")
        return tensors
