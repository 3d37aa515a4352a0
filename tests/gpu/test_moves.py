"""Several copies in one launch, on the emulated GPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.emulated import machine
from torch.nn.functional import pad

from throughtime.gpu import batched_copies as copies_module
from throughtime.gpu import driver
from throughtime.gpu.batched_copies import FROM_FLOAT, MAX_MOVES, TO_FLOAT, At, Copies, Launch, Matrix
from throughtime.gpu.elements import KINDS

pytestmark = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setattr(driver, "build", machine.build)
    monkeypatch.setattr(copies_module, "WARPS", 2)
    monkeypatch.setattr(copies_module, "FILLED", 1 << 10)
    copies_module._prepare_kernel.cache_clear()
    yield
    copies_module._prepare_kernel.cache_clear()


def numbers(dtype, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def run(copies, *tensors):
    for launch in copies.prepare():
        launch([tensor.data_ptr() for tensor in tensors])


every_type = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


@every_type
@pytest.mark.parametrize(("size", "width"), [(5, 8), (64, 72), (65, 72), (130, 136)])
def test_what_is_made_wide_is_padded_with_zeros_and_comes_back(size, width, dtype):
    rows, weight = numbers(dtype, 69, size), numbers(dtype, 3 * size, 67)
    wide, wide_weight = (
        torch.full((69, width), 7.0, dtype=dtype),
        torch.full((3 * width, 72), 7.0, dtype=dtype),
    )
    copies = Copies(KINDS[dtype], -1)
    copies.copy(Matrix(At(0), 69, width, width), Matrix(At(1), 69, size, size))
    copies.copy(Matrix(At(2), width, 72, 72), Matrix(At(3), size, 67, 67), groups=3)
    run(copies, wide, rows, wide_weight, weight)
    missing = width - size
    assert torch.equal(wide, pad(rows, (0, missing)))
    assert torch.equal(wide_weight, pad(weight.view(3, size, 67), (0, 5, 0, missing)).flatten(0, 1))
    back, back_weight = torch.empty_like(rows), torch.empty_like(weight)
    copies = Copies(KINDS[dtype], -1)
    copies.copy(Matrix(At(0), 69, size, size), Matrix(At(1), 69, width, width))
    copies.copy(Matrix(At(2), size, 67, 67), Matrix(At(3), width, 72, 72), groups=3)
    run(copies, back, wide, back_weight, wide_weight)
    assert torch.equal(back, rows)
    assert torch.equal(back_weight, weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_are_converted_on_the_way(dtype):
    exact = torch.cat(
        [numbers(torch.float32, 70, 67), torch.tensor([[0.0, -0.0, 1e-8, 65000.0, 1.0]]).repeat(70, 1)], 1
    )
    narrow, wide = torch.empty(70, 72, dtype=dtype), torch.empty(70, 72)
    copies = Copies(KINDS[dtype], -1)
    copies.copy(Matrix(At(0), 70, 72, 72), Matrix(At(1), 70, 72, 72), conversion=FROM_FLOAT)
    run(copies, narrow, exact)
    assert torch.equal(narrow, exact.to(dtype))
    copies = Copies(KINDS[dtype], -1)
    copies.copy(Matrix(At(0), 70, 72, 72), Matrix(At(1), 70, 72, 72), conversion=TO_FLOAT)
    run(copies, wide, narrow)
    assert torch.equal(wide, narrow.float())


@every_type
def test_rows_become_columns_beside_others(dtype):
    size, width = 70, 72
    weight, into = numbers(dtype, 3 * size, size), torch.full((width, 4 * width), 7.0, dtype=dtype)
    copies = Copies(KINDS[dtype], -1)
    last = Matrix(At(1, 2 * size * size * dtype.itemsize), size, size, size)
    copies.transpose(At(0), 4 * width, width, last)
    copies.transpose(
        At(0, width * dtype.itemsize), 4 * width, width, Matrix(At(1), size, size, size), groups=2
    )
    run(copies, into, weight)
    expected = torch.full((width, 4, width), 7.0, dtype=dtype)
    gates = pad(weight.view(3, size, size), (0, 2, 0, 2))
    for slot, gate in enumerate((2, 0, 1)):
        expected[:, slot] = gates[gate].t()
    assert torch.equal(into, expected.flatten(1))


def test_float32_weights_are_transposed_and_converted_at_once():
    weight, into = numbers(torch.float32, 40, 40), torch.empty(40, 40, dtype=torch.bfloat16)
    copies = Copies(KINDS[torch.bfloat16], -1)
    copies.transpose(At(0), 40, 40, Matrix(At(1), 40, 40, 40), conversion=FROM_FLOAT)
    run(copies, into, weight)
    assert torch.equal(into, weight.t().to(torch.bfloat16))


def test_void_is_as_long_as_asked_for_and_zeros_lie_where_they_should():
    memory = torch.ones(1000, dtype=torch.int32)
    copies = Copies(KINDS[torch.float32], -1)
    copies.mark_unwritten(At(0, 16), 3 * 1024 + 16)
    copies.clear(Matrix(At(0, 4 * 800), 3, 5, 10))
    run(copies, memory)
    assert memory[4:776].eq(-1).all()
    assert memory[:4].eq(1).all()
    assert memory[776:800].eq(1).all()
    assert memory[800:830].view(3, 10)[:, :5].eq(0).all()
    assert memory[800:830].view(3, 10)[:, 5:].eq(1).all()


@every_type
@pytest.mark.parametrize("parts", [1, 8, 19])
def test_parts_are_added_up_in_order_without_their_padding(parts, dtype):
    wide, tight = numbers(torch.float32, parts, 3 * 40 * 72 + 8), torch.full((3, 37, 66), 7.0, dtype=dtype)
    exact = torch.full((40, 72), 7.0)
    copies = Copies(KINDS[dtype], -1)
    copies.add_up(Matrix(At(0), 37, 66, 66), Matrix(At(1), 40, 72, 72), parts, 3 * 40 * 72 + 8, groups=3)
    first = Matrix(At(1), 40, 72, 72)
    copies.add_up(Matrix(At(2), 40, 72, 72), first, parts, 3 * 40 * 72 + 8, conversion=TO_FLOAT)
    run(copies, tight, wide, exact)
    expected = torch.zeros(3, 40, 72)
    for part in wide:
        expected += part[: 3 * 40 * 72].view(3, 40, 72)
    assert torch.equal(tight, expected[:, :37, :66].to(dtype))
    assert torch.equal(exact, expected[0])


def test_more_copies_than_one_launch_takes():
    source, into = numbers(torch.float32, MAX_MOVES + 3, 4), torch.zeros(MAX_MOVES + 3, 4)
    copies = Copies(KINDS[torch.float32], -1)
    for row in range(MAX_MOVES + 3):
        copies.copy(Matrix(At(0, 16 * row), 1, 4, 4), Matrix(At(1, 16 * row), 1, 4, 4))
    assert len(copies.prepare()) == 2
    run(copies, into, source)
    assert torch.equal(into, source)


def test_nothing_to_copy_builds_nothing(monkeypatch):
    monkeypatch.setattr(driver, "build", None)
    assert Copies(KINDS[torch.float32], -1).prepare() == []


@pytest.mark.parametrize("bound", [False, True])
def test_a_launch_is_told_the_addresses_of_its_call(bound):
    told = []

    def kernel(blocks, arguments, stream=None):
        told.append((blocks, list(arguments), stream))

    kernel.bind = lambda *given: partial(kernel, *given)
    launch = Launch(kernel, 7, (5, At(1, 16), 0, At(0)))
    launch = launch.bind() if bound else launch
    launch([100, 200])
    launch([0, 300])
    assert told == [(7, [5, 216, 0, 100], None), (7, [5, 316, 0, 0], None)]
