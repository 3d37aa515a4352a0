"""What runs on a GPU is measured once, remembered, and the same for all processes and after a resumption."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import nullcontext

import pytest
import torch
from tests.recurrence.test_layers import LENGTHS, build, cells_of

from throughtime.accelerate import adopt_times, export_times
from throughtime.cells import GRU, LSTM, RNN, MinGRU
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import choice, driver, timing, trials
from throughtime.gpu.linear_scan import LinearScan
from throughtime.gpu.persistent import Persistent, find_form, forget_programs
from throughtime.gpu.timing import TimedCall, Times, round_up
from throughtime.recurrence import scan
from throughtime.recurrence.choice import BACKENDS, choose_backend, choose_for_layers

SPEEDS = {"ours": 1.0, "torch": 2.0}
"""Milliseconds of a call."""


class OnGpu:
    """What the choice asks of a tensor."""

    device, is_cuda, dtype, requires_grad = torch.device("cuda"), True, torch.bfloat16, True

    def __init__(self, *shape):
        self.shape = shape or (100, 16, 3)

    @staticmethod
    def get_device():
        return 0


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU that is none: kernels that take as long as `SPEEDS` says, by a clock of their own."""
    state = {"clock": 0.0, "calls": [], "capturing": False, "rank": None, **SPEEDS}
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["capturing"])
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(timing, "_describe", lambda device: {"name": "a GPU that is none"})
    monkeypatch.setattr(time, "perf_counter", lambda: state["clock"])
    monkeypatch.setattr(trials, "works", lambda *_: not state["capturing"] or None)
    monkeypatch.setattr(
        Persistent, "refuses", lambda self, cell, *_: "unknown" if find_form(cell) is None else None
    )
    monkeypatch.setattr(
        LinearScan, "refuses", lambda self, cell, *_: None if cell.equations == "mingru" else "unknown"
    )
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: state["rank"] is not None)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: state["rank"])

    def build_step(call, ours):
        name = "torch" if ours is None else "ours"

        def step():
            state["calls"].append((name, call.bucket))
            if isinstance(state[name], Exception):
                raise state[name]
            state["clock"] += state[name] / 1e3

        return step

    monkeypatch.setattr(timing, "build_step", build_step)
    monkeypatch.setattr(timing, "record_step", lambda step: step)
    start_again()
    yield state
    start_again()


def start_again(**options):
    """What a new process knows."""
    timing.forget_times(**options)
    choice.forget()


def choose(cell=None, *shape, lengths=None, carry=None):
    return choose_backend(cell or LSTM(3, 4), OnGpu(*shape), lengths, carry).name


def test_the_faster_one_is_taken(gpu):
    assert choose() == "persistent"
    start_again(stored=True)
    gpu["ours"] = 2.0  # equally fast: a gain that cannot be measured is no reason to leave torch
    assert choose() == "native"


def test_each_is_called_three_times_after_it_has_compiled_and_then_never_again(gpu):
    choose()
    names = [name for name, _ in gpu["calls"]]
    assert names == ["ours"] * 5 + ["torch"] * 5
    assert (timing.WARM_UPS, timing.CALLS) == (2, 3)
    choose()
    choice.forget()
    choose()  # from the table
    assert len(gpu["calls"]) == 10


def test_what_was_measured_is_stored_for_the_next_process(gpu):
    assert choose() == "persistent"
    start_again()
    gpu["ours"], gpu["calls"] = 9.0, []
    assert choose() == "persistent"
    assert gpu["calls"] == []
    stored = json.loads(timing.cache_entry(timing._name(0)).read_text())
    assert stored["gpu"] == {"name": "a GPU that is none"}
    ((bucket, pair),) = stored["microseconds"].items()
    assert bucket == "lstm bf16 T128 B16 I3 H4 L1 D1 trained called"
    assert pair == pytest.approx([1000.0, 2000.0])


@pytest.mark.parametrize(
    "content", ["", "{}", '{"microseconds": {"x": [1]}}', '{"microseconds": {"x": [0, 1]}}']
)
def test_a_damaged_store_is_measured_again(gpu, content):
    choose()
    timing.cache_entry(timing._name(0)).write_text(content)
    start_again()
    gpu["calls"] = []
    choose()
    assert len(gpu["calls"]) == 10


def test_shapes_of_one_bucket_are_measured_once(gpu):
    choose(None, 100, 16, 3)
    choose(None, 128, 14, 3)
    assert len(gpu["calls"]) == 10
    choose(None, 129, 16, 3)
    choose(LSTM(3, 5), 100, 16, 3)
    choose(GRU(3, 4), 100, 16, 3)
    assert len(gpu["calls"]) == 40


