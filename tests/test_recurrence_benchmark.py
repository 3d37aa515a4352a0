"""The GPU benchmark of recurrences: which shapes it draws, and how it sums up figures."""

from __future__ import annotations

import pytest
import torch
from benchmarks.recurrence_gpu import (
    draw_cases,
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
