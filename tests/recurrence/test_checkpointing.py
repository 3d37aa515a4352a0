"""Long sequences in chunks that are computed again for the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from torch import Tensor

from throughtime.cells import CELLS, GRU, LSTM, Cell, MinGRU
from throughtime.recurrence import Result, scan
from throughtime.recurrence.backpropagation import scan_in_chunks

Way = Callable[..., Result]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    # Threads gain nothing on tensors this small, and where other work has the cores they wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def everything(way: Way, cell: Cell, x: Tensor, **options: Any) -> list[Tensor]:
    """Outputs, last state, and the gradients of a random sum of them: weights, learned state, x and state."""
    x = x.detach().requires_grad_()
    sources = [*cell.parameters(), x]
    if options.get("state"):
        options["state"] = tuple(part.detach().requires_grad_() for part in options["state"])
        sources += options["state"]
    outputs, state = way(cell, x, **options)
    generator = torch.Generator().manual_seed(1)
    results = [outputs, *state]
    cost = sum(
        (part * torch.randn(part.shape, generator=generator, dtype=part.dtype)).sum() for part in results
    )
    return [*(part.detach() for part in results), *torch.autograd.grad(cost, sources)]


def assert_same(found: list[Tensor], truth: list[Tensor], tolerance: float) -> None:
    for one, other in zip(found, truth, strict=True):
        floor = tolerance * max(1.0, other.abs().max().item())
        torch.testing.assert_close(one, other, rtol=tolerance, atol=floor)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
def test_it_equals_scan_for_every_cell(name: str, reverse: bool) -> None:
    torch.manual_seed(0)
    cell = CELLS[name](3, 4, initial="learned").double()
    x, lengths = torch.randn(23, 3, 3).double(), torch.tensor([23, 0, 11])
    options = {"lengths": lengths, "reverse": reverse}
    assert_same(
        everything(scan_in_chunks, cell, x, chunk=5, **options), everything(scan, cell, x, **options), 1e-9
    )


@settings(max_examples=30, deadline=None)
@given(
    steps=st.integers(1, 40), chunk=st.one_of(st.none(), st.integers(1, 45)), seed=st.integers(0, 10**6),
    ragged=st.booleans(), reverse=st.booleans(), carried=st.booleans(),
)  # fmt: skip
def test_it_equals_scan_for_any_chunk(
    steps: int, chunk: int | None, seed: int, ragged: bool, reverse: bool, carried: bool
) -> None:
    torch.manual_seed(seed)
    cell, x = GRU(2, 3).double(), torch.randn(steps, 3, 2).double()
    options = {
        "state": (torch.randn(3, 3).double(),),
        "lengths": torch.randint(0, steps + 1, (3,)) if ragged else None,
        "carry": torch.randint(0, 3, (steps, 3)).double() if carried else None,
        "reverse": reverse,
    }
    assert_same(
        everything(scan_in_chunks, cell, x, chunk=chunk, **options),
        everything(scan, cell, x, **options),
        1e-9,
    )


def kept_bytes(run: Callable[[], Any]) -> int:
    """The memory that stays for the backward pass, each piece of storage counted once."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = run()
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del result
    return total


def test_a_long_sequence_has_its_full_gradient_and_keeps_little() -> None:
    torch.manual_seed(0)
    cell, x = LSTM(8, 16), torch.randn(5000, 1, 8)
    assert_same(everything(scan_in_chunks, cell, x), everything(scan, cell, x), 1e-5)
    whole = kept_bytes(lambda: scan(cell, x, backend="auto"))
    chunked = kept_bytes(lambda: scan_in_chunks(cell, x))
    assert chunked < whole / 3
    # The inputs, the weights, and two states of 16 numbers for each of 71 chunks: nothing that grows with T.
    own = x.nbytes + sum(weight.nbytes for weight in cell.weights().values())
    assert chunked <= own + 71 * 2 * 16 * 4


def test_nothing_but_the_chunks_is_in_the_graph() -> None:
    # A node for each step would outweigh the states that are kept.
    outputs, _ = scan_in_chunks(LSTM(2, 3), torch.randn(400, 1, 2), chunk=20, backend="reference")
    nodes, waiting = set(), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += [source for source, _ in node.next_functions]
    assert len(nodes) < 2 * 20


def test_autocast_holds_in_the_recomputation_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, x, seen = GRU(4, 4), torch.randn(30, 2, 4), []
    project = cell.project
    monkeypatch.setattr(cell, "project", lambda x: seen.append(x.dtype) or project(x))
    with torch.autocast("cpu", torch.bfloat16):
        outputs, _ = scan_in_chunks(cell, x, chunk=15, backend="reference")
    outputs.float().sum().backward()
    assert seen == [torch.bfloat16] * 4


def test_weights_replaced_in_the_forward_pass_are_those_of_the_backward_pass() -> None:
    cell, x = LSTM(2, 3).double(), torch.randn(30, 2, 2).double()
    gradients = []
    for way in (scan, scan_in_chunks):
        source = torch.full((12, 3), 0.3, dtype=torch.float64, requires_grad=True)
        with cell.replacing({"weight_hh": source * 2}):
            outputs, _ = way(cell, x)
            assert torch.equal(cell.weights()["weight_hh"], source * 2)
        gradients += torch.autograd.grad(outputs.square().sum(), source)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)
    assert torch.equal(cell.weights()["weight_hh"], cell.weight_hh)


def test_the_gradient_may_be_asked_for_twice() -> None:
    cell, x = MinGRU(2, 3), torch.randn(30, 1, 2)
    cost = scan_in_chunks(cell, x).outputs.square().sum()
    first = torch.autograd.grad(cost, cell.weight_ih, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(cost, cell.weight_ih)[0])


def test_without_gradients_it_only_runs() -> None:
    cell, x = GRU(2, 3), torch.randn(30, 1, 2)
    with torch.no_grad():
        outputs, (last,) = scan_in_chunks(cell, x)
    assert not outputs.requires_grad
    torch.testing.assert_close(last, outputs[-1])


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"chunk": 0}, ("chunk", "0", "1")),
        ({"carry": torch.ones(31, 1)}, ("carry", "[31, 1]", "[time, batch]", "[30, 1]")),
        ({"lengths": torch.tensor([31])}, ("lengths", "31", "0", "30")),
        ({"backend": "fussed"}, ("backend", "'fussed'", "'fused'")),
    ],
)
def test_wrong_words_get_a_sentence(options: dict[str, Any], facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        scan_in_chunks(GRU(2, 3), torch.zeros(30, 1, 2), **options)


def test_no_steps_are_refused() -> None:
    with refuses("x", "[0, 1, 2]"):
        scan_in_chunks(GRU(2, 3), torch.zeros(0, 1, 2))
