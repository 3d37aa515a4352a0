"""Clipping of the gradient's global norm: g <- min(1, theta / |g|) g."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm


@torch.no_grad()
def clip_(parameters: Iterable[Tensor], largest: float) -> Tensor:
    """Scale all gradients by min(1, largest / |g|) in place and return |g| as it was before.

    The norm stays on the device: nothing waits for it. A norm that is not finite stays visible in what is
    returned.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_([weight], 1.0), weight.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    owners = [parameter for parameter in parameters if parameter.grad is not None]
    for owner in owners:
        if owner.grad is not None and owner.grad.is_sparse:
            owner.grad = owner.grad.coalesce()  # a word that stands twice in a batch has one row
    gradients = [_values(owner.grad) for owner in owners if owner.grad is not None]
    norm = get_total_norm(gradients)
    # On a CPU the norm can be read for nothing, which spares a pass over all gradients when it is small.
    if norm.device.type != "cpu" or not norm <= largest:
        torch._foreach_mul_(gradients, (largest / norm).clamp(max=1))
    return norm


def _values(gradient: Tensor) -> Tensor:
    """All numbers of a gradient that may differ from zero, in its own memory."""
    return gradient.values() if gradient.is_sparse else gradient
