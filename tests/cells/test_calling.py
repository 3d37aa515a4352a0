"""Calling a cell is to scan it."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from throughtime.cells import CELLS, GRU
from throughtime.cells.base import Cell
from throughtime.recurrence import scan


def options(cell: Cell) -> list[dict]:
    """Every option of `scan`, alone and beside others."""
    state = cell.draw_state(3, torch.Generator().manual_seed(1))
    return [
        {},
        {"state": state},
        {"lengths": torch.tensor([5, 2, 0]), "reverse": True},
        {"carry": torch.linspace(0, 1, 15, dtype=torch.float64).reshape(5, 3), "backend": "reference"},
    ]


@pytest.mark.parametrize("name", CELLS)
def test_calling_a_cell_is_to_scan_it(name):
    torch.manual_seed(0)
    cell = CELLS[name](3, 4).double()
    x = torch.randn(5, 3, 3, dtype=torch.float64, requires_grad=True)
    for chosen in options(cell):
        found = []
        for run in (cell, lambda *given, **named: scan(cell, *given, **named)):
            y, state = run(x, **chosen)
            loss = sum((part**2).sum() for part in (y, *state))
            wanted = [x, *cell.weights().values()]
            found.append(
                [y, *state, *torch.autograd.grad(loss, wanted, materialize_grads=True, allow_unused=True)]
            )
        assert len(found[0]) == len(found[1])
        for ours, theirs in zip(*found, strict=True):
            assert torch.equal(ours, theirs)
    by_row = cell(x.transpose(0, 1), batch_first=True).outputs
    assert torch.equal(by_row.transpose(0, 1), scan(cell, x).outputs)


def test_a_call_takes_what_scan_takes():
    own, scanned = (list(inspect.signature(one).parameters.values()) for one in (Cell.forward, scan))
    assert [(one.name, one.kind, one.default) for one in own[1:]] == [
        (one.name, one.kind, one.default) for one in scanned[1:]
    ]


@pytest.mark.parametrize("stacked", [False, True])
def test_hooks_of_a_cell_are_called(stacked):
    from throughtime.layers.stack import Stack

    cell, seen = GRU(3, 4), []
    cell.register_forward_hook(lambda module, inputs, found: seen.append(found.outputs))
    x = torch.randn(5, 2, 3)
    y, _ = (Stack.of([cell]) if stacked else cell)(x)
    assert len(seen) == 1
    assert torch.equal(seen[0], y)


def test_a_cell_alone_imports_no_recurrence():
    program = "import sys, throughtime.cells; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("throughtime.recurrence")]


def test_weights_are_replaced_in_one_thread_alone():
    cell = GRU(3, 4)
    own = cell.weights()
    with cell.replacing({"bias": torch.ones(12)}), cell.replacing({"weight_hh": torch.zeros(12, 4)}):
        assert cell.weights()["bias"].sum() == 12
        with ThreadPoolExecutor(1) as other:
            elsewhere = other.submit(cell.weights).result()
        assert copy.deepcopy(cell).weights()["bias"].sum() != 12
    for found in (elsewhere, cell.weights()):
        assert found.keys() == own.keys()
        assert all(found[name] is own[name] for name in own)
