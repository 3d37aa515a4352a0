"""The survey of a GPU: which steps are written down, from clocks that are made up."""

from __future__ import annotations

import pytest
import torch

from throughtime.recurrence import measuring
from throughtime.recurrence.measuring import TimingCase, measure_break_even

SHAPE = (torch.bfloat16, 256, 8, True)


@pytest.fixture
def clocks(monkeypatch):
    """Make ours so many times as fast at so many steps, called and replayed; hear what was asked."""
    asked = []

    def set_clocks(times):
        monkeypatch.setattr(TimingCase, "build_ours", lambda case, backend: ("ours", case.steps, "called"))
        monkeypatch.setattr(TimingCase, "build_theirs", lambda case: ("theirs", case.steps, "called"))
        monkeypatch.setattr(measuring, "record_graph", lambda call: (*call[:2], "replayed"))

        def microseconds(call, seconds):
            whose, steps, way = call
            asked.append((whose, steps, way))
            return 100.0 if whose == "ours" else 100.0 * times[steps][way == "replayed"]

        monkeypatch.setattr(measuring, "microseconds", microseconds)
        return asked

    return set_clocks


@pytest.mark.parametrize(
    ("times", "columns"),
    [
        ({35: (2.0, 2.0)}, [35, 35, 35]),
        ({35: (2.0, 1.4), 128: (3.0, 1.8), 1024: (4.0, 2.5)}, [35, 35, 1024]),
        ({35: (2.0, 1.1), 128: (3.0, 1.4), 1024: (4.0, 1.6)}, [35, 128, None]),
        ({35: (1.02, 9.0), 128: (1.5, 2.0)}, [128, 128, 128]),
        ({35: (2.0, 1.02), 128: (2.0, 1.02), 1024: (2.0, 1.02)}, [None, None, None]),
        ({35: (0.5, 2.0), 128: (0.7, 2.0), 1024: (0.9, 2.0)}, [None, None, None]),
    ],
)
def test_each_number_of_layers_has_the_fewest_steps_that_pay(times, columns, clocks):
    clocks(times)
    assert measure_break_even("lstm", *SHAPE) == columns


def test_one_clocking_serves_all_columns_and_stops_when_they_are_full(clocks):
    asked = clocks({35: (2.0, 1.4), 128: (3.0, 2.0)})
    measure_break_even("gru", *SHAPE)
    assert len(asked) == len(set(asked)) == 6
    # called, the longer sequence pays because the shorter one did
    assert ("ours", 128, "called") not in asked
    assert max(steps for _, steps, _ in asked) == 128


def test_where_torch_has_no_module_its_layers_run_in_turn_too(clocks):
    clocks({35: (2.0, 1.1)})
    assert measure_break_even("mingru", *SHAPE) == [35, 35, 35]


def test_what_is_too_large_is_not_tried(clocks):
    asked = clocks({35: (0.5, 0.5), 128: (0.5, 0.5)})
    assert measure_break_even("lstm", torch.bfloat16, 1536, 128, True) == [None, None, None]
    assert {steps for _, steps, _ in asked} == {35, 128}


def test_the_survey_has_a_row_for_each_shape(clocks, monkeypatch):
    clocks({35: (2.0, 1.5), 128: (2.0, 1.5), 1024: (2.0, 1.5)})
    monkeypatch.setattr(measuring, "SIZES", (256,))
    monkeypatch.setattr(measuring, "COARSE", (256,))
    monkeypatch.setattr(measuring, "BATCHES", (8, 20))
    found = {(backend, name_use): rows for backend, name_use, rows in measuring.survey()}
    assert found["persistent", "lstm float16 forward"] == [[256, 8, 35, 35, None], [256, 20, 35, 35, None]]
    assert found["linear", "mingru bfloat16 trained"] == [[256, 8, 35, 35, 35], [256, 20, 35, 35, 35]]


def test_margins_grow_with_the_layers():
    assert list(measuring.REPLAYED) == sorted(measuring.REPLAYED)
