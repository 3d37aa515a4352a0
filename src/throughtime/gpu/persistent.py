"""The persistent backend: all steps in one launch on an NVIDIA GPU, weights kept on the chip."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.gpu.elements import KINDS, ElementKind, round_up_units
from throughtime.gpu.persistent_backward import ENTERING, build_backward
from throughtime.gpu.persistent_call import Call
from throughtime.gpu.persistent_choice import best
from throughtime.gpu.persistent_forward import build_forward
from throughtime.gpu.persistent_memory import allocate
from throughtime.gpu.persistent_plan import Form, KernelTask, Plan
from throughtime.gpu.persistent_replay import RECORDINGS, run_replay
from throughtime.recurrence.backend import Result, first_order


class Recurrence(torch.autograd.Function):
    """A stack of RNN, GRU or LSTM layers, each over all steps of the one below, in one direction or both.

    Units are padded with zeros to a multiple of 8, and stay padded from layer to layer. All layers are one
    function, because each call of a function costs the host more than a short sequence costs the GPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        lengths: Tensor | None,
        carry: Tensor | None,
        x: Tensor,
        *cell_tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Return the outputs [T, B, H] of the last layer, and the last state of each cell, each part [B, H].

        `cell_tensors` are those named in `OWN` of each cell, the lowest layer first.
        """
        program = build_forward(call)
        tensors = [
            lengths,
            carry,
            *settle_inputs(call, x, cell_tensors),
            *allocate(program.shapes, x, call.kind),
        ]
        program.run(tensors)
        if call.keeps:
            ctx.save_for_backward(*[None if number is None else tensors[number] for number in program.saved])
            ctx.call = call
            ctx.set_materialize_grads(False)
        return program.outputs.of(tensors), *[tensors[end] for end in program.ends]

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Go from the top layer down: one launch for the gradients of all sums, then products."""
        call: Call = ctx.call
        arrived = [None if gradient is None else settle(gradient) for gradient in gradients]
        saved = ctx.saved_tensors
        program = build_backward(
            call, tuple([gradient is not None for gradient in arrived]), ctx.needs_input_grad[3:]
        )
        tensors = [*saved, *arrived, *allocate(program.shapes, saved[ENTERING], call.kind)]
        program.run(tensors)
        return None, None, None, *[None if view is None else view.of(tensors) for view in program.results]


def settle_inputs(call: Call, x: Tensor, cell_tensors: Sequence[Tensor | None]) -> list[Any]:
    """Return the rows of x [T * B, I] and the tensors named in `OWN` of each cell, each in one piece."""
    aligned = call.reads_weights
    return [
        settle(x).view(-1, call.inputs),
        *[None if tensor is None else settle(tensor, aligned) for tensor in cell_tensors],
    ]


def settle(tensor: Tensor, aligned: bool = True) -> Tensor:
    """Return the same values in one piece; one that is `aligned` begins on a boundary of 16 bytes."""
    if tensor.is_contiguous():
        return tensor if not aligned or tensor.data_ptr() % 16 == 0 else tensor.clone()
    return tensor.contiguous()


FORMS: dict[tuple[str, Any], Form] = {
    ("rnn", "tanh"): Form.TANH,
    ("rnn", "relu"): Form.RELU,
    ("gru", "after"): Form.GRU_AFTER,
    ("gru", "before"): Form.GRU_BEFORE,
    ("lstm", ""): Form.LSTM,
}
"""The kernel for each cell with its `activation` or `reset`."""


