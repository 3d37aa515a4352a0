"""torch's kernels against the loop of the equations, and what they refuse."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import GRU, LSTM, RNN, MinGRU, ProjectedLSTM
from throughtime.recurrence import native, scan

CELLS = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "lstm": LSTM,
    "lstm-projected": lambda inputs, hidden: ProjectedLSTM(inputs, hidden + 1, hidden),
}
TOLERANCE = {torch.float64: (1e-9, 1e-11), torch.float32: (1e-5, 2e-5), torch.bfloat16: (2e-2, 3e-2)}
every_cell = pytest.mark.parametrize("name", CELLS)


def build(name, inputs=3, hidden=4, dtype=torch.float64):
    torch.manual_seed(hidden)
    return CELLS[name](inputs, hidden).to(dtype)


def everything(cell, steps, batch, lengths=None, dtype=torch.float64, backend="native"):
    """Outputs, last state, and every gradient of a random function of both."""
    source = torch.Generator().manual_seed(steps)
    draw = partial(torch.randn, generator=source, dtype=dtype)
    x = draw(steps, batch, cell.input_size).requires_grad_()
    state = tuple(draw(batch, size).requires_grad_() for size in cell.state_sizes)
    outputs, last = scan(cell, x, state, lengths, backend=backend)
    loss = sum((part * draw(part.shape)).sum() for part in (outputs, *last))
    weights = cell.weights()
    gradients = torch.autograd.grad(loss, [x, *state, *weights.values()])
    names = [
        "outputs",
        *(f"last {i}" for i in range(len(last))),
        "x",
        *(f"state {i}" for i in range(len(state))),
    ]
    return dict(zip([*names, *weights], [outputs, *last, *gradients], strict=True))


def assert_equals_reference(cell, steps, batch, lengths=None, dtype=torch.float64):
    ours = everything(cell, steps, batch, lengths, dtype)
    truth = everything(cell, steps, batch, lengths, dtype, backend="reference")
    relative, floor = TOLERANCE[dtype]
    for name, value in truth.items():
        at_zero = floor * max(1.0, float(value.detach().abs().max()))
        torch.testing.assert_close(
            ours[name], value, rtol=relative, atol=at_zero, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("lengths", [[5, 2, 0], [0, 0, 0], [1, 3, 2]])
@pytest.mark.parametrize("name", ["lstm", "lstm-projected"])
def test_packing_as_on_a_gpu_gives_the_same(name, lengths, monkeypatch):
    monkeypatch.setattr(native, "_frozen", native._run_packed)
    assert_equals_reference(build(name), 5, 3, torch.tensor(lengths))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_memory_past_a_row_s_end_is_frozen_bit_for_bit(dtype):
    cell = LSTM(3, 4).to(dtype)
    h, c = (10 * torch.randn(2, 4)).to(dtype), (10 * torch.randn(2, 4)).to(dtype)
    x = (10 * torch.randn(6, 2, 3)).to(dtype)
    with torch.no_grad():
        outputs, last = scan(cell, x, (h, c), torch.tensor([0, 6]), backend="native")
    assert torch.equal(last[0][0], h[0])
    assert torch.equal(last[1][0], c[0])
    assert not outputs[:, 0].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e30])
def test_padding_is_never_read(bad):
    cell, lengths = LSTM(3, 4), torch.tensor([2, 5, 0])
    x = torch.randn(5, 3, 3)
    clean = scan(cell, x, lengths=lengths, backend="native").outputs
    x[torch.arange(5)[:, None] >= lengths] = bad
    dirty = scan(cell, x.requires_grad_(), lengths=lengths, backend="native").outputs
    torch.testing.assert_close(dirty, clean)
    dirty.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in cell.parameters())
    assert not x.grad[torch.arange(5)[:, None] >= lengths].any()


@pytest.mark.parametrize(
    ("cell", "carry", "facts"),
    [
        (GRU(3, 4, reset="before"), None, ("backend 'native'", "GRU")),
        (RNN(3, 4, torch.sin), None, ("backend 'native'", "tanh", "relu")),
        (MinGRU(3, 4), None, ("backend 'native'",)),
        (LSTM(3, 4), torch.ones(2, 1), ("backend 'native'",)),
    ],
)
def test_refusals_give_a_reason(cell, carry, facts):
    with refuses(*facts):
        scan(cell, torch.zeros(2, 1, 3), carry=carry, backend="native")


OF_CUDNN = "RNN module weights are not part of single contiguous chunk of memory."


@pytest.fixture
def loud():
    """Torch says all it has to say at every call, and Python's filters are as they were afterwards."""
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        yield
    torch.set_warn_always(False)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_torch_is_silent_about_our_calls_whatever_the_filters(device, loud):
    cell, x = build("lstm-projected", dtype=torch.float32), torch.zeros(3, 2, 3)
    torch.set_default_device(device)
    try:
        for action in ("error", "always", "default"):
            warnings.simplefilter(action)
            with warnings.catch_warnings(record=True) as said:
                for _ in range(2):
                    scan(cell, x, backend="native")
                    scan(cell, x, lengths=torch.tensor([3, 1]), backend="native")
            assert said == []
    finally:
        torch.set_default_device(None)


