"""The base class of cells."""

from __future__ import annotations

import contextlib
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.accelerate import step_cell
from throughtime.cells.graph import GraphOperator
from throughtime.errors import InputError, check_whole, unknown

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.recurrence.backend import Result
    from throughtime.recurrence.steps import AlikeRows

    Ops = Graph
else:
    Ops = Any  # the operators in which modules write their equations for a graph: `graphs.graph.Graph`

State = tuple[Tensor, ...]
"""Flat, each tensor [batch, ...]; of a cell, state[0] is the output h."""

GraphState = tuple[str, ...]
"""Do the same in a graph, where values are names."""

INITIAL = ("zero", "learned")
STACK_OPTIONS = {"num_layers", "bidirectional", "dropout", "batch_first"}
"""Options of torch's recurrent classes that belong to a `Stack` of cells here."""


class _Replaced(threading.local):
    """The weights that `Cell.replacing` uses instead of others, by cell: each thread has its own.

    Two threads may run one model at once, the one in bf16 and the other in float32.
    """

    weights: Mapping[int, Mapping[str, Tensor]] = {}


_REPLACED = _Replaced()


class Cell(nn.Module, ABC):
    """One step of a recurrence. `scan` runs it over time, and so does calling the cell.

    A subclass declares its weights in `__init__` (names, shapes and gate order are torch's) and defines
    `step`, and `project` if it is not W_ih x + b. It reads weights through `weights()`, never as attributes,
    so that they can be replaced during one scan. A cell with `graph_step` can be exported; `Graph` in
    `graphs/graph.py` says which operators it may use.

    - *State*: any number of tensors, [B, size] for each of `state_sizes`; the first is the output. The state
      before the first step is zeros, unless `initial_state` says otherwise. If not all real numbers are legal
      in a state, the cell also defines `draw_state`, by which it is tested.
    - *Gates*, so that they can be inspected: `gates` names the blocks of rows of the weights, and
      `activations` what `step` computes from them. A cell that keeps a share of its old state names that gate
      as `keeping_gate`; other cells have none, whatever other gates they have.
    """

    gates: tuple[str, ...] = ()
    """The names of the blocks of rows in `weight_ih`, `weight_hh` and `bias`, in their order."""
    activations: tuple[tuple[str, ...], ...] = ()
    """Names for the results of sigmoid, tanh and relu, in the order in which `step` calls them: one name for
    each equal part of a result, or () for a result that is not shown."""
    keeping_gate: str | None = None
    """The name, in `activations`, of the gate that is the exact share of the old state that is kept. Of
    several tensors, the old state is the one that this gate keeps, such as c of an LSTM: if all gates are
    held and that tensor grows by 1, its next value grows by this share."""
    equations: ClassVar[str] = ""
    """The name by which backends know the equations of this class; a subclass may differ and has none."""

    def __init_subclass__(cls, *, equations: str = "") -> None:
        """`class GRU(Cell, equations="gru")` sets the name."""
        super().__init_subclass__()
        cls.equations = equations

    def __new__(cls, *sizes: Any, **options: Any) -> Self:
        """Refuse the options of whole networks, which torch's classes of the same names have."""
        parameters = inspect.signature(cls.__init__).parameters
        for name in STACK_OPTIONS & options.keys() - parameters.keys():
            raise TypeError(
                f"{cls.__name__}: a cell has no {name}; write Stack({cls.__name__}, input_size, hidden_size, "
                f"{name}={options[name]!r})"
            )
        return super().__new__(cls)

    def __init__(
        self, input_size: int, hidden_size: int, *, initial: str = "zero", state_sizes: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            check_whole(name, size)
        if initial not in INITIAL:
            raise unknown("initial state", initial, INITIAL)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.state_sizes = state_sizes or (hidden_size,)
        """The width of each tensor of the state; the first is that of the output."""
        self.learned_state: nn.ParameterList | tuple[Tensor, ...] = ()
        if initial == "learned":
            self.learned_state = nn.ParameterList(torch.zeros(size) for size in self.state_sizes)

    def add_weights(self, *, recurrent: bool = True) -> None:
        """Add `weight_ih`, `weight_hh` and `bias`, with a block of `hidden_size` rows for each gate."""
        rows = len(self.gates) * self.hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, self.input_size))
        if recurrent:
            self.weight_hh = nn.Parameter(torch.empty(rows, self.output_size))
        self.bias = nn.Parameter(torch.empty(rows))

    @property
    def output_size(self) -> int:
        """The width of h."""
        return self.state_sizes[0]

    @property
    def state_names(self) -> tuple[str, ...]:
        """The letters of the tensors of a state: h for the output, c for a memory, then s_3, s_4, ..."""
        count = len(self.initial_state(1))
        return ("h", "c", *(f"s_{number}" for number in range(3, count + 1)))[:count]

    def project(self, x: Tensor) -> Tensor:
        """Compute all that needs no state, of all steps at once: [T, B, I] -> [T, B, P]. Here W_ih x + b."""
        w = self.weights()
        return linear(x, w["weight_ih"], w["bias"])

    @abstractmethod
    def step(self, projected: Tensor, state: State) -> State:
        """Take one step: from [B, P] and the state to the next state."""

    def step_from(self, x: Tensor, state: State, alike: AlikeRows | None = None) -> State:
        """Take one whole step, for generation: from x [B, I] and the state to the next state.

        `alike` says which rows begin alike; cells whose `equations` have a name may use it to compute less.
        """
        faster = step_cell(self, x, state, alike) if self.equations else None
        return self.step(self.project(x[None])[0], state) if faster is None else faster

    def graph_project(self, ops: Ops, x: str) -> str:
        """`project` in a graph: the name of the projection of x [..., I]."""
        w = self.weights()
        return ops.linear(x, w["weight_ih"], w["bias"])

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """`step` in a graph: from the names of [B, P] and of the state to the names of the next state."""
        raise NotImplementedError

    def graph_initial_state(self, ops: Ops, batch: str) -> GraphState:
        """`initial_state` in a graph, for a batch of this size."""
        return tuple(
            ops.op("Expand", ops.constant(state.detach().cpu()), ops.sizes(batch, state.shape[-1]))
            for state in self.initial_state(1)
        )

    def graph_operator(self) -> GraphOperator | None:
        """Return the operator of ONNX with this cell's equations; None if there is none: the graph loops."""
        return None

    def graph_problem(self) -> str | None:
        """Return the reason why the cell cannot be exported; None if it can."""
        for equation in ("project", "step"):
            if not self.is_written_for(f"graph_{equation}", equation):
                return f"defines `{equation}` for torch only; add `graph_{equation}` to export it"
        return None

    def graph_step_from(self, ops: Ops, x: str, state: GraphState) -> GraphState:
        """Take one whole step in a graph: from x [B, I] and the state to the next state."""
        self.check_graph()
        return ops.step(self, self.graph_project(ops, x), state)

    def check_graph(self) -> None:
        """Raise an error if the cell cannot be exported."""
        if (problem := self.graph_problem()) is not None:
            raise InputError(f"cell {type(self).__name__}", problem)

    def is_written_for(self, method: str, *equations: str) -> bool:
        """Return whether a method is defined for these equations of this class, not for those of a base."""
        kinds = type(self).__mro__

        def find_class(name: str) -> int:
            return next(number for number, kind in enumerate(kinds) if name in vars(kind))

        return all(find_class(method) <= find_class(equation) for equation in equations)

    def forward(
        self,
        x: Tensor,
        state: State | Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        reverse: bool = False,
        carry: Tensor | None = None,
        batch_first: bool = False,
        backend: str = "auto",
    ) -> Result:
        """Run the cell through time: `scan` with this cell and the same options."""
        from throughtime.recurrence.scan import scan  # scan imports cells, so not at import time

        return scan(
            self, x, state, lengths, reverse=reverse, carry=carry, batch_first=batch_first, backend=backend
        )

    def initial_state(self, batch: int) -> State:
        """Return the state before the first step: zeros, or the learned state. Each [B, H]"""
        if len(self.learned_state):
            return tuple(learned.expand(batch, -1) for learned in self.learned_state)
        like = self._find_weight()
        return tuple(like.new_zeros(batch, size) for size in self.state_sizes)

    def draw_state(self, batch: int, source: torch.Generator | None = None) -> State:
        """Draw a legal state at random, each [B, H]: here all numbers from N(0, 1)."""
        like = self._find_weight()
        return tuple(torch.randn(batch, size, generator=source).to(like) for size in self.state_sizes)

    def _find_weight(self) -> Tensor:
        """Return a weight, for its type and device."""
        # A parameter of the cell itself is found in a quarter of the time.
        weight = next((weight for weight in self._parameters.values() if weight is not None), None)
        return next(self.parameters()) if weight is None else weight

    def weights(self) -> dict[str, Tensor]:
        """Return the weights by name, or what replaces them during one scan."""
        # Without modules inside, the cell's own dict takes a fifth of the time; every scan calls this twice.
        weights: dict[str, Tensor]
        named = self.named_parameters() if self._modules else self._parameters.items()
        weights = {name: w for name, w in named if w is not None and "learned_state" not in name}
        replaced = _REPLACED.weights.get(id(self))
        return weights if replaced is None else {**weights, **replaced}

    @contextlib.contextmanager
    def replacing(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Use other weights inside the block and in this thread, as weight drop does."""
        if strange := set(weights) - set(self.weights()):
            raise unknown("weight", min(strange), self.weights())
        before = _REPLACED.weights
        _REPLACED.weights = {**before, id(self): {**before.get(id(self), {}), **weights}}
        try:
            yield
        finally:
            _REPLACED.weights = before

    def extra_repr(self) -> str:
        """Return what `print(cell)` shows."""
        learned = ", initial='learned'" if len(self.learned_state) else ""
        return f"{self.input_size}, {self.hidden_size}{learned}"

    def reset_parameters(self) -> None:
        """Draw all weights from U(-1/sqrt(H), 1/sqrt(H)), as torch does."""
        bound = self.hidden_size**-0.5
        for weight in self.weights().values():
            nn.init.uniform_(weight, -bound, bound)