def test_buckets_grow_with_the_numbers():
    assert all(number <= round_up(number) < 1.5 * number for number in range(2, 3000))
    assert len({round_up(number) for number in range(1, 513)}) == 18


def test_the_number_of_cells_that_run_at_once_is_known(gpu):
    for layers, directions in ((1, 1), (2, 1), (1, 2)):
        choose_for_layers(cells_of(build("gru", layers, directions)), OnGpu())
    sizes = {" ".join(bucket.split()[-4:-2]) for _, bucket in gpu["calls"]}
    assert sizes == {"L1 D1", "L2 D1", "L1 D2"}


def test_nothing_is_measured_while_a_graph_is_recorded(gpu):
    gpu["capturing"] = True
    assert choose() == "native"
    assert gpu["calls"] == []
    gpu["capturing"] = False
    with choice.expecting_graphs():
        assert choose() == "persistent"
        gpu["capturing"] = True
        assert choose() == "persistent"
    assert {bucket.split()[-1] for _, bucket in gpu["calls"]} == {"replayed"}


@pytest.mark.parametrize(("speed", "chosen"), [(0.5, "native"), (2.0, "persistent")])
def test_a_call_that_is_recorded_unexpectedly_runs_on_what_was_faster_when_called(gpu, speed, chosen):
    gpu["torch"] = speed
    assert choose() == chosen
    gpu["capturing"] = True
    assert choose() == chosen
    assert {bucket.split()[-1] for _, bucket in gpu["calls"]} == {"called"}


def test_where_graphs_are_expected_recording_changes_no_choice(gpu):
    for gpu["torch"] in (0.5, 2.0):
        start_again(stored=True)
        with choice.expecting_graphs():
            called = choose()
            gpu["capturing"] = True
            choice.forget()
            assert choose() == called
            gpu["capturing"] = False


def test_calls_without_a_backward_pass_are_compared_as_replayed(gpu, monkeypatch):
    monkeypatch.setattr(OnGpu, "requires_grad", False)
    with torch.no_grad():
        choose()
    assert {bucket.split()[-2:] == ["forward", "replayed"] for _, bucket in gpu["calls"]} == {True}


def test_what_torch_has_no_kernel_for_is_never_left_to_it(gpu):
    gpu["torch"] = 0.1
    assert choose(GRU(3, 4, reset="before")) == "persistent"
    assert choose(LSTM(3, 4), carry=torch.ones(100, 16)) == "persistent"
    assert choose(MinGRU(3, 4)) == "linear"
    assert choose(RNN(3, 4, torch.sin)) == "reference"
    assert gpu["calls"] == []


