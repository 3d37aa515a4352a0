"""What heads say: losses against torch's distributions and scipy's, quantiles in order, draws that fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.refusals import refuses
from torch.nn.functional import softplus

from throughtime.models.forecast_heads import MIN_SCALE, GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.runtime.forecast import OutputDistribution

SAID = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
TARGET = torch.randn(40, generator=torch.Generator().manual_seed(1))
SCALE = MIN_SCALE + softplus(SAID[:, 1])


def quantiles(head, outputs, probabilities):
    """The quantiles that a trained or exported model reads from the outputs of a head."""
    values = head.describe_values(outputs).detach().numpy()
    return torch.from_numpy(OutputDistribution(head.settings()).quantiles(values, probabilities))


def draw(head, outputs):
    values, chances = head.describe_values(outputs).detach().numpy(), np.random.default_rng(0)
    return torch.from_numpy(OutputDistribution(head.settings()).draw(values, chances.random(len(values))))


@pytest.mark.parametrize("p", [0.001, 0.025, 0.1, 0.5, 0.9, 0.999])
def test_quantiles_of_distributions_are_scipys(p):
    student, outputs = StudentHead(), SAID[:3]
    centre, scale = outputs[:, 0].numpy(), SCALE[:3].numpy()
    degrees = student.degrees.item()
    assert quantiles(GaussianHead(), outputs, [p])[0].numpy() == pytest.approx(
        stats.norm.ppf(p, centre, scale), abs=1e-4
    )
    found = quantiles(student, outputs, [p])[0].numpy()
    assert found == pytest.approx(stats.t.ppf(p, degrees, centre, scale), rel=2e-3, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=5, max_size=5))
def test_quantiles_never_cross(numbers):
    head = QuantileHead((0.05, 0.3, 0.5, 0.6, 0.99))
    found = quantiles(head, torch.tensor([numbers]), (0.05, 0.1, 0.3, 0.5, 0.55, 0.6, 0.8, 0.99)).ravel()
    assert (found.diff() >= 0).all()
    assert head.mean(torch.tensor([numbers])) == found[3]


def test_quantile_loss_is_the_pinball_loss():
    head = QuantileHead((0.1, 0.5))
    outputs = torch.tensor([[0.0, 1.0]])
    low, middle = head.describe_values(outputs).ravel().tolist()
    above = 2 * (0.1 * (3 - low) + 0.5 * (3 - middle)) / 2
    below = 2 * (0.9 * (low + 5) + 0.5 * (middle + 5)) / 2
    assert head.loss(outputs, torch.tensor([3.0])).item() == pytest.approx(above)
    assert head.loss(outputs, torch.tensor([-5.0])).item() == pytest.approx(below)


@pytest.mark.parametrize("probabilities", [(0.5,), (0.1, 0.2), (0.6, 0.9), (0.05, 0.3, 0.5, 0.6, 0.99)])
def test_quantiles_of_a_gpu_are_those_of_a_cpu(probabilities):
    head, outputs = QuantileHead(probabilities), torch.randn(3, 4, len(probabilities), requires_grad=True)
    summed = head.describe_values(outputs)
    found = head.add_by_table(outputs)
    torch.testing.assert_close(found, summed)
    outer = torch.randn(summed.shape)
    gradients = [torch.autograd.grad(one, outputs, outer)[0] for one in (found, summed)]
    torch.testing.assert_close(*gradients)


def test_the_loss_and_its_gradient_are_those_of_the_equation_also_without_an_error():
    head = QuantileHead((0.05, 0.5, 0.9))
    outputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    target = head.describe_values(outputs)[:, 0].detach().clone()  # at a quantile, to which it is no error
    target[1:3] += torch.tensor([2.0, -2.0])
    over, table = target.unsqueeze(-1) - head.describe_values(outputs), head.probabilities
    wanted = 2 * torch.maximum(table * over, (table - 1) * over).mean(-1)
    found = head.loss(outputs, target)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    gradients = [torch.autograd.grad(one.sum(), outputs)[0] for one in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("head", [GaussianHead(), StudentHead(), QuantileHead((0.05, 0.25, 0.5, 0.75, 0.95))])
def test_draws_have_the_quantiles(head):
    outputs = torch.zeros(20_000, head.width)
    drawn = draw(head, outputs)
    expected = quantiles(head, outputs[:1], (0.25, 0.5, 0.9)).ravel()
    assert torch.quantile(drawn, torch.tensor([0.25, 0.5, 0.9])).tolist() == pytest.approx(
        expected.tolist(), abs=0.04
    )


def test_point_losses_and_refusals():
    outputs, target = torch.tensor([[3.0]]), torch.tensor([0.0])
    assert [PointHead(loss).loss(outputs, target).item() for loss in ("mse", "mae", "huber")] == [9, 3, 2.5]
    with refuses("loss", "'msse'", "'mse'"):
        PointHead("msse")
    with refuses("probabilities", "[0.5, 0.1]"):
        QuantileHead((0.5, 0.1))
    with refuses("probabilities", "0.025", "0.1", "0.9"):
        quantiles(QuantileHead((0.1, 0.9)), torch.zeros(1, 2), [0.025])


HEADS = [
    PointHead("mse"),
    PointHead("mae"),
    PointHead("huber"),
    GaussianHead(),
    StudentHead(),
    QuantileHead((0.1, 0.25, 0.5, 0.9)),
]
SIZES = (0.0, 9.0, 20.0, 1e3, 1e6, 1e10, 1e18, 1e20, 1e25, 1e30)
EXTREMES = st.sampled_from([sign * size for size in SIZES for sign in (-1, 1)]) | st.floats(-1e6, 1e6)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HEADS), st.lists(EXTREMES, min_size=6, max_size=6))
def test_heads_are_finite_far_out(head, numbers):
    """Losses, gradients, quantiles and draws, whatever a network that learns too fast puts out."""
    *numbers, freedom, target = numbers
    outputs = torch.tensor([numbers[: head.width]], requires_grad=True)
    if isinstance(head, StudentHead):
        head = StudentHead()
        head.freedom.data.fill_(freedom)
    weights = [outputs, *head.parameters()]
    loss = head.loss(outputs, torch.tensor([target]))
    gradients = torch.autograd.grad(loss.sum(), weights)
    assert all(bool(each.isfinite().all()) for each in (loss, *gradients))
    if head.probabilistic:
        found = quantiles(head, outputs, (0.1, 0.5, 0.9))
        assert draw(head, outputs).isfinite().all()
        assert found.isfinite().all()
        assert (found.diff(dim=0) >= 0).all()


def test_bounded_losses_are_the_plain_ones_below_their_bounds():
    far = torch.tensor([0.0, 3.0, -500.0, 9e3])
    centred = torch.stack([torch.zeros(4), torch.full((4,), 0.5413)], dim=1)
    scale = MIN_SCALE + softplus(centred[:, 1])
    normal = torch.distributions.Normal(torch.zeros(4), scale)
    assert torch.allclose(GaussianHead().loss(centred, far), -normal.log_prob(far))
    assert torch.equal(PointHead().loss(torch.zeros(4, 1), far), far.square())
    far = torch.tensor([1e3, 1e8, 1e12, 1e18], dtype=torch.float64)
    head = StudentHead()
    student = torch.distributions.StudentT(head.degrees.double(), torch.zeros(4), scale.double())
    assert torch.allclose(head.loss(centred, far.float()).double(), -student.log_prob(far))


@pytest.mark.parametrize("freedom", [-1e6, -50.0, 0.0, 30.0, 200.0, 1e6])
def test_student_loss_is_the_density_for_any_degrees(freedom):
    head = StudentHead()
    head.freedom.data.fill_(freedom)
    expected = stats.t.logpdf(TARGET.numpy(), head.degrees.item(), SAID[:, 0].numpy(), SCALE.numpy())
    assert head.loss(SAID, TARGET).detach().numpy() == pytest.approx(-expected, abs=1e-4)


EXTREMES = (0.0, 1.0, 1e-8, 30.0, -90.0, 200.0, -1e4, 1e10, -1e20, 3e37, -3e37)
HEADS = {
    **{loss: lambda loss=loss: PointHead(loss) for loss in ("mse", "mae", "huber")},
    "gaussian": GaussianHead,
    "student": StudentHead,
    "quantiles": lambda: QuantileHead((0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)),
    "median": lambda: QuantileHead((0.5,)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", HEADS)
def test_losses_and_gradients_of_extreme_outputs_are_finite(name, dtype):
    """Whatever a rate that is far too high has made of the weights; training reads outputs as float32."""
    head = HEADS[name]()
    centre, other, target = (
        each.ravel() for each in torch.meshgrid(*[torch.tensor(EXTREMES)] * 3, indexing="ij")
    )
    for freedom in (3.0, -1e4, 1e30) if name == "student" else (None,):
        if freedom is not None:
            head.freedom.data.fill_(freedom)
        outputs = other.unsqueeze(-1).repeat(1, head.width)
        outputs[:, head.centre] = centre
        outputs = outputs.to(dtype).requires_grad_()
        losses = head.loss(outputs.float(), target)
        assert losses.isfinite().all()
        losses.mul(1e-6).sum().backward()
        assert all(each.grad.isfinite().all() for each in (outputs, *head.parameters()))
        assert head.mean(outputs).isfinite().all()
        if head.probabilistic:
            assert quantiles(head, outputs, [0.5]).isfinite().all()
