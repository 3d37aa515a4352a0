"""The constants of a GPU: measured once, stored, and never trusted blindly."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, fields, replace

import pytest
import torch

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import calibration, driver, probes
from throughtime.gpu.costs import DEFAULTS, H200, CostRates

MEASURED = CostRates(**{name: 1.25 * value for name, value in asdict(DEFAULTS).items()})
A100 = H200._replace(
    capability=(8, 0), multiprocessors=108, shared=166912, clock=1410.0, memory=1.555e6, l2=40 << 20
)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Make up a GPU, and count how often it is measured."""
    state = {"description": {"name": "Test GPU", "driver": "1"}, "capturing": False, "measured": []}

    def measure_rates(device, derived):
        state["measured"].append(device)
        if "error" in state:
            raise state["error"]
        time.sleep(state.get("seconds", 0.0))
        return state.get("found", MEASURED)

    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "find_gpu", lambda device: H200)
    monkeypatch.setattr(calibration, "_describe", lambda device: state["description"])
    monkeypatch.setattr(driver, "unavailable", lambda device: state.get("reason"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["capturing"])
    monkeypatch.setattr(probes, "measure_rates", measure_rates)
    calibration.forget()
    yield state
    calibration.forget()


def stored(tmp_path):
    """The one file of the cache."""
    (path,) = (tmp_path / "cache" / "gpus").iterdir()
    return path


def test_it_is_measured_once_and_read_by_the_next_process(gpu):
    for _ in range(2):
        assert calibration.get_rates(0) == MEASURED
    calibration.forget()
    assert calibration.get_rates(0) == MEASURED
    assert gpu["measured"] == [0]


@pytest.mark.parametrize("what", ["name", "driver"])
def test_another_gpu_or_driver_is_measured_again(gpu, what):
    calibration.get_rates(0)
    calibration.forget()
    gpu["description"] = {**gpu["description"], what: "another"}
    calibration.get_rates(0)
    assert len(gpu["measured"]) == 2


def test_what_constants_depend_on(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Test GPU")
    monkeypatch.setattr(driver, "limits", lambda device: (132, 232448))
    monkeypatch.setattr(calibration, "_find_driver", lambda: "580.1")
    calibration._describe.cache_clear()
    told = calibration._describe(0)
    calibration._describe.cache_clear()
    assert told["torch"] == torch.__version__
    assert (told["name"], told["driver"], told["multiprocessors"]) == ("Test GPU", "580.1", "132")
    assert {"cudnn", "throughtime"} <= set(told)
    (tmp_path / "version").write_text("NVRM version: 580.1\nGCC\n")
    monkeypatch.undo()
    assert calibration._find_driver(tmp_path / "version") == "NVRM version: 580.1"


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace(": 1", ": -1").replace("rates", "rates"),
        lambda text: json.dumps({**json.loads(text), "rates": {}}),
        lambda text: json.dumps({**json.loads(text), "rates": {**asdict(MEASURED), "more": 1.0}}),
        lambda text: json.dumps({**json.loads(text), "rates": dict.fromkeys(asdict(MEASURED), float("nan"))}),
        lambda text: json.dumps({**json.loads(text), "rates": dict.fromkeys(asdict(MEASURED), "fast")}),
        lambda text: json.dumps({**json.loads(text), "gpu": {"name": "another"}}),
    ],
)
def test_a_file_that_cannot_be_used_is_replaced(gpu, damage, tmp_path):
    calibration.get_rates(0)
    path = stored(tmp_path)
    text = path.read_text()
    path.write_text(damage(text))
    calibration.forget()
    assert calibration.get_rates(0) == MEASURED
    assert len(gpu["measured"]) == 2
    assert path.read_text() == text


def test_without_a_folder_to_write_to_it_is_measured_all_the_same(gpu, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "file"))
    with pytest.warns(ThroughtimeWarning, match="cannot be written"):
        assert calibration.get_rates(0) == MEASURED


def test_nothing_is_measured_while_a_graph_is_recorded(gpu):
    gpu["capturing"] = True
    assert calibration.get_rates(0) == calibration.derive_rates(H200)
    assert gpu["measured"] == []
    gpu["capturing"] = False
    assert calibration.get_rates(0) == MEASURED
    gpu["capturing"] = True
    assert calibration.get_rates(0) == MEASURED


@pytest.mark.parametrize("error", [RuntimeError("busy"), ThroughtimeError("busy"), OSError("busy")])
def test_a_failure_leaves_what_properties_imply(gpu, error, tmp_path):
    gpu["error"] = error
    with pytest.warns(ThroughtimeWarning, match="busy"):
        assert calibration.get_rates(0) == calibration.derive_rates(H200)
    assert not (tmp_path / "cache" / "gpus").exists()
    calibration.get_rates(0)
    assert len(gpu["measured"]) == 1


def test_a_gpu_without_our_kernels_is_not_measured(gpu):
    gpu["reason"] = "too old"
    assert calibration.get_rates(0) == calibration.derive_rates(H200)
    assert gpu["measured"] == []


def test_measuring_again_replaces_what_is_stored(gpu):
    calibration.get_rates(0)
    gpu["found"] = DEFAULTS
    assert calibration.measure_again(0) == DEFAULTS
    calibration.forget()
    assert calibration.get_rates(0) == DEFAULTS


def test_threads_wait_for_one_measurement(gpu):
    gpu["seconds"], found = 0.1, []
    threads = [threading.Thread(target=lambda: found.append(calibration.get_rates(0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [MEASURED] * 4
    assert len(gpu["measured"]) == 1


def test_measurements_far_from_the_expected_are_bounded():
    names = [field.name for field in fields(CostRates)]
    wild = replace(DEFAULTS, **{names[0]: 1e9, names[1]: 1e-9, names[2]: float("nan")})
    found = asdict(calibration.bound_rates(wild, DEFAULTS))
    usual = asdict(DEFAULTS)
    assert found[names[0]] == calibration.FARTHEST * usual[names[0]]
    assert found[names[1]] == usual[names[1]] / calibration.FARTHEST
    assert [found[name] for name in names[2:]] == [usual[name] for name in names[2:]]


def test_an_h200_has_the_constants_that_were_fitted_there():
    assert calibration.derive_rates(H200) == DEFAULTS


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_on_a_gpu_it_is_measured_wherever_the_program_is(monkeypatch, tmp_path):
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "cache"))
    calibration.forget()
    try:
        numbers = torch.random.get_rng_state(), torch.cuda.get_rng_state()
        allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        with torch.inference_mode(), torch.autocast("cuda", torch.float16), torch.device("cuda"):
            found = calibration.get_rates(0)
            assert torch.is_inference_mode_enabled()
            assert torch.is_autocast_enabled("cuda")
        assert torch.equal(torch.random.get_rng_state(), numbers[0])
        assert torch.equal(torch.cuda.get_rng_state(), numbers[1])
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == allowed
        assert json.loads(stored(tmp_path).read_text())["rates"] == asdict(found)
        # While a graph is recorded, nothing may be measured; afterwards the stored constants serve again.
        calibration.forget()
        x, graph = torch.zeros(8, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
            derived = calibration.get_rates(0)
        assert derived == calibration.derive_rates(calibration.find_gpu(0))
        assert calibration.get_rates(0) == found
    finally:
        calibration.forget()
