"""Probes: each constant follows from its measurement; cases are described as the model sees them."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch

from throughtime.gpu import probes
from throughtime.gpu.costs import DEFAULTS, H200, CostRates
from throughtime.gpu.elements import ElementKind
from throughtime.gpu.measuring import TimingCase
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.probes import PROBES, fit_rates

PARTS = ("product", "product32", "memory", "launch")


def test_every_constant_is_measured():
    assert {*PARTS, *(probe.constant for probe in PROBES)} == set(asdict(DEFAULTS))


@pytest.mark.parametrize("factors", [(1.3, 0.8), (0.6, 1.7)])
def test_the_constants_are_found_again(factors):
    scaled = {
        name: value * factors[number % 2] for number, (name, value) in enumerate(asdict(DEFAULTS).items())
    }
    truth = CostRates(**scaled)
    measured = {}
    for probe in PROBES:
        time = probe.predict(H200, truth)
        measured[probe] = time * probe.fitted / probe.predict(H200, DEFAULTS) if probe.fitted else time
    parts = replace(DEFAULTS, **{name: scaled[name] for name in PARTS})
    assert asdict(fit_rates(H200, parts, DEFAULTS, measured)) == pytest.approx(scaled, rel=0.02)


def test_the_h200_of_the_fit_has_the_constants_of_the_fit():
    measured = {probe: probe.fitted or probe.predict(H200, DEFAULTS) for probe in PROBES}
    found = fit_rates(H200, DEFAULTS, DEFAULTS, measured)
    assert asdict(found) == pytest.approx(asdict(DEFAULTS))


def test_a_constant_that_does_not_matter_is_left_as_it_is():
    (host,) = (probe for probe in PROBES if probe.constant == "host")
    slow = replace(DEFAULTS, exchange=1e4)  # the GPU takes longer than the host
    assert host.solve(H200, slow, 5.0) == slow


def test_nonsense_stays_within_bounds():
    measured = {probe: 1e-3 if number % 2 else 1e9 for number, probe in enumerate(PROBES)}
    found = asdict(fit_rates(H200, DEFAULTS, DEFAULTS, measured))
    for name, value in asdict(DEFAULTS).items():
        assert value / 4.001 < found[name] < value * 4.001


def test_settings_of_the_program_stay(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: torch.no_grad())
    owners = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [owner.allow_tf32 for owner in owners]
    try:
        for wanted in (False, True):
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = wanted
            with torch.no_grad():
                with pytest.raises(ZeroDivisionError), probes._alone(0):
                    assert all(owner.allow_tf32 for owner in owners)
                    assert torch.is_grad_enabled()
                    raise ZeroDivisionError
                assert not torch.is_grad_enabled()
            assert [owner.allow_tf32 for owner in owners] == [wanted, wanted]
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def test_a_case_is_described_as_the_model_sees_it():
    case = TimingCase("gru", torch.bfloat16, 7, 3, 20, layers=2, directions=2, trains=False)
    call = case.describe()
    assert (call.form, call.kind) == (Form.GRU_AFTER, ElementKind.BF16)
    assert (call.steps, call.batch, call.hidden, call.inputs) == (7, 3, 20, 20)
    assert (call.layers, call.directions, call.trains, call.ragged) == (2, 2, False, False)
    (task,) = case.list_tasks()
    assert (task.width, task.batch, task.backward) == (24, 3, False)
    assert [task.backward for task in replace(case, trains=True).list_tasks()] == [False, True]


def test_predictions_are_compared_with_measurements(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(probes.calibration, "find_gpu", lambda device: H200)
    monkeypatch.setattr(probes.calibration, "get_rates", lambda device: DEFAULTS)
    monkeypatch.setattr(probes, "_alone", lambda device: torch.no_grad())
    monkeypatch.setattr(probes.Probe, "measure", lambda probe: 100.0 + probe.ours + 2 * probe.replayed)
    rows = probes.compare_predictions()
    assert len(rows) == len(probes.SHOWN_CASES)
    for row, case in zip(rows, probes.SHOWN_CASES, strict=True):
        assert str(case.hidden) in row["shape"]
        assert [time["measured"] for time in row["times"].values()] == [101.0, 103.0, 100.0, 102.0]
        assert list(row["times"]) == ["ours, called", "ours, replayed", "torch, called", "torch, replayed"]
        assert all(time["predicted"] > 0 for time in row["times"].values())
        assert list(row["auto"]) == ["called", "recorded"]
    chosen = {tuple(row["auto"].values()) for row in rows}
    assert chosen == {("persistent", "persistent"), ("persistent", "native")}
