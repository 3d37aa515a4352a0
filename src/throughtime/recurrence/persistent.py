"""The persistent backend: all steps in one launch on an NVIDIA GPU, weights kept on the chip."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.cells.base import Cell, State
from throughtime.kernels.elements import KINDS, ElementKind, round_up_units
from throughtime.recurrence import persistent_layer
from throughtime.recurrence.backend import Result, first_order
from throughtime.recurrence.batched_copies import Moves
from throughtime.recurrence.persistent_layer import OWN, SavedLayer
from throughtime.recurrence.persistent_plan import Form, KernelTask, Plan, best

if TYPE_CHECKING:
    from throughtime.kernels import driver


FILES = ("primitives.cuh", "elements.cuh", "product.cuh")
AS_IT_IS = contextlib.nullcontext()


class PersistentSettings(NamedTuple):
    """All arguments that are not tensors."""

    form: Form
    kind: ElementKind
    size: int  # hidden units
    device: int
    keeps: bool = True  # whether to keep what a backward pass needs
    plans: tuple[Plan, Plan] | None = None  # forward and backward, in place of the best known


@functools.cache
def _prepare_kernel(
    settings: PersistentSettings, batch: int, backward: bool
) -> tuple[driver.Kernel, int, int]:
    """Return the kernel for these settings, the number of its blocks, and how long they pause."""
    from throughtime.kernels import driver

    task = KernelTask(settings.form, settings.kind, round_up_units(settings.size), batch, backward)
    if settings.plans is not None:
        plan: Plan | None = settings.plans[backward]
    else:
        plan = best(task, *driver.limits(settings.device))
    assert plan is not None
    name = "backward" if backward else "forward"
    files, constants = (*FILES, f"{name}.cu"), plan.constants(task)
    kernel = driver.build(name, files, constants, settings.device, together=True)
    return kernel, plan.blocks(task), plan.pause


class Recurrence(torch.autograd.Function):
    """A stack of RNN, GRU or LSTM layers, each over all steps of the one below.

    Units are padded with zeros to a multiple of 8, and stay padded from layer to layer. All layers are one
    function, because each call of a function costs the host more than a short sequence costs the GPU.
    """

    @staticmethod
    def forward(
        ctx: Any,
        settings: PersistentSettings,
        lengths: Tensor | None,
        carry: Tensor | None,
        x: Tensor,
        *own: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Return the outputs [T, B, H] of the last layer, and the last state of each layer, each part [B, H].

        `own` has the tensors named in `OWN` of each layer, the lowest first.
        """
        form, size, keeps = settings.form, settings.size, settings.keeps
        (steps, batch, given), width = x.shape, round_up_units(size)
        inputs = round_up_units(given)  # rows that are not aligned are multiplied at half the speed
        moves = Moves(x.element_size(), settings.device)
        entering = rows = moves.widen(x.reshape(steps * batch, given), given, inputs)
        layers = []
        for at in range(0, len(own), len(OWN)):
            layers.append(
                persistent_layer.allocate_layer(moves, form, size, own[at : at + len(OWN)], x, inputs, keeps)
            )
            inputs = width
        moves.launch()
        kernel, blocks, pause = _prepare_kernel(settings, batch, False)
        numbers = steps, batch, pause, int(keeps)
        kept: list[Tensor | None] = []
        ends: list[Tensor] = []
        with _precision(settings.kind):
            for layer in layers:
                gates = linear(rows, layer.into_gates, layer.shift)
                own_ends = [x.new_empty(batch, width) for _ in range(form.parts)]
                kernel(
                    blocks,
                    persistent_layer.forward_arguments(numbers, form, layer, gates, own_ends, lengths),
                )
                rows = layer.states[1:].view(steps * batch, width)
                kept += SavedLayer(
                    layer.into_gates, layer.recurrent, gates, layer.states, layer.memories, layer.extra
                )
                ends += own_ends
        if keeps:
            ctx.save_for_backward(entering, lengths, carry, *kept)
            ctx.settings, ctx.given = settings, given
            ctx.set_materialize_grads(False)
        outputs = layers[-1].states[1:]
        if size < width:
            outputs, *ends = [moves.tighten(part, size, width) for part in (outputs, *ends)]
            moves.launch()
        return outputs, *ends

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Go from the top layer down: one launch for the gradients of all sums, one product per weight."""
        settings: PersistentSettings = ctx.settings
        form, size, given, wanted = settings.form, settings.size, ctx.given, ctx.needs_input_grad
        entering, lengths, carry, *kept = ctx.saved_tensors
        layers = [
            SavedLayer(*kept[at : at + len(SavedLayer._fields)])
            for at in range(0, len(kept), len(SavedLayer._fields))
        ]
        after, batch, width = layers[0].states.shape
        moves = Moves(entering.element_size(), settings.device)
        outputs, *ends = [None if part is None else moves.widen(part, size, width) for part in gradients]
        sums = [
            persistent_layer.prepare_backward(
                moves, form, layer, ends[form.parts * at : form.parts * (at + 1)]
            )
            for at, layer in enumerate(layers)
        ]
        moves.launch()
        if outputs is None:
            outputs = entering.new_zeros(after - 1, batch, width)
        kernel, blocks, pause = _prepare_kernel(settings, batch, True)
        numbers = after - 1, batch, pause
        results: list[Tensor | None] = []
        with _precision(settings.kind):
            for at, layer, own in reversed(list(zip(range(len(layers)), layers, sums, strict=True))):
                assert outputs is not None
                kernel(
                    blocks,
                    persistent_layer.backward_arguments(numbers, form, layer, own, outputs, lengths, carry),
                )
                fed = persistent_layer.select_input_gradients(form, own.gradients)
                outputs = fed.mm(layer.into_gates) if at or wanted[3] else None
                rows = layers[at - 1].states[1:].view(-1, width) if at else entering
                weights = persistent_layer.compute_weight_gradients(form, layer, own, rows)
                weights = persistent_layer.tighten_gradients(
                    moves, form, size, size if at else given, weights
                )
                first = 4 + at * len(OWN) + OWN.index("h")
                initial = [
                    own.initial[part] if part < form.parts and wanted[first + part] else None
                    for part in range(2)
                ]
                if size < width:
                    initial = [None if part is None else moves.tighten(part, size, width) for part in initial]
                results = [*weights, *initial, *results]
        if outputs is not None and given < outputs.shape[1]:
            outputs = moves.tighten(outputs, given, outputs.shape[1])
        moves.launch()
        into_x = None if outputs is None else outputs.view(-1, batch, given)
        return None, None, None, into_x, *results


def _precision(kind: ElementKind) -> contextlib.AbstractContextManager[None]:
    """Use the precision of the recurrence for torch's products too."""
    if kind > ElementKind.TF32 or torch.backends.cuda.matmul.allow_tf32 == (kind is ElementKind.TF32):
        return AS_IT_IS
    return _set_tf32(kind is ElementKind.TF32)