def test_all_others_are_heard_as_the_user_wishes(loud):
    cell, x = build("lstm-projected", dtype=torch.float32), torch.zeros(3, 2, 3)
    warnings.simplefilter("error")
    scan(cell, x, backend="native")
    with pytest.raises(UserWarning, match="something else"):
        warnings.warn_explicit("something else", UserWarning, native.__file__, 1, native.__name__)
    with pytest.raises(UserWarning, match="LSTM with projections"):
        torch.nn.LSTM(3, 5, proj_size=4)(torch.zeros(3, 2, 3))


def test_what_cudnn_says_of_our_weights_is_hidden_and_of_others_is_not(loud):
    warnings.simplefilter("error")
    native._hush()
    warnings.warn_explicit(OF_CUDNN, UserWarning, native.__file__, 1, native.__name__)
    with pytest.raises(UserWarning, match="single contiguous"):
        warnings.warn_explicit(OF_CUDNN, UserWarning, "rnn.py", 1, "torch.nn.modules.rnn")


def test_the_filter_is_put_there_once(loud):
    cell, x = build("lstm-projected", dtype=torch.float32), torch.zeros(3, 2, 3)
    scan(cell, x, backend="native")
    before = list(warnings.filters)
    assert before[0] == native.HUSHED
    for _ in range(3):
        scan(cell, x, backend="native")
    assert warnings.filters == before
    warnings.simplefilter("error")
    scan(cell, x, backend="native")
    assert [one for one in warnings.filters if one == native.HUSHED] == [native.HUSHED]


def test_what_torch_has_nothing_to_say_of_leaves_the_filters_alone():
    before = list(warnings.filters)
    scan(build("lstm"), torch.zeros(3, 2, 3, dtype=torch.float64), backend="native")
    assert warnings.filters == before


@every_cell
def test_without_a_state_it_begins_with_zeros_of_the_input_s_type(name):
    cell = build(name)
    for dtype in (torch.float32, torch.float64):
        cell, x = cell.to(dtype), torch.randn(4, 3, 3, dtype=dtype)
        for lengths in (None, torch.tensor([2, 0, 4])):
            begun = scan(cell, x, lengths=lengths, backend="native")
            told = scan(cell, x, cell.initial_state(3), lengths, backend="native")
            torch.testing.assert_close(begun, told, rtol=0, atol=0)
            assert len({part.data_ptr() for part in begun.state}) == len(begun.state)


@every_cell
def test_on_another_device_it_makes_its_zeros_there(name):
    cell, x = build(name), torch.randn(4, 3, 3, dtype=torch.float64)
    native.run_layers([[cell]], x, None, None)
    outputs, last = native.run_layers([[cell.to("meta")]], x.to("meta"), None, None)
    assert {part.device.type for part in (outputs, *last)} == {"meta"}