def test_a_ragged_batch_that_may_be_recorded_runs_on_our_kernels(gpu):
    gpu["torch"] = 0.1
    assert choose(lengths=LENGTHS) == "native"
    assert {"ragged" in bucket for _, bucket in gpu["calls"]} == {True}
    with choice.expecting_graphs():
        assert choose(lengths=LENGTHS) == "persistent"
    start_again(stored=True)
    with torch.no_grad():  # searches record such calls, so that they run alike before
        assert choose(lengths=LENGTHS) == "persistent"


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), ThroughtimeError("no compiler")])
def test_a_call_that_cannot_be_measured_runs_in_torch(gpu, error):
    gpu["torch"] = error
    with pytest.warns(ThroughtimeWarning, match=str(error)):
        assert choose() == "native"
    count = len(gpu["calls"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice.forget()
        assert choose() == "native"
    assert len(gpu["calls"]) == count  # nor is it tried again by this process
    assert export_times() == {}
    assert not timing.cache_entry(timing._name(0)).exists()


def test_a_kernel_that_does_not_work_is_not_timed(gpu, monkeypatch):
    monkeypatch.setattr(trials, "works", lambda *_: False)
    assert choose() == "native"
    assert choose(MinGRU(3, 4)) == "associative"
    assert gpu["calls"] == []


def test_only_the_first_process_measures_and_the_others_take_its_times(gpu):
    gpu["rank"] = 1
    assert choose() == "native"
    assert gpu["calls"] == []
    gpu["rank"] = 0
    choice.forget()
    assert choose() == "persistent"
    times = json.loads(json.dumps(export_times()))
    start_again(stored=True)
    gpu["rank"], gpu["calls"] = 1, []
    assert choose() == "native"
    adopt_times(times)
    assert choose() == "persistent"
    assert gpu["calls"] == []


def test_the_times_of_a_run_replace_what_was_measured_since(gpu):
    gpu["torch"] = 0.5
    assert choose() == "native"
    run = {bucket: [1.0, 3.0] for bucket in export_times()}
    adopt_times(run)
    assert choose() == "persistent"
    assert export_times() == run


def test_a_few_calls_are_described(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU {number}")
    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    monkeypatch.setattr(choice, "_build_call", lambda device, name, *_: ([[LSTM(3, 4)]], OnGpu()))
    said = []
    rows = choice.describe(False, said.append)
    assert said == ["measuring GPU 0 (GPU 0) ..."]
    assert len(rows) == len(choice.SHOWN)
    assert rows[0]["shape"] == "lstm bfloat16 T35 B20 H200 L1 trained"
    assert rows[0]["times"] == pytest.approx(
        {"ours, called": 1000, "torch, called": 2000, "ours, replayed": 1000, "torch, replayed": 2000}
    )
    assert rows[0]["auto"] == {"called": "persistent", "recorded": "persistent"}
    assert [*rows[-1]["times"]] == ["ours, replayed", "torch, replayed"]
    gpu["calls"], gpu["ours"] = [], 9.0
    assert choice.describe(False, said.append) == rows
    assert gpu["calls"] == []
    assert choice.describe(True, said.append)[0]["auto"]["called"] == "native"


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("autocast", [True, False])
def test_a_step_runs_what_a_call_runs(trains, ragged, autocast):
    """On a CPU, where a backend for layers is made of torch's kernels."""
    ran = []

    class Layers:
        def run_layers(self, layers, x, state, lengths, carry=None, dtype=None, **_):
            ran.append((dtype, None if lengths is None else lengths.tolist()))
            with torch.autocast("cpu", enabled=False):
                return timing.native.run_layers(layers, x, state, lengths)

    layers = cells_of(build("lstm", 2, 2, torch.float32))
    x, lengths = torch.ones(7, 3, layers[0][0].input_size, requires_grad=trains), torch.tensor([7, 0, 7])
    call = TimedCall(layers, x, lengths if ragged else None, trains, False)
    for ours in (Layers(), None):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            timing.build_step(call, ours)()
    assert ran == [(torch.bfloat16 if autocast else None, [7, 6, 5] if ragged else None)]
    assert x.grad is None
    assert all(weight.grad is None for layer in layers for cell in layer for weight in cell.parameters())


def test_timing_leaves_the_graph_of_replaced_weights_alone():
    ((cell,),) = cells_of(build("gru", 1, 1, torch.float32))
    x = torch.zeros(7, 3, cell.input_size, requires_grad=True)
    dropped = cell.weight_hh.square()  # whose graph can be gone through once
    with cell.replacing({"weight_hh": dropped}):
        step = timing.build_step(TimedCall([[cell]], x, None, True, False), None)
        step()
        step()
    dropped.sum().backward()
    torch.testing.assert_close(cell.weight_hh.grad, 2 * cell.weight_hh)


def test_times_say_which_is_faster():
    assert Times(1.0, 1.1).ours_win
    assert not Times(1.0, 1.01).ours_win
    assert not timing.FAILED.ours_win


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("trains", [False, True])
def test_on_a_gpu_both_are_timed(trains, replayed):
    layers = [layer.cells for layer in build("lstm", 2, 1, device="cuda").float().layers]
    x = torch.zeros(40, 8, layers[0][0].input_size, device="cuda", requires_grad=trains)
    call = TimedCall(layers, x, None, trains, replayed)
    with torch.set_grad_enabled(trains):
        times = timing.measure_times(call, BACKENDS["persistent"])
    assert all(1.0 < microseconds < 1e6 for microseconds in times)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_on_a_gpu_a_kernel_that_does_not_compile_is_passed_over(monkeypatch):
    def fail(*_):
        raise ThroughtimeError("a GPU kernel did not compile")

    driver._build_once.cache_clear()  # another test may have loaded the same kernel
    forget_programs()
    monkeypatch.setattr(driver, "machine_code", fail)
    cell = GRU(16, 27).to("cuda", torch.bfloat16)
    x = torch.randn(40, 5, 16, device="cuda").bfloat16().requires_grad_()
    with pytest.warns(ThroughtimeWarning, match="did not compile"):
        outputs, _ = scan(cell, x)
    expected, _ = scan(cell, x, backend="reference")
    torch.testing.assert_close(outputs, expected, rtol=0.1, atol=0.05)
