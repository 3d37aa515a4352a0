"""Products and sums over all rows in one launch, on the emulated GPU and on a real one."""

from __future__ import annotations

import pytest
import torch
from tests.emulated import machine
from tests.emulated.machine import SMALL
from tests.gpu.test_persistent import CELLS, problem

from throughtime.gpu import driver, weight_gradients
from throughtime.gpu.batched_copies import At
from throughtime.gpu.elements import KINDS, ElementKind
from throughtime.gpu.persistent import forget_programs, run_layers
from throughtime.gpu.persistent_memory import DTYPES
from throughtime.gpu.weight_gradients import MAX_TASKS, JointProducts, count_tiles, is_joined
from throughtime.recurrence import scan

needs_compiler = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")


@pytest.fixture
def emulated(monkeypatch):
    monkeypatch.setattr(driver, "build", machine.build)
    weight_gradients._prepare_kernel.cache_clear()
    yield
    weight_gradients._prepare_kernel.cache_clear()


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def collect(depth, parts, kind=ElementKind.FLOAT):
    """Products over this number of rows, in this number of parts or fewer."""
    products, step = JointProducts(kind, -1, depth, 1, 1), 128 // kind.size
    products.each = -(-depth // (parts * step)) * step
    products.parts = -(-depth // products.each)
    return products


def run(products, *tensors):
    for launch in products.prepare():
        launch([tensor.data_ptr() for tensor in tensors])


@needs_compiler
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("depth", [1, 31, 64, 65, 200])
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (64, 72), (136, 40)])
def test_products_and_sums_in_parts_equal_torch_s(depth, rows, columns, dtype, emulated):
    """What lies beside the matrices is not a number: it must not come in."""
    left, right = (
        torch.full((depth + 80, width + 16), float("nan"), dtype=dtype) for width in (rows, columns)
    )
    left[:depth, 8 : 8 + rows], right[:depth, :columns] = draw(depth, rows), draw(depth, columns)
    products = collect(depth, 3, KINDS[dtype])
    shape = products.parts, rows * columns + 24
    into, sums = torch.full(shape, 7.0), torch.full((products.parts, rows), 7.0)
    first = At(0, 8 * dtype.itemsize), rows + 16, rows
    products.multiply(first, (At(1), columns + 16, columns), At(2), shape[1])
    products.add_rows(first, At(3))
    run(products, left, right, into, sums)
    a, b = left[:depth, 8 : 8 + rows].double(), right[:depth, :columns].double()
    found = into[:, : rows * columns].double().sum(0).view(rows, columns)
    assert (found - a.t() @ b).abs().le(1e-6 * (a.abs().t() @ b.abs())).all()
    assert (sums.double().sum(0) - a.sum(0)).abs().le(3e-7 * a.abs().sum(0)).all()
    assert into[:, rows * columns :].eq(7.0).all()


@needs_compiler
def test_tf32_rounds_products_but_not_sums(emulated):
    left, right = draw(100, 16), draw(100, 24)
    products = collect(100, 2, ElementKind.TF32)
    into, sums = torch.empty(products.parts, 16, 24), torch.empty(products.parts, 16)
    products.multiply((At(0), 16, 16), (At(1), 24, 24), At(2), 16 * 24)
    products.add_rows((At(0), 16, 16), At(3))
    run(products, left, right, into, sums)
    error = (into.double().sum(0) - left.double().t() @ right.double()).abs().max()
    assert 1e-4 < error < 0.05
    torch.testing.assert_close(sums.sum(0), left.sum(0), rtol=0, atol=1e-5)


@needs_compiler
def test_more_products_than_one_launch_takes(emulated):
    left, into = draw(MAX_TASKS + 2, 3, 8), torch.empty(MAX_TASKS + 2, 8)
    products = collect(3, 1)
    for number in range(MAX_TASKS + 2):
        products.add_rows((At(0, 4 * 24 * number), 8, 8), At(1, 32 * number))
    assert len(products.prepare()) == 2
    run(products, left, into)
    torch.testing.assert_close(into, left.sum(1))


@pytest.mark.parametrize(
    ("depth", "tiles", "parts"),
    [(1, 1, 1), (100, 1, 1), (3913, 16, 24), (3913, 200, 1), (3913, 150, 2), (200, 4, 3), (10**6, 1, 396)],
)
def test_parts_fill_the_gpu_and_are_not_too_short(depth, tiles, parts):
    products = JointProducts(ElementKind.TF32, -1, depth, tiles, 132)
    assert products.each % 32 == 0
    assert (products.parts - 1) * products.each < depth <= products.parts * products.each
    assert 0.8 * parts <= products.parts <= parts