class Persistent:
    """Runs a sequence in one launch: no step waits for the host or reads the weights again.

    torch launches several kernels per step, each of which reads the recurrent weights from memory. Here every
    multiprocessor holds the weights of some units for the whole sequence, and exchanges the state with the
    others through the cache (`gpu/product.cuh` explains how); all weights of a small layer fit on one,
    which exchanges nothing. The product with the input before the loop is a single product. So are the
    gradients of large weights after it; those of small ones are one launch. Sums and the memory of an LSTM
    are float32.
    """

    name = "persistent"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It needs an NVIDIA GPU with room for all blocks at once, and RNN, GRU or LSTM."""
        if x.device.type != "cuda":
            return "it runs on NVIDIA GPUs only"
        from throughtime.gpu import driver

        form = find_form(cell)
        if form is None:
            return "it knows the equations of RNN with tanh or relu, GRU and LSTM only"
        if (kind := find_kind(x)) is None:
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
        """Run the product with the input and one launch; for training, the same backwards."""
        return run_layers([[cell]], x, state, lengths, carry)

    def run_layers(
        self,
        layers: Sequence[Sequence[Cell]],
        x: Tensor,
        state: State | None,
        lengths: Tensor | None,
        carry: Tensor | None = None,
        **options: Any,
    ) -> Result:
        """Run all layers as one function; see `run_layers` of this module."""
        return run_layers(layers, x, state, lengths, carry, **options)


BACKEND = Persistent()


def run_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    state: State | None,
    lengths: Tensor | None,
    carry: Tensor | None = None,
    *,
    dtype: torch.dtype | None = None,
    reverse: bool = False,
    plans: tuple[Plan, Plan] | None = None,
    weights: Sequence[Mapping[str, Tensor]] | None = None,
) -> Result:
    """Run a stack of layers that `are_alike` accepts, whose cells `Persistent` does not refuse.

    A layer is a cell that reads from the left, with or without a second one that reads from the right;
    `reverse` is for a single cell that reads from the right. The state is flat, cell after cell; None means
    zeros. `dtype` is the type to compute in, if it is another than that of x and the weights; the last state
    then has the type of the weights. `weights` are those of all cells, if the caller has listed them.
    """
    first, dtype = layers[0][0], dtype or x.dtype
    form, kind = find_form(first), find_kind(x, dtype)
    assert form is not None
    assert kind is not None
    if weights is None:
        weights = [cell.weights() for layer in layers for cell in layer]
    weight = weights[0]["weight_ih"]
    cell_tensors = _list_cell_tensors(form, weights, state)
    keeps = torch.is_grad_enabled() and _need_gradient((x, *cell_tensors))
    steps, batch, width = x.shape
    call = Call(
        form,
        kind,
        x.get_device(),
        first.hidden_size,
        width,
        steps,
        batch,
        len(layers),
        len(layers[0]),
        reverse,
        keeps,
        state is not None,
        x.dtype is not dtype,
        weight.dtype is not dtype,
        plans,
    )
    inputs = (
        None if lengths is None else lengths.to(torch.int32),
        None if carry is None else carry.to(torch.float32).contiguous(),
        x,
        *cell_tensors,
    )
    lease = RECORDINGS.borrow(call, inputs)
    results: tuple[Tensor, ...] = (
        Recurrence.apply(call, *inputs)  # type: ignore[no-untyped-call]
        if lease is None
        else run_replay(lease, inputs)
    )
    outputs = results[0]
    if lengths is not None and state is not None and (call.directions > 1 or reverse):
        # A row that reads from the right waits with its first state until the others have come to its end.
        inside = torch.arange(steps, device=x.device)[:, None] < lengths
        outputs = torch.where(inside[..., None], outputs, 0.0)
    return Result(outputs, results[1:])


def _list_cell_tensors(
    form: Form, weights: Sequence[Mapping[str, Tensor]], state: State | None
) -> list[Tensor | None]:
    """Return the tensors named in `OWN` of each cell; the state gets the type of the weights."""
    dtype = weights[0]["weight_ih"].dtype
    if state is not None and state[0].dtype is not dtype:
        state = tuple([tensor.to(dtype) for tensor in state])
    tensors: list[Tensor | None] = []
    for number, w in enumerate(weights):
        h = c = None
        if state is not None:
            h, c, *_ = (*state[form.parts * number : form.parts * (number + 1)], None)
        tensors += (w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn"), h, c)
    return tensors


def _need_gradient(tensors: Sequence[Tensor | None]) -> bool:
    for tensor in tensors:  # noqa: SIM110 - `any` with a generator is slower
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def forget_programs() -> None:
    """Forget all programs and recordings, so that they are built again."""
    build_forward.cache_clear()
    build_backward.cache_clear()
    RECORDINGS.forget()


def find_form(cell: Cell) -> Form | None:
    """Return the equations of a cell, or None if the kernels do not have them."""
    options = vars(cell)  # without the lookups of `nn.Module`, which are slow for what is not there
    variant = options.get("activation") or options.get("reset", "")
    return FORMS.get((cell.equations, variant))


def find_kind(x: Tensor, dtype: torch.dtype | None = None) -> ElementKind | None:
    """Return how to multiply: float32 as torch's recurrent kernels do, in tf32 unless that is disabled."""
    dtype = dtype or x.dtype
    if dtype is torch.float32:
        # What `torch.backends.cudnn.allow_tf32` asks, at a quarter of the time.
        return ElementKind.TF32 if torch._C._get_cudnn_allow_tf32() else ElementKind.FLOAT
    return KINDS.get(dtype)


@functools.cache
def _fits(form: Form, kind: ElementKind, size: int, batch: int, limits: tuple[int, int]) -> bool:
    """Return whether there is a plan for both the forward and the backward pass."""
    return all(
        best(KernelTask(form, kind, round_up_units(size), batch, way), *limits) for way in (False, True)
    )
