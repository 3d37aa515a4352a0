"""The GPU benchmark of recurrences: which shapes it draws, and how it sums up figures."""

from __future__ import annotations

import math

import pytest
import torch
from benchmarks.recurrence_gpu import (
    compute_ratios,
    draw_cases,
    find_worst,
    read_case,
    summarise,
    write_case,
)


def test_the_seed_decides_and_every_kind_of_shape_is_drawn():
    cases = draw_cases(5, 400)
    assert cases == draw_cases(5, 400)
    assert cases[:50] == draw_cases(5, 50)
    assert cases != draw_cases(6, 400)
    assert all(case.trains and case.steps * case.batch * case.hidden < 2**28 for case in cases)
    assert {case.cell for case in cases} == {"lstm", "gru", "rnn"}
    assert {(case.layers, case.directions) for case in cases} == {(a, b) for a in (1, 2, 3) for b in (1, 2)}
    assert sum(case.dtype is torch.bfloat16 for case in cases) == 200


@pytest.mark.parametrize(
    ("name", "low", "high"), [("steps", 4, 512), ("batch", 1, 256), ("hidden", 32, 1550)]
)
def test_logarithms_are_uniform_between_the_bounds(name, low, high):
    values = [getattr(case, name) for case in draw_cases(0, 2000)]
    assert low <= min(values) < 1.1 * low + 1
    assert 0.9 * high < max(values) <= high
    middle = math.sqrt(low * high)
    assert 0.46 < sum(value < middle for value in values) / len(values) < 0.54


def test_a_case_is_written_and_read():
    for case in draw_cases(0, 6):
        assert read_case(write_case(case)) == case


def rows(ratios, backend="persistent", dtype="bfloat16"):
    """Figures of shapes at which ours is so many times as fast as torch, called and replayed."""
    case = write_case(draw_cases(0, 1)[0])
    return [
        {
            **case,
            "dtype": dtype,
            "backend": backend,
            "backend_replayed": backend,
            "ours": 1.0,
            "ours_replayed": 1.0,
            "theirs": a,
            "theirs_replayed": b,
        }
        for a, b in ratios
    ]


def test_the_summary_has_means_the_worst_and_what_is_left_to_torch():
    found = rows([(2.0, 8.0), (0.5, 0.5)]) + rows([(0.97, 0.99), (0.99, 1.0), (0.9, 1.01)], "native")
    found.append({**found[0], "error": "died"})
    told = {row["name"].split(": ")[1]: row for row in summarise(found) if "bfloat16 called" in row["name"]}
    assert told["geometric mean"]["value"] == pytest.approx((2 * 0.5 * 0.97 * 0.99 * 0.9) ** 0.2, abs=1e-3)
    assert told["worst"] == {**told["worst"], "value": 0.5, "target": 0.95, "met": False}
    assert told["share below 0.95"]["value"] == pytest.approx(0.4)
    assert told["median of 3 left to torch"] == {
        **told["median of 3 left to torch"],
        "value": 0.97,
        "target": 0.98,
        "met": False,
    }
    replayed = {row["name"].split(": ")[1]: row for row in summarise(found) if "bfloat16 rep" in row["name"]}
    assert replayed["median of 3 left to torch"]["met"]


def test_precisions_are_told_apart():
    found = rows([(6.0, 4.0)]) + rows([(2.0, 1.0)], dtype="float32")
    means = {row["name"].split(",")[0]: row for row in summarise(found) if "geometric" in row["name"]}
    assert means["bfloat16 called"]["value"] == 6.0
    assert means["bfloat16 called"]["met"]
    assert means["float32 replayed"]["value"] == 1.0
    assert not means["float32 replayed"]["met"]


def test_the_worst_shapes_come_first():
    found = rows([(3.0, 2.0), (0.9, 5.0), (4.0, 0.8), (9.0, 9.0)])
    assert [min(compute_ratios(row).values()) for row in find_worst(found, 3)] == [0.8, 0.9, 2.0]