@contextlib.contextmanager
def _set_tf32(allow_tf32: bool) -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = not allow_tf32


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
    others through the cache (`kernels/product.cuh` explains how). The product with the input before the loop
    and the gradients of the weights after it are single products. Sums and the memory of an LSTM are float32.
    """

    name = "persistent"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It needs an NVIDIA GPU with room for all blocks at once, and RNN, GRU or LSTM."""
        if x.device.type != "cuda":
            return "it runs on NVIDIA GPUs only"
        from throughtime.kernels import driver

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


BACKEND = Persistent()


def run_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    state: State | None,
    lengths: Tensor | None,
    carry: Tensor | None = None,
) -> Result:
    """Run a stack of layers that are `are_alike`, with one cell each that `Persistent` does not refuse.

    The state is flat, cell after cell; None means zeros.
    """
    cells = [cell for (cell,) in layers]
    form, kind = find_form(cells[0]), find_kind(x)
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
        PersistentSettings(form, kind, cells[0].hidden_size, x.get_device(), trains),
        None if lengths is None else lengths.to(torch.int32),
        None if carry is None else carry.to(torch.float32).contiguous(),
        x,
        *own,
    )
    return Result(outputs, tuple(last))


def find_form(cell: Cell) -> Form | None:
    """Return the equations of a cell, or None if the kernels do not have them."""
    variant = getattr(cell, "activation", None) or getattr(cell, "reset", "")
    return FORMS.get((cell.equations, variant))


def find_kind(x: Tensor) -> ElementKind | None:
    """Return how to multiply: float32 as torch's recurrent kernels do, in tf32 unless that is disabled."""
    if x.dtype is torch.float32:
        return ElementKind.TF32 if torch.backends.cudnn.allow_tf32 else ElementKind.FLOAT
    return KINDS.get(x.dtype)


def build_task(form: Form, kind: ElementKind, cell: Cell, batch: int, backward: bool) -> KernelTask:
    """Return the task to plan for this call."""
    return KernelTask(form, kind, round_up_units(cell.hidden_size), batch, backward)


@functools.cache
def _fits(form: Form, kind: ElementKind, size: int, batch: int, limits: tuple[int, int]) -> bool:
    """Whether there is a plan for both the forward and the backward pass."""
    return all(
        best(KernelTask(form, kind, round_up_units(size), batch, way), *limits) for way in (False, True)
    )
