"""Weights in one piece of memory: the same parameters, the same results, and on a GPU no copies."""

from __future__ import annotations

import copy
import warnings
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.recurrence.test_native import CELLS
from torch import nn

from throughtime.cells import GRU, LSTM
from throughtime.gpu import flat_weights
from throughtime.layers.layer import weight_drop
from throughtime.layers.stack import Stack
from throughtime.recurrence import native

every_cell = pytest.mark.parametrize("name", CELLS)


@pytest.fixture
def piece(monkeypatch):
    """Take the CPU for a GPU, on which the weights are laid one behind the other."""

    def move(listed, *shape):
        flat = torch.cat([weight.flatten() for weight in listed])
        at = 0
        for weight in listed:
            weight.set_(flat.untyped_storage(), at, weight.shape, weight.stride())
            at += weight.numel()

    monkeypatch.setattr(flat_weights, "_move", move)
    monkeypatch.setattr(flat_weights, "_are_movable", lambda *given: True)


def build(name, layers=2, bidirectional=True, **options):
    torch.manual_seed(0)
    return Stack(CELLS[name], 3, 4, layers, bidirectional=bidirectional, **options).double()


def everything(stack):
    torch.manual_seed(1)
    x = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    outputs, state = native.run_layers([layer.cells for layer in stack.layers], x, None, None)
    loss = outputs.square().sum() + sum(part.sum() for part in state)
    return [outputs, *state, *torch.autograd.grad(loss, [x, *stack.parameters()])]


def assert_same(found, truth):
    for one, other in zip(found, truth, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def is_flat(stack):
    cells = [cell for layer in stack.layers for cell in layer.cells]
    return len({weight.untyped_storage().data_ptr() for weight in native.list_weights(cells)}) == 1


@every_cell
def test_parameters_become_views_of_one_piece_and_nothing_else_changes(name, piece):
    plain = copy.deepcopy(build(name))
    assert not is_flat(plain)
    truth, saved = everything(plain), copy.deepcopy(plain.state_dict())
    owners = dict(plain.named_parameters())
    stack = plain.double()
    assert is_flat(stack)
    assert all(weight is owners[key] for key, weight in stack.named_parameters())
    assert_same(stack.state_dict().values(), saved.values())
    assert_same(everything(stack), truth)


@every_cell
def test_updates_and_loaded_weights_keep_them_in_one_piece(name, piece):
    stack, other = build(name).double(), build(name)
    optimizer = torch.optim.SGD(stack.parameters(), 0.1)
    other.load_state_dict(stack.state_dict())
    for _ in range(2):
        for one, gradient in zip(
            stack.parameters(), everything(stack)[-len([*stack.parameters()]) :], strict=True
        ):
            one.grad = gradient
        optimizer.step()
    assert is_flat(stack)
    assert not torch.equal(next(stack.parameters()), next(other.parameters()))
    other.load_state_dict(stack.state_dict())
    flat_weights._FLAT.clear()
    truth = everything(other)
    assert_same(everything(stack.double()), truth)
    stack.load_state_dict({key: value * 2 for key, value in other.state_dict().items()})
    assert is_flat(stack)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_what_takes_the_place_of_weights_is_used(name, piece):
    stack = build(name, layers=1, bidirectional=False).double()
    assert is_flat(stack)
    cell, x = stack.layers[0].cells[0], torch.randn(3, 2, 3, dtype=torch.float64)
    run = partial(native.run_layers, [[cell]], x, None, None)
    plain = run().outputs
    torch.manual_seed(0)
    with weight_drop(cell, 0.5):
        assert not torch.allclose(run().outputs, plain)
    weight = cell.bias_hn if name == "gru" else cell.bias
    weight.data = weight.data + 1.0
    assert not torch.allclose(run().outputs, plain)
    torch.testing.assert_close(run().outputs, stack(x, backend="reference").outputs)


def test_a_new_stack_lies_in_one_piece(piece):
    assert is_flat(Stack("gru", 3, 4, 2))


def test_what_lies_in_one_piece_is_not_moved_again(piece):
    stack = build("gru")
    before = [weight.data_ptr() for weight in stack.parameters()]
    stack.double()
    assert [weight.data_ptr() for weight in stack.parameters()] == before


def test_a_copy_has_its_own_weights(piece):
    stack = build("gru").double()
    other = copy.deepcopy(stack)
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    assert is_flat(stack)
    assert all(weight.any() for weight in stack.parameters())
    assert not everything(other)[0].any()


def test_a_graph_from_before_is_still_good(piece):
    stack = copy.deepcopy(build("lstm", layers=1))
    outputs = stack(torch.ones(2, 1, 3, dtype=torch.float64), backend="reference").outputs
    stack.double()
    assert is_flat(stack)
    outputs.sum().backward()
    assert all(weight.grad is not None for weight in stack.parameters())


def test_layers_that_run_apart_lie_in_pieces_of_their_own(piece):
    stack = build("lstm", dropout=0.5).double()
    pieces = {cell.weight_hh.untyped_storage().data_ptr() for layer in stack.layers for cell in layer.cells}
    assert len(pieces) == 2
    for layer in stack.layers:
        assert len({one.untyped_storage().data_ptr() for one in native.list_weights(layer.cells)}) == 1


def test_cells_of_several_kinds_lie_in_pieces_of_their_own(piece):
    stack = Stack.of([LSTM(3, 4), GRU(4, 4)]).double()
    for layer in stack.layers:
        assert len({one.untyped_storage().data_ptr() for one in native.list_weights(layer.cells)}) == 1


def test_they_are_saved_and_loaded(piece, tmp_path):
    stack = build("gru").double()
    save_file(stack.state_dict(), tmp_path / "weights.safetensors")
    assert_same(
        load_file(tmp_path / "weights.safetensors").values(),
        dict(sorted(stack.state_dict().items())).values(),
    )


def test_on_a_cpu_nothing_moves():
    stack = build("lstm")
    before = [weight.data_ptr() for weight in stack.parameters()]
    stack.double()
    assert [weight.data_ptr() for weight in stack.parameters()] == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bidirectional", [False, True])
@every_cell
def test_on_a_gpu_torch_has_nothing_to_copy(name, bidirectional, dtype, monkeypatch):
    monkeypatch.setattr(native, "_hush", lambda: None)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.set_warn_always(True)
    try:
        stack = build(name, bidirectional=bidirectional)
        plain = copy.deepcopy(stack)
        stack = stack.to("cuda", dtype)
        x = torch.randn(5, 2, 3, device="cuda", dtype=dtype, requires_grad=True)
        layers = [layer.cells for layer in stack.layers]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outputs, _ = native.run_layers(layers, x, None, None)
            found = torch.autograd.grad(outputs.float().square().sum(), [x, *stack.parameters()])
    finally:
        torch.set_warn_always(False)
    truth, _ = plain(x.detach().cpu().double(), backend="reference")
    expected = torch.autograd.grad(truth.square().sum(), list(plain.parameters()))
    tolerance = 1e-3 if dtype is torch.float32 else 8e-2
    for one, other in zip(found[1:], expected, strict=True):
        assert (one.cpu().double() - other).norm() <= tolerance * max(1.0, float(other.norm()))
    assert isinstance(next(stack.parameters()), nn.Parameter)
