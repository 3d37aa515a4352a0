"""`throughtime doctor`: what serves what here, and why others refuse."""

from __future__ import annotations

import json

import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS
from throughtime.cli.doctor import _measure, doctor
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


def test_without_a_gpu_there_is_nothing_to_measure(told):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    assert told["calls"] == []
    with refuses("--measure"):
        doctor(measure=True)


def test_the_times_of_ours_and_of_torch_are_shown(capsys, monkeypatch):
    rows = [
        {
            "shape": "trained",
            "times": {"ours, called": 1234.4, "torch, replayed": 99.6},
            "auto": {"called": "persistent", "recorded": "native"},
        },
        {
            "shape": "forward",
            "times": {"torch, replayed": 2222.0},
            "auto": {"called": "native", "recorded": "native"},
        },
    ]
    monkeypatch.setattr("throughtime.cli.doctor._measure", lambda again: rows)
    doctor()
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    assert lines["trained"].split() == ["trained", "1,234", "100", "persistent", "/", "native"]
    assert lines["forward"].split() == ["forward", "2,222", "native"]
    doctor(json=True)
    assert json.loads(capsys.readouterr().out)["calls"] == rows


@pytest.mark.parametrize("error", [ThroughtimeError("a GPU kernel did not compile: x"), RuntimeError("")])
def test_a_gpu_that_cannot_be_measured_has_no_times(capsys, monkeypatch, error):
    def fail(again, say):
        raise error

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("throughtime.accelerate.describe_gpus", fail)
    assert _measure(False) == []
    assert (str(error) or "RuntimeError") in capsys.readouterr().err