@pytest.mark.parametrize(
    ("depth", "tiles", "joined"),
    [(10**6, 100, True), (10**6, 120, False), (36, 1000, True), (36, 2000, False)],
)
def test_large_results_are_left_to_torch_unless_rows_are_few(depth, tiles, joined):
    assert is_joined(ElementKind.TF32, depth, tiles, 132) is joined
    assert is_joined(ElementKind.FLOAT, depth, tiles, 132) is joined


@pytest.mark.parametrize(
    ("depth", "tiles", "joined"), [(10**6, 40, True), (10**6, 50, False), (36, 200, True), (36, 300, False)]
)
def test_in_16_bits_more_is_left_to_torch(depth, tiles, joined):
    assert is_joined(ElementKind.BF16, depth, tiles, 132) is joined
    assert is_joined(ElementKind.TF32, depth, tiles, 132)


@needs_compiler
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("hidden", [16, 17])
@pytest.mark.parametrize("name", CELLS)
def test_gradients_of_both_directions_in_parts_equal_the_reference(name, hidden, joined, plan, monkeypatch):
    """Law 1: sizes with and without padding, products of ours and of torch's beside each other."""
    plan(SMALL)
    monkeypatch.setattr(weight_gradients, "MIN_PART_ROWS", 1)
    cells = [CELLS[name](8, hidden) for _ in range(2)]
    monkeypatch.setattr(
        "throughtime.gpu.persistent_weights.is_joined",
        lambda kind, depth, tiles, _: joined or tiles < 3,
    )
    x, state, lengths, carry = problem(cells[0], 9, 8, ragged=True, carry=True)
    outputs = run_layers([cells], x, (*state, *state), lengths, carry).outputs
    truth = torch.cat(
        [
            scan(cell, x, state, lengths, carry=carry, reverse=reverse, backend="reference").outputs
            for cell, reverse in zip(cells, (False, True), strict=True)
        ],
        2,
    )
    wanted = [x, *state, *cells[0].parameters(), *cells[1].parameters()]
    gradient = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad(outputs, wanted, gradient, allow_unused=True)
    expected = torch.autograd.grad(truth, wanted, gradient, allow_unused=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("converted", [True, False])
@pytest.mark.parametrize("name", ["gru", "gru-before", "lstm"])
def test_in_16_bits_joined_products_equal_torch_s(name, converted, plan, monkeypatch):
    plan(SMALL)
    monkeypatch.setattr(weight_gradients, "MIN_PART_ROWS", 1)
    dtype = torch.float32 if converted else torch.bfloat16
    cells = [CELLS[name](8, 17).to(dtype) for _ in range(4)]
    for cell in cells[2:]:
        cell.weight_ih = torch.nn.Parameter(torch.randn(cell.weight_ih.shape[0], 34, dtype=dtype))
    x = draw(20, 9, 8).to(dtype)
    found = []
    for joined in (True, False):
        forget_programs()
        monkeypatch.setattr("throughtime.gpu.persistent_weights.is_joined", lambda *_, joined=joined: joined)
        outputs = run_layers([cells[:2], cells[2:]], x, None, None, dtype=torch.bfloat16).outputs
        weights = [weight for cell in cells for weight in cell.parameters()]
        found.append(torch.autograd.grad(outputs, weights, draw(*outputs.shape).to(outputs.dtype)))
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype is theirs.dtype is dtype
        assert (ours - theirs).float().norm() < 5e-3 * theirs.float().norm()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("kind", ElementKind)
@pytest.mark.parametrize(
    ("depth", "rows", "columns"), [(1, 8, 8), (165, 104, 104), (3913, 128, 64), (2001, 640, 168)]
)
def test_products_and_sums_on_a_gpu_are_right_and_repeat_to_the_bit(depth, rows, columns, kind):
    left, right = (draw(depth, width).to("cuda", DTYPES[kind]) for width in (rows, columns))
    tiles = count_tiles(rows, columns) + count_tiles(rows, 1)
    products = JointProducts(kind, torch.cuda.current_device(), depth, tiles, 132)
    into = torch.empty(products.parts, rows, columns, device="cuda")
    sums = torch.empty(products.parts, rows, device="cuda")
    products.multiply((At(0), rows, rows), (At(1), columns, columns), At(2), rows * columns)
    products.add_rows((At(0), rows, rows), At(3))
    run(products, left, right, into, sums)
    first = into.clone(), sums.clone()
    run(products, left, right, into, sums)
    assert torch.equal(into, first[0])
    assert torch.equal(sums, first[1])
    a, b = left.double(), right.double()
    error = (into.double().sum(0) - a.t() @ b).abs() / (a.abs().t() @ b.abs())
    assert error.max() < (1e-3 if kind is ElementKind.TF32 else 2e-6)
    assert ((sums.double().sum(0) - a.sum(0)).abs() / a.abs().sum(0)).max() < 1e-6
