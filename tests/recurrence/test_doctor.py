"""`throughtime doctor`: what serves what here, and why others refuse."""

from __future__ import annotations

import json

import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS
from throughtime.cli.doctor import _cpu_flags, _measure, _predictions, doctor
from throughtime.errors import ThroughtimeError
from throughtime.recurrence import BACKENDS, scan


@pytest.fixture
def told(capsys):
    doctor(json=True)
    return json.loads(capsys.readouterr().out)


def test_it_names_the_versions_and_the_machine(told):
    assert told["torch"] == torch.__version__
    assert told["threads"] == torch.get_num_threads()
    assert told["cpu_capability"]


def test_each_cell_is_served_or_refused_with_a_reason(told):
    assert [row["cell"] for row in told["cells"]] == list(CELLS)
    for row in told["cells"]:
        for backend in BACKENDS:
            assert (backend in row["refusals"]) != _serves(backend, row["cell"])
        assert not set(row["backends"].values()) & set(row["refusals"])


def _serves(backend, name):
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        scan(CELLS[name](3, 4).to(device), torch.zeros(2, 1, 3, device=device), backend=backend)
    except ValueError:
        return False
    return True


def test_people_read_a_table(capsys):
    doctor()
    out = capsys.readouterr().out
    assert "lstm-coupled" in out
    assert "no kernel for this cell" in " ".join(out.split())


def test_the_processor_s_flags_are_read(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("flags : fpu avx2 avx512_bf16\n")
    assert _cpu_flags(info) == ["avx2", "avx512_bf16"]
    assert _cpu_flags(tmp_path / "none") == []


def test_without_a_gpu_there_is_nothing_to_measure_or_predict(told):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    assert told["predictions"] == []
    with refuses("--measure"):
        doctor(measure=True)


def test_predictions_stand_beside_measurements(capsys, monkeypatch):
    times = {name: {"predicted": 1234.4, "measured": 99.6} for name in ("ours, called", "torch, replayed")}
    auto = {"called": "persistent", "recorded": "native"}
    rows = [{"shape": "lstm bfloat16 T35", "times": times, "auto": auto}]
    monkeypatch.setattr("throughtime.cli.doctor._predictions", lambda: rows)
    doctor()
    out = capsys.readouterr().out
    assert "lstm bfloat16 T35" in out
    assert out.count("1,234 / 100") == 2
    assert "persistent / native" in out
    doctor(json=True)
    assert json.loads(capsys.readouterr().out)["predictions"] == rows


def test_a_shape_that_does_not_fit_our_kernels_leaves_their_columns_empty(capsys, monkeypatch):
    ours, theirs = ({"predicted": time, "measured": time} for time in (1111.0, 2222.0))
    uses = "called", "recorded"
    rows = [
        {"shape": "large", "times": {"torch, called": theirs}, "auto": dict.fromkeys(uses, "native")},
        {
            "shape": "small",
            "times": {"ours, called": ours, "torch, called": theirs},
            "auto": dict.fromkeys(uses, "persistent"),
        },
    ]
    monkeypatch.setattr("throughtime.cli.doctor._predictions", lambda: rows)
    doctor()
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    for cell in ("2,222 / 2,222", "native"):
        same = "persistent" if cell == "native" else cell
        assert lines["large"].index(cell) == lines["small"].index(same)
    assert "1,111" not in lines["large"]


@pytest.mark.parametrize("error", [ThroughtimeError("a GPU kernel did not compile: x"), RuntimeError("")])
def test_a_gpu_that_cannot_be_measured_has_no_predictions(capsys, monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("throughtime.gpu.driver.unavailable", lambda device: None)
    monkeypatch.setattr("throughtime.gpu.probes.compare_predictions", fail)
    assert _predictions() == []
    assert (str(error) or "RuntimeError") in capsys.readouterr().err


def test_measuring_measures_every_gpu(monkeypatch, capsys):
    measured = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"GPU {number}")
    monkeypatch.setattr("throughtime.gpu.calibration.measure_again", measured.append)
    _measure()
    assert measured == [0, 1]
