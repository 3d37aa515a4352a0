"""The model of costs: what it depends on, in which direction, and how `auto` uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from throughtime.cells import GRU, LSTM, RNN, MinGRU
from throughtime.gpu import calibration, choice, torch_costs
from throughtime.gpu.comparison import MARGIN, MAX_RATIO, _compare, wins
from throughtime.gpu.costs import DEFAULTS, H200, HALF_RATE, TimedCall, Times, predict_ours
from throughtime.gpu.elements import ElementKind
from throughtime.gpu.linear_scan import LinearScan
from throughtime.gpu.persistent import Persistent, find_form
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.torch_costs import predict_loop, predict_torch
from throughtime.recurrence.choice import choose_backend

CALL = TimedCall(Form.LSTM, ElementKind.BF16, steps=35, batch=20, hidden=200, inputs=200)

calls = st.builds(
    TimedCall,
    form=st.sampled_from(Form),
    kind=st.sampled_from(ElementKind),
    steps=st.integers(1, 2000),
    batch=st.integers(1, 512),
    hidden=st.integers(1, 2056),
    inputs=st.integers(1, 4000),
    layers=st.integers(1, 8),
    directions=st.integers(1, 2),
    trains=st.booleans(),
    ragged=st.booleans(),
)


@given(calls)
def test_every_call_has_times_and_more_work_takes_longer(call):
    before = [
        predict_ours(call, H200, DEFAULTS),
        predict_torch(call, H200, DEFAULTS),
        predict_loop(call, DEFAULTS),
    ]
    for change in (
        {"steps": 2 * call.steps},
        {"layers": call.layers + 1},
        {"inputs": call.inputs + 64},
    ):
        more = call._replace(**change)
        after = [
            predict_ours(more, H200, DEFAULTS),
            predict_torch(more, H200, DEFAULTS),
            predict_loop(more, DEFAULTS),
        ]
        for times, longer in zip(before, after, strict=True):
            if times is not None:
                assert 0 < times.replayed <= times.called
                assert times.called <= longer.called
                assert times.replayed <= longer.replayed


@given(calls)
def test_a_backward_pass_takes_time(call):
    forward, trained = call._replace(trains=False), call._replace(trains=True)
    for predict in (
        lambda call: predict_ours(call, H200, DEFAULTS),
        lambda call: predict_torch(call, H200, DEFAULTS),
    ):
        if predict(trained) is not None:
            assert predict(forward).replayed < predict(trained).replayed


def test_what_does_not_fit_has_no_time():
    small = H200._replace(multiprocessors=10)
    assert predict_ours(CALL._replace(hidden=1024), small, DEFAULTS) is None
    assert not wins(None, Times(1e9, 1e9))


@pytest.mark.parametrize(
    ("ours", "others", "won"),
    [
        (Times(10.0, 10.0), Times(20.0, 20.0), True),
        (Times(10.0, 10.0), Times(20.0, 9.0), False),
        (Times(10.0, 5.0), Times(9.0, 20.0), False),
        (Times(10.0, 10.0), Times(10.0 * MARGIN - 0.01, 20.0), False),
        (Times(10.0, 10.0), Times(10.0 * MARGIN + 0.01, 10.0 * MARGIN + 0.01), True),
    ],
)
def test_what_is_recorded_must_be_faster_called_and_replayed(ours, others, won):
    assert wins(ours, others) is won


@pytest.mark.parametrize(
    ("ours", "others", "won"),
    [
        (Times(10.0, 5.0), Times(20.0, 3.0), True),
        (Times(10.0, 10.0), Times(20.0, 10.0 / MAX_RATIO - 0.01), False),
        (Times(10.0, 5.0), Times(10.0 * MARGIN - 0.01, 20.0), False),
        (None, Times(20.0, 20.0), False),
    ],
)
def test_what_is_called_must_be_faster_called(ours, others, won):
    assert wins(ours, others, recorded=False) is won


def test_a_slow_host_makes_calls_slower_but_not_replays():
    slow = replace(DEFAULTS, host=5000.0, torch_host=9000.0)
    ours, torch_s = predict_ours(CALL, H200, slow), predict_torch(CALL, H200, slow)
    assert ours.called == 5000.0
    assert ours.replayed == predict_ours(CALL, H200, DEFAULTS).replayed
    assert torch_s.called > 9000.0
    assert torch_s.replayed == predict_torch(CALL, H200, DEFAULTS).replayed


def test_torch_runs_layers_side_by_side_and_we_do_not():
    def grow(predict):
        return predict(CALL._replace(layers=3)).replayed / predict(CALL).replayed

    assert grow(lambda call: predict_torch(call, H200, DEFAULTS)) < 0.9 * grow(
        lambda call: predict_ours(call, H200, DEFAULTS)
    )


@pytest.mark.parametrize(
    ("form", "hidden", "ways"),
    [
        (Form.LSTM, 128, (True, True)),
        (Form.LSTM, 129, (True, False)),
        (Form.GRU_AFTER, 192, (True, False)),
        (Form.GRU_AFTER, 193, (False, False)),
        (Form.TANH, 256, (True, True)),
        (Form.RELU, 384, (True, False)),
        (Form.TANH, 385, (False, False)),
    ],
)
def test_torch_s_single_launch_for_small_layers(form, hidden, ways):
    call = CALL._replace(form=form, kind=ElementKind.TF32, hidden=hidden)
    assert tuple(torch_costs.is_small(call, backward) for backward in (False, True)) == ways
    assert not torch_costs.is_small(call._replace(kind=ElementKind.BF16), False)
    assert not torch_costs.is_small(call._replace(ragged=True), False)


@pytest.mark.parametrize(("kind", "step"), [(ElementKind.BF16, 8), (ElementKind.TF32, 4)])
def test_torch_is_slower_where_rows_are_not_aligned(kind, step):
    sizes = [512, 512 + step // 2]
    aligned, odd = (
        predict_torch(CALL._replace(kind=kind, hidden=size), H200, DEFAULTS).replayed for size in sizes
    )
    assert 1.15 * aligned < odd


def test_products_count_three_times_and_that_of_the_weights_in_training():
    wide = CALL._replace(steps=500, batch=256, hidden=1024, inputs=1024)
    entering, recurrent = wide.count_operations(1024)
    assert entering == recurrent == pytest.approx(2e-6 * 500 * 256 * 4 * 1024 * 1024)
    slow = replace(DEFAULTS, product=3.0)
    for call, count in ((wide._replace(trains=False), entering), (wide, 3 * entering + recurrent)):
        more = predict_ours(call, H200, slow).replayed - predict_ours(call, H200, DEFAULTS).replayed
        assert more == pytest.approx(2 * count / HALF_RATE, rel=1e-6)
    odd = wide._replace(hidden=1023)
    even, uneven = (
        predict_torch(call, H200, slow).replayed - predict_torch(call, H200, DEFAULTS).replayed
        for call in (wide, odd)
    )
    assert uneven > 2 * even


def test_packing_a_ragged_batch_keeps_the_host_busy():
    ragged = predict_torch(CALL._replace(ragged=True), H200, DEFAULTS)
    assert ragged.called > predict_torch(CALL, H200, DEFAULTS).called + 1000


def test_a_ragged_batch_is_recorded_only_with_our_kernels():
    """Packing reads the lengths on the host: if a call chose it, no update could be replayed.

    A GPU that was busy while it was measured may seem to have a fast cuDNN.
    """
    rates = replace(DEFAULTS, torch_latency=0.25)
    for steps, batch, hidden in ((1, 1, 8), (2, 3, 8), (30, 64, 256), (8, 16, 1024)):
        for form in (Form.GRU_AFTER, Form.LSTM, Form.TANH):
            for kind in (ElementKind.BF16, ElementKind.TF32):
                call = TimedCall(form, kind, steps, batch, hidden, hidden, ragged=True)
                assert _compare(call, H200, rates, False, True), call


class OnGpu:
    """What the choice asks of a tensor."""

    device, is_cuda, dtype, requires_grad = torch.device("cuda"), True, torch.bfloat16, True

    def __init__(self, *shape):
        self.shape = shape

    @staticmethod
    def get_device():
        return 0


@pytest.fixture
def auto(monkeypatch):
    """Choose for a GPU that is none, whose kernels all work."""
    monkeypatch.setattr(calibration, "find_gpu", lambda device: H200)
    monkeypatch.setattr(calibration, "get_rates", lambda device: DEFAULTS)
    monkeypatch.setattr("throughtime.gpu.choice._works", lambda *_: True)
    monkeypatch.setattr(
        Persistent, "refuses", lambda self, cell, *_: "unknown" if find_form(cell) is None else None
    )
    monkeypatch.setattr(
        LinearScan, "refuses", lambda self, cell, *_: None if cell.equations == "mingru" else "unknown"
    )

    def choose(cell, *shape, dtype=torch.bfloat16, lengths=None, carry=None, **others):
        x = OnGpu(*shape)
        x.dtype = dtype
        return choose_backend(cell, x, lengths, carry, **others).name

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    choice.forget()
    yield choose
    choice.forget()


@pytest.mark.parametrize("steps", [4, 30, 1024])
def test_sentences_of_a_translator_run_in_our_kernels(auto, steps):
    assert auto(GRU(256, 256), steps, 64, 256) == "persistent"
    assert auto(LSTM(256, 300), steps, 64, 256) == "persistent"


def test_what_torch_does_better_is_left_to_torch(auto):
    with choice.expecting_graphs():
        assert auto(LSTM(43, 43), 22, 2, 43, dtype=torch.float32, layers=2) == "native"
        assert auto(LSTM(43, 43), 22, 2, 43, layers=2) == "persistent"  # cuDNN has no single launch in bf16
        assert auto(RNN(1536, 1536), 53, 256, 1536) == "native"
    assert auto(RNN(1536, 1536), 53, 256, 1536, dtype=torch.float32) == "native"


def test_without_torch_s_kernel_ours_is_compared_with_a_loop(auto):
    assert auto(GRU(1536, 1536, reset="before"), 200, 64, 1536) == "persistent"
    assert auto(RNN(1536, 1536), 53, 256, 1536, carry=torch.ones(53, 256)) == "persistent"
    assert auto(RNN(1536, 1536, torch.sin), 1, 64, 1536) == "reference"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("make", [RNN, GRU, LSTM, MinGRU])
def test_factors_on_gradients_run_in_our_kernels(auto, make, dtype):
    """With or without lengths: torch's kernels have no such factors, so a loop would take their place."""
    for steps, batch, hidden in ((8, 5, 32), (70, 20, 650), (35, 64, 1024)):
        carry, lengths = torch.ones(steps, batch), torch.full((batch,), steps)
        for more in ({}, {"lengths": lengths}):
            chosen = auto(make(hidden, hidden), steps, batch, hidden, dtype=dtype, carry=carry, **more)
            assert chosen == ("linear" if make is MinGRU else "persistent")


