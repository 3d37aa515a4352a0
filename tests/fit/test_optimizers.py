"""Optimisers: torch's own numbers, rates that change, state that is saved and taken over exactly."""

from __future__ import annotations

import typing

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.config import build_config
from throughtime.fit.config import TrainingConfig
from throughtime.fit.optimizers import (
    OPTIMIZERS,
    build_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_rate,
)

NAMES = sorted(OPTIMIZERS)
PLAIN = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False, fused=False),
    "nt-asgd": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False, fused=False
    ),
    "adam": lambda p: torch.optim.Adam(
        p, lr=0.1, betas=(0.8, 0.99), weight_decay=0.01, foreach=False, fused=False
    ),
    "adamw": lambda p: torch.optim.AdamW(
        p, lr=0.1, betas=(0.8, 0.99), weight_decay=0.01, foreach=False, fused=False
    ),
}


def network(width: int = 5) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))


def optimizer_of(name: str, model: nn.Module, *, momentum: float = 0.9):
    config = TrainingConfig(optimizer=name, lr=0.1, momentum=momentum, betas=(0.8, 0.99), weight_decay=0.01)
    return build_optimizer(config, model.parameters())


def train(model: nn.Module, optimizer: torch.optim.Optimizer, updates: int, seed: int = 0) -> None:
    draw = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        optimizer.zero_grad()
        model(torch.randn(8, 3, generator=draw)).square().mean().backward()
        optimizer.step()


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_every_optimizer_that_can_be_configured_is_there():
    assert set(typing.get_args(TrainingConfig.model_fields["optimizer"].annotation)) == set(OPTIMIZERS)
    with refuses("optimizer", "'adamww'", "'adamw'"):
        build_config(TrainingConfig, {"optimizer": "adamww"}, "settings")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_torchs_plain_loop_within_rounding(name):
    ours, plain = network(), network()
    train(ours, optimizer_of(name, ours), 20)
    train(plain, PLAIN[name](plain.parameters()), 20)
    torch.testing.assert_close(weights(ours), weights(plain), rtol=1e-4, atol=1e-5)


def test_backward_lays_gradients_out_as_their_parameters():
    # The fused steps on a CPU read them so without a look.
    parameter = nn.Parameter(torch.randn(4, 3))
    (parameter.t().contiguous() * torch.randn(3, 4)).sum().backward()
    torch.autograd.backward(parameter, grad_tensors=torch.randn(3, 4).t())
    assert parameter.grad is not None
    assert parameter.grad.stride() == parameter.stride()
    parameter.grad = None
    torch.autograd.backward(parameter, grad_tensors=torch.randn(3, 4).t())
    assert parameter.grad.stride() == parameter.stride()


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_rate_is_used(name):
    model = network()
    optimizer = optimizer_of(name, model)
    train(model, optimizer, 1)
    before = weights(model)
    set_rate(optimizer, 0.0)
    train(model, optimizer, 1)
    assert torch.equal(weights(model), before)
    set_rate(optimizer, 0.3)
    train(model, optimizer, 1)
    assert not torch.equal(weights(model), before)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_restored_it_goes_on_bit_for_bit(name, momentum):
    model = network()
    optimizer = optimizer_of(name, model, momentum=momentum)
    train(model, optimizer, 5)
    saved = {key: value.clone() for key, value in optimizer_tensors(optimizer).items()}
    assert bool(saved) == (name.startswith("adam") or momentum > 0)
    other = network()
    other.load_state_dict(model.state_dict())
    resumed = optimizer_of(name, other, momentum=momentum)
    if name == "adam":
        train(other, resumed, 2)  # into state that is there already, as a trainer that warmed up would
        other.load_state_dict(model.state_dict())
    restore_optimizer(resumed, {"model.0.weight": torch.zeros(1), **saved})
    train(model, optimizer, 5, seed=1)
    train(other, resumed, 5, seed=1)
    assert torch.equal(weights(model), weights(other))
    again = optimizer_tensors(resumed)
    assert again.keys() == optimizer_tensors(optimizer).keys()
    assert all(torch.equal(again[key], value) for key, value in optimizer_tensors(optimizer).items())


def test_restoring_the_beginning_forgets_what_came_since():
    model = network()
    optimizer = optimizer_of("adamw", model)
    train(model, optimizer, 2)
    restore_optimizer(optimizer, {})
    assert optimizer_tensors(optimizer) == {}
    train(model, optimizer, 1)
    assert optimizer_tensors(optimizer)["optimizer.0.step"].item() == 1


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda s: s | {"optimizer.7.step": torch.tensor(1.0)}, ("checkpoint", "4")),
        (lambda s: s | {"optimizer.one.step": torch.tensor(1.0)}, ("checkpoint", "optimizer.one.step")),
        (lambda s: s | {"optimizer.1.momentum_buffer": torch.zeros(5)}, ("checkpoint", "1.momentum_buffer")),
        (lambda s: {k: v for k, v in s.items() if k != "optimizer.1.exp_avg"}, ("checkpoint", "1.exp_avg")),
        (
            lambda s: s | {"optimizer.0.exp_avg": torch.zeros(9, 3)},
            ("checkpoint", "[9, 3]", "[5, 3]"),
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(change, facts):
    model = network()
    optimizer = optimizer_of("adam", model)
    train(model, optimizer, 1)
    before = {key: value.clone() for key, value in optimizer_tensors(optimizer).items()}
    with refuses(*facts):
        restore_optimizer(optimizer, change({key: value + 1 for key, value in before.items()}))
    assert all(torch.equal(value, before[key]) for key, value in optimizer_tensors(optimizer).items())


def test_the_state_of_another_optimizer_is_refused():
    model = network()
    adam = optimizer_of("adam", model)
    train(model, adam, 1)
    with refuses("checkpoint", "SGD"):
        restore_optimizer(optimizer_of("sgd", model), optimizer_tensors(adam))
