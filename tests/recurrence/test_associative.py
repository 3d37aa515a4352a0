"""The parallel scan of linear cells, against the loop of their equations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from throughtime.cells import CELLS, LinearCell, MinGRU, MinLSTM, State
from throughtime.cells.base import Cell
from throughtime.recurrence import associative
from throughtime.recurrence.associative import Associative, scan_linear
from throughtime.recurrence.backend import Backend, Reference
from throughtime.recurrence.scan import get_backend

LINEAR = {"mingru": MinGRU, "minlstm": MinLSTM}
LONG = 16_384


class LearnedDecay(LinearCell):
    """Its decay is a weight that only `coefficients` reads."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size))
        self.decay = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights()["weight_ih"])

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        return torch.sigmoid(self.weights()["decay"]).expand_as(projected), projected


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    # Threads gain nothing on tensors this small, and where other work has the cores they wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def everything(
    backend: Backend,
    cell: Cell,
    x: Tensor,
    state: State,
    lengths: Tensor | None = None,
    carry: Tensor | None = None,
) -> dict[str, Tensor]:
    """Outputs, last state, and the gradient of a random sum of both with respect to all that has one."""
    x, state = x.detach().requires_grad_(), tuple(part.detach().requires_grad_() for part in state)
    outputs, (last,) = backend.run(cell, x, state, lengths, carry)
    generator = torch.Generator().manual_seed(1)
    cost = sum((part * torch.randn(part.shape, generator=generator)).sum() for part in (outputs, last))
    wanted = {"x": x, "state": state[0], **cell.weights()}
    gradients = torch.autograd.grad(cost, list(wanted.values()))
    found = {"outputs": outputs.detach(), "last": last.detach()}
    return found | {f"d {name}": gradient for name, gradient in zip(wanted, gradients, strict=True)}