@pytest.mark.parametrize("steps", [1, 8, 500])
def test_linear_cells_run_in_one_launch(auto, steps):
    assert auto(MinGRU(64, 64), steps, 3, 64) == "linear"


def test_where_graphs_are_expected_recording_changes_no_choice(auto, monkeypatch):
    shapes = [(steps, batch, size) for steps in (1, 10, 100) for batch in (1, 30, 250) for size in (64, 256)]

    def choose():
        return [auto(LSTM(shape[2], shape[2]), *shape, dtype=torch.float32) for shape in shapes]

    called = choose()
    with choice.expecting_graphs():
        before = choose()
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        choice.forget()
        assert choose() == before
    choice.forget()
    assert choose() == before
    assert {*before} == {"native", "persistent"}
    # What runs on our kernels when recorded has run on them before, and all kernels have been tried.
    assert all(
        one == "persistent" for one, other in zip(called, before, strict=True) if other == "persistent"
    )


def test_a_small_layer_that_is_called_runs_where_the_host_is_done_sooner(auto):
    cell = RNN(40, 40)
    assert auto(cell, 4, 1, 40, dtype=torch.float32) == "persistent"
    with choice.expecting_graphs():
        assert auto(cell, 4, 1, 40, dtype=torch.float32) == "native"
    with torch.no_grad():
        assert auto(cell, 4, 1, 40, dtype=torch.float32) == "native"


def test_small_layers_with_some_steps_run_in_our_kernels(auto):
    with choice.expecting_graphs():
        assert auto(RNN(50, 50), 132, 33, 50, dtype=torch.float32) == "persistent"
        assert auto(LSTM(49, 49), 476, 11, 49, dtype=torch.float32, layers=3) == "persistent"


def test_rates_that_change_change_the_choice(auto, monkeypatch):
    assert auto(LSTM(512, 512), 35, 20, 512) == "persistent"
    slow = replace(DEFAULTS, exchange=20.0)
    monkeypatch.setattr(calibration, "get_rates", lambda device: slow)
    choice.forget()
    assert auto(LSTM(512, 512), 35, 20, 512) == "native"
