"""The persistent and linear kernels on a GPU, against the loop of the equations."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from benchmarks.recurrence_gpu_check import TOLERANCE, everything, problem, worst_error
from benchmarks.recurrence_gpu_soak import CELLS, draw_case, run_case
from torch import nn

from throughtime.cells import LSTM, MinGRU, MinLSTM
from throughtime.gpu import driver
from throughtime.recurrence import scan
from throughtime.recurrence.backpropagation import scan_in_chunks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")

LINEAR = {"mingru": MinGRU, "minlstm": MinLSTM}
SECONDS = 120
MANY = 100_000
"""Among so many sums one may lie so near relu's corner that roundings decide on which side."""


@pytest.fixture(autouse=True)
def watched():
    """A launch that never ends would hold the machine: give up on the whole process instead."""
    timer = threading.Timer(SECONDS, os._exit, [3])
    timer.start()
    yield
    timer.cancel()


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    ("steps", "batch", "hidden"),
    [(1, 1, 1), (9, 3, 5), (7, 17, 40), (11, 20, 650), (5, 64, 1024), (3, 20, 2056)],
)
@pytest.mark.parametrize("name", CELLS)
def test_it_equals_the_reference(name, steps, batch, hidden, ragged, precision):  # law 1, R105
    if name == "rnn-relu" and precision != "float32":
        pytest.skip("rounded, a sum near relu's corner falls on the other side of it")
    part, error = worst_error(CELLS[name], (steps, batch, hidden), precision, ragged=ragged)
    one_turned = name == "rnn-relu" and steps * batch * hidden > MANY
    assert error < (0.05 if one_turned else TOLERANCE[precision]), part


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(1, 1, 2), (300, 3, 70), (1000, 8, 1024)])
@pytest.mark.parametrize("name", LINEAR)
def test_the_linear_kernel_equals_the_reference(name, steps, batch, hidden, ragged, precision):  # laws 1, 4
    part, error = worst_error(
        LINEAR[name], (steps, batch, hidden), precision, ragged=ragged, backend="linear"
    )
    assert error < TOLERANCE[precision], part


@pytest.mark.parametrize("name", CELLS)
def test_a_run_repeats_to_the_bit(name):
    data = problem(CELLS[name], (40, 20, 650), torch.bfloat16, ragged=True)
    first = everything(*data, None, "persistent")
    for _ in range(20):
        again = everything(*data, None, "persistent")
        assert all(torch.equal(first[part], again[part]) for part in first)


@pytest.mark.parametrize("seed", range(16))
def test_random_shapes_and_plans_end_and_are_right(seed):
    """Each seed compiles one shape and launches it many times; `benchmarks.recurrence_gpu_soak` runs more."""
    case = draw_case(seed, driver.limits(torch.cuda.current_device()))
    assert run_case(case) is None, case


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("hidden", [1, 17, 31])
@pytest.mark.parametrize("name", CELLS)
def test_few_units_equal_the_reference(name, hidden, precision):  # law 1
    if name == "rnn-relu" and precision != "float32":
        pytest.skip("rounded, a sum near relu's corner falls on the other side of it")
    for steps, batch, ragged in ((1, 1, False), (33, 64, False), (1, 5, True), (17, 7, True)):
        shape = steps, batch, hidden
        part, error = worst_error(CELLS[name], shape, precision, ragged=ragged, seed=hidden)
        assert error < TOLERANCE[precision], (part, shape)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_chunks_with_lengths_on_the_gpu_equal_the_reference(name, reverse, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    cell, x, state, _ = problem(CELLS[name], (50, 9, 70), torch.float32)
    lengths = torch.tensor([50, 0, 1, 7, 8, 9, 33, 49, 0], device="cuda")
    carry = 2 * torch.rand(50, 9, device="cuda")
    found = []
    for backend in ("persistent", "reference"):
        outputs, last = scan_in_chunks(
            cell, x, state, lengths, chunk=8, reverse=reverse, carry=carry, backend=backend
        )
        loss = outputs.square().sum() + sum(part.sin().sum() for part in last)
        found.append([outputs, *last, *torch.autograd.grad(loss, [x, *state, *cell.parameters()])])
    torch.testing.assert_close(*found, rtol=2e-4, atol=2e-4)


def test_it_can_be_recorded_in_a_graph():
    cell, x, state, _ = problem(LSTM, (16, 8, 256), torch.bfloat16)
    # Without its graph, which would tie the gradients of the recording to the stream of this one.
    expected = everything(cell, x, state, None, None, "persistent")["outputs"].detach()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        everything(cell, x, state, None, None, "persistent")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = scan(cell, x, state, backend="persistent").outputs
        gradients = torch.autograd.grad(outputs.float().sum(), [x, *cell.parameters()])
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(outputs, expected)
    assert all(torch.isfinite(part).all() for part in gradients)


def curve(backend, dtype):
    """Losses of a small language model that learns a text with a rhythm, from the same weights each time."""
    torch.manual_seed(3)
    embedding, head = nn.Embedding(40, 64).to("cuda"), nn.Linear(256, 40).to("cuda")
    cells = [LSTM(64, 256).to("cuda"), LSTM(256, 256).to("cuda")]
    model = nn.ModuleList([embedding, head, *cells])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    text = torch.cat([torch.arange(40), torch.arange(0, 40, 3)]).repeat(200).to("cuda")
    losses = []
    for step in range(150):
        rows = torch.stack([text[row * 211 + step : row * 211 + step + 36] for row in range(16)], 1)
        with torch.autocast("cuda", dtype, enabled=dtype is not torch.float32):
            x = embedding(rows[:-1])
            for cell in cells:
                x = scan(cell, x, backend=backend).outputs
            loss = nn.functional.cross_entropy(head(x).flatten(0, 1).float(), rows[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-3), (torch.bfloat16, 3e-2)])
def test_a_language_model_learns_as_it_does_with_cudnn(dtype, within, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    ours, theirs = curve("persistent", dtype), curve("native", dtype)
    assert theirs[-1] < theirs[0] / 4
    torch.testing.assert_close(ours, theirs, rtol=within, atol=within)
