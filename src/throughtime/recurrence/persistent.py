"""The persistent backend: all steps in one launch on an NVIDIA GPU, weights kept on the chip."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.cells.lstm import LSTM
from throughtime.kernels.elements import Kind, widened
from throughtime.recurrence.backend import Result
from throughtime.recurrence.persistent_function import Recurrence, Settings
from throughtime.recurrence.persistent_plan import Form, Task, best

FORMS: dict[tuple[type[Cell], str], Form] = {
    (RNN, "tanh"): Form.TANH,
    (RNN, "relu"): Form.RELU,
    (GRU, "after"): Form.GRU_AFTER,
    (GRU, "before"): Form.GRU_BEFORE,
    (LSTM, ""): Form.LSTM,
}
VARIED: dict[type[Cell], str] = {RNN: "activation", GRU: "reset"}
"""The attribute that says which equations a cell has, where it may have several."""


class Persistent:
    """One launch a sequence: no step waits for the host, and no step reads the weights again.

    torch launches several kernels a step and reads the recurrent weights from memory in each. Here every
    multiprocessor holds the weights of some units for the whole sequence, and the state goes from one to
    all others through the cache (`kernels/product.cuh` says how). The input's product before the loop and the
    weights' gradients after it are single products. Sums and an LSTM's memory are float32 throughout.
    """

    name = "persistent"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It needs an NVIDIA GPU with room for every block at once, and a cell it knows."""
        if x.device.type != "cuda":
            return "it runs on NVIDIA GPUs only"
        from throughtime.kernels import driver

        form = form_of(cell)
        if form is None:
            return "it knows the equations of RNN with tanh or relu, GRU and LSTM only"
        if (kind := kind_of(x)) is None:
            return f"it knows float32, bfloat16 and float16, not {x.dtype}"
        device = x.get_device()
        if (reason := driver.unavailable(device)) is not None:
            return reason
        limits = driver.limits(device)
        if not _fits(form, kind, cell.hidden_size, x.shape[1], limits):
            return f"{cell.hidden_size} units do not fit the GPU's {limits[0]} multiprocessors"
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """The input's product, one launch, and for training the same backwards."""
        return run_layers([[cell]], x, state, lengths, carry)


def run_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    state: State | None,
    lengths: Tensor | None,
    carry: Tensor | None = None,
) -> Result:
    """Layers that are `alike`, of one cell that is not refused, each reading what the one below wrote.

    The state is flat, cell after cell; None stands for zeros.
    """
    cells = [cell for (cell,) in layers]
    form, kind = form_of(cells[0]), kind_of(x)
    assert form is not None
    assert kind is not None
    parts = form.parts
    own: list[Tensor | None] = []
    for number, cell in enumerate(cells):
        w = cell.weights()
        h = c = None
        if state is not None:
            h, c, *_ = (*state[parts * number : parts * (number + 1)], None)
        own += (w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn"), h, c)
    trains = torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in (x, *own))
    outputs, *last = Recurrence.apply(  # type: ignore[no-untyped-call]
        Settings(form, kind, cells[0].hidden_size, x.get_device(), trains),
        None if lengths is None else lengths.to(torch.int32),
        None if carry is None else carry.to(torch.float32).contiguous(),
        x,
        *own,
    )
    return Result(outputs, tuple(last))


def form_of(cell: Cell) -> Form | None:
    """Which equations these are; None where the kernels do not know them."""
    varied = VARIED.get(type(cell))
    variant = getattr(cell, varied) if varied is not None else ""
    return FORMS.get((type(cell), variant)) if isinstance(variant, str) else None


def kind_of(x: Tensor) -> Kind | None:
    """How to multiply: float32 as torch's own recurrent kernels do, in tf32 unless that is forbidden."""
    if x.dtype is torch.float32:
        return Kind.TF32 if torch.backends.cudnn.allow_tf32 else Kind.FLOAT
    return {torch.bfloat16: Kind.BF16, torch.float16: Kind.F16}.get(x.dtype)


def task_of(form: Form, kind: Kind, cell: Cell, batch: int, backward: bool) -> Task:
    """What is to be planned for this call."""
    return Task(form, kind, widened(cell.hidden_size), batch, backward)


@functools.cache
def _fits(form: Form, kind: Kind, size: int, batch: int, limits: tuple[int, int]) -> bool:
    """Whether there is a plan for both ways."""
    return all(best(Task(form, kind, widened(size), batch, way), *limits) for way in (False, True))