def assert_same(found: dict[str, Tensor], truth: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == truth.keys()
    for name, value in truth.items():
        assert found[name].dtype == value.dtype, name
        floor = tolerance * max(1.0, value.abs().max().item())
        torch.testing.assert_close(
            found[name], value, rtol=tolerance, atol=floor, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.fixture(autouse=True)
def _poisoned_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(associative, "_scratch", lambda like: torch.full_like(like, torch.nan))


@pytest.mark.parametrize("build", [*LINEAR.values(), LearnedDecay])
@settings(max_examples=25, deadline=None)
@given(
    steps=st.integers(1, 300), batch=st.integers(1, 4), hidden=st.integers(1, 5), seed=st.integers(0, 10**6),
    ragged=st.booleans(), carried=st.booleans(), chunk=st.sampled_from([2, 3, 16]),
    numbers=st.sampled_from([1, 2**20]),
)  # fmt: skip
def test_it_equals_the_loop_for_any_shape_lengths_and_carry(
    build: Callable[..., LinearCell],
    steps: int,
    batch: int,
    hidden: int,
    seed: int,
    ragged: bool,
    carried: bool,
    chunk: int,
    numbers: int,
) -> None:
    torch.manual_seed(seed)
    cell = build(3, hidden).double()
    x, state = torch.randn(steps, batch, 3).double(), (torch.randn(batch, hidden).double(),)
    lengths = torch.randint(0, steps + 1, (batch,)) if ragged else None
    carry = torch.randint(0, 3, (steps, batch)).double() if carried else None
    truth = everything(Reference(), cell, x, state, lengths, carry)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(associative, "CHUNK", chunk)  # small ones have many levels,
        patch.setattr(associative, "BLOCK_NUMBERS", numbers)  # and these many blocks
        assert_same(everything(Associative(), cell, x, state, lengths, carry), truth, 1e-9)


def test_what_stands_in_the_padding_does_not_matter() -> None:
    cell, x, lengths = MinLSTM(2, 3), torch.randn(100, 2, 2), torch.tensor([70, 100])
    spoilt = x.clone()
    spoilt[70:, 0] = torch.nan
    state = cell.initial_state(2)
    outputs, last = Associative().run(cell, x, state, lengths, None)
    same, same_last = Associative().run(cell, spoilt, state, lengths, None)
    assert torch.equal(outputs, same)
    assert torch.equal(last[0], same_last[0])


def test_one_of_the_two_results_may_go_unused() -> None:
    cell, x, state = MinGRU(2, 3).double(), torch.randn(90, 2, 2).double(), (torch.randn(2, 3).double(),)
    for part in (0, 1):
        found, truth = (
            torch.autograd.grad(
                [result.outputs, result.state[0]][part].square().sum(), list(cell.weights().values())
            )
            for result in (
                backend.run(cell, x, state, None, None) for backend in (Associative(), Reference())
            )
        )
        for one, other in zip(found, truth, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("name", LINEAR)
def test_long_sequences_stay_exact(name: str, dtype: torch.dtype, bound: float) -> None:
    # T = 16,384. The truth has the same rounded weights and inputs, but float64 from there on; its outputs
    # are the loop's, and its gradients are held against the loop's at other lengths above.
    torch.manual_seed(0)
    cell = LINEAR[name](8, 6).to(dtype)
    x, state = torch.randn(LONG, 2, 8, dtype=dtype), (torch.randn(2, 6, dtype=dtype),)
    found = everything(Associative(), cell, x, state)
    exact, wide, start = copy.deepcopy(cell).double(), x.double(), (state[0].double(),)
    truth = everything(Associative(), exact, wide, start)
    with torch.no_grad():
        torch.testing.assert_close(
            truth["outputs"], Reference().run(exact, wide, start, None, None).outputs, rtol=1e-9, atol=1e-9
        )
    for part, value in truth.items():
        assert found[part].dtype == dtype
        assert (found[part].double() - value).abs().max() < bound * value.abs().max(), part


@pytest.mark.parametrize("decay", [0.0, 1e-30, 0.5, 1 - 2**-8, 1 - 2**-14, 1.0])
def test_no_decay_is_too_small_or_too_close_to_one(decay: float) -> None:
    # Constant decay and drive have a closed form; cumulative products of decays would be 0 / 0 here.
    outputs = torch.empty(LONG, 1, 1)
    scan_linear(torch.full((LONG, 1, 1), decay), torch.ones(LONG, 1, 1), torch.zeros(1, 1), outputs)
    steps = torch.arange(1, LONG + 1).double()
    exact = steps if decay == 1 else (1 - decay**steps) / (1 - decay)
    torch.testing.assert_close(outputs.flatten().double(), exact, rtol=1e-4, atol=0)


def test_a_bf16_scan_remembers_more_than_bf16_could(monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 + 2^-8 is 1 again in bf16: a state kept in bf16 would stop growing at 256 of 1,000 steps.
    class Counter(LinearCell):
        def __init__(self) -> None:
            super().__init__(1, 1)
            self.weight_ih = nn.Parameter(torch.ones(1, 1))

        def project(self, x: Tensor) -> Tensor:
            return x * self.weights()["weight_ih"][0]

        def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
            return torch.ones_like(projected), projected

    cell = Counter().bfloat16()
    monkeypatch.setattr(associative, "BLOCK_NUMBERS", 1)
    x = torch.ones(1000, 1, 1, dtype=torch.bfloat16)
    _, (last,) = Associative().run(cell, x, cell.initial_state(1), None, None)
    assert last.item() == 1000
    assert last.dtype == torch.bfloat16


def test_under_autocast_the_state_stays_float32() -> None:
    cell, x = MinGRU(4, 5), torch.randn(70, 2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, (last,) = Associative().run(cell, x, cell.initial_state(2), None, None)
    assert (outputs.dtype, last.dtype) == (torch.float32, torch.float32)
    exact, _ = Associative().run(cell, x, cell.initial_state(2), None, None)
    torch.testing.assert_close(outputs, exact, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", sorted(set(CELLS) - set(LINEAR)))
def test_other_cells_are_refused_with_the_reason(name: str) -> None:
    cell = CELLS[name](2, 4)
    assert "is not linear in its state" in str(Associative().refuses(cell, torch.zeros(9, 1, 2), None, None))


def test_auto_takes_it_where_it_pays() -> None:
    names = [get_backend("auto", MinGRU(2, 3), torch.zeros(steps, 1, 2)).name for steps in (1, 7, 8, 4096)]
    assert names == ["reference", "reference", "associative", "associative"]
