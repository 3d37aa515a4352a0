"""Optimisers that never wait for the device, and whose steps can be recorded."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from throughtime.fit.config import TrainingConfig
from throughtime.fit.optimizers import OPTIMIZERS, build_optimizer, optimizer_tensors, restore_optimizer
from throughtime.gpu import learner
from throughtime.gpu.learner import create_momentum, step_unless, write_rate

NAMES = sorted(OPTIMIZERS)


def network(width: int = 5) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_rate_that_is_a_tensor_is_filled_in_place():
    rate = torch.tensor(0.1)
    optimizer = torch.optim.SGD(network().parameters(), lr=rate)
    write_rate(optimizer, 0.25, torch.ones(()))
    assert optimizer.param_groups[0]["lr"].item() == 0.25
    assert optimizer.param_groups[0]["lr"].data_ptr() == rate.data_ptr()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_skipped_on_the_device_is_the_step_that_the_host_skips(name, momentum):
    """As on a GPU: the first step is skipped too, before the optimiser has a state."""
    config = TrainingConfig(optimizer=name, momentum=momentum, weight_decay=0.1, lr=0.1)
    draws = torch.Generator().manual_seed(0)
    start, gradients = torch.randn(7, generator=draws), torch.randn(4, 7, generator=draws)
    pairs = []
    for wait in (True, False):
        weight = torch.nn.Parameter(start.clone())
        optimizer = build_optimizer(config, [weight])
        if not wait:
            create_momentum(optimizer)
        for number, gradient in enumerate(gradients):
            finite = torch.tensor(number % 2 == 1)
            weight.grad = gradient if finite else gradient * math.nan
            if not wait:
                step_unless(optimizer, (~finite).float())
            elif finite:
                optimizer.step()
        pairs.append((weight.detach(), optimizer_tensors(optimizer)))
    (first, state), (second, other) = pairs
    assert torch.equal(first, second)
    assert not torch.equal(first, start)
    assert state.keys() == other.keys()
    assert all(torch.equal(state[key], other[key]) for key in state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", NAMES)
def test_a_captured_step_sees_the_rate_change_and_the_state_restored(name):
    model = network().cuda()
    config = TrainingConfig(optimizer=name, lr=0.1, momentum=0.9, betas=(0.8, 0.99), weight_decay=0.01)
    optimizer = learner.build_optimizer(config, [*model.parameters()], torch.device("cuda"))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    saved = {key: value.clone() for key, value in optimizer_tensors(optimizer).items()}
    before = weights(model).clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    write_rate(optimizer, 0.0, torch.ones((), device="cuda"))
    graph.replay()
    assert torch.equal(weights(model), before)
    write_rate(optimizer, 0.1, torch.ones((), device="cuda"))
    restore_optimizer(optimizer, saved)
    graph.replay()
    assert not torch.equal(weights(model), before)
    if name.startswith("adam"):
        assert optimizer_tensors(optimizer)["optimizer.0.step"].item() == 2
