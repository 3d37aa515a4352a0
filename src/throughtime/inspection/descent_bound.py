"""Why gradients are clipped: how far one step of descent can change a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Bound(NamedTuple):
    """What a step changed, and the most it could have changed."""

    change: float  # |f(x) - f(x - eta g)|
    bound: float  # L eta |g|


def descent_bound(
    function: Callable[[Tensor], Tensor],
    point: Tensor,
    eta: float,
    lipschitz: float,
    clip: float | None = None,
) -> Bound:
    r"""The two sides of :math:`|f(x) - f(x - \eta g)| \le L \eta |g|` for an f with Lipschitz constant L.

    With g clipped to the norm `clip`, no step can spoil more than L eta clip, however steep the place.

    >>> change, bound = descent_bound(lambda x: 3 * x.abs().sum(), torch.tensor([2.0]), eta=0.1, lipschitz=3)
    >>> round(change, 4), round(bound, 4)
    (0.9, 0.9)
    """
    point = point.detach().requires_grad_()
    before = function(point)
    (gradient,) = torch.autograd.grad(before, point)
    if clip is not None and (norm := float(gradient.norm())) > clip:
        gradient = gradient * (clip / norm)
    after = function(point.detach() - eta * gradient)
    return Bound(float((before - after).detach().abs()), lipschitz * eta * float(gradient.norm()))
