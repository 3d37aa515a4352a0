"""A backward pass that says so when it is to be differentiated itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from throughtime.errors import ThroughtimeError

Gradients = tuple[Tensor | None, ...]


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Refuse second derivatives with a sentence.

    torch's `once_differentiable` refuses only where the incoming gradient depends on something; elsewhere it
    gives gradients that pretend to be constant. A backward pass runs with gradients enabled if it is to
    be differentiated (`create_graph=True`), so this asks for that.
    """

    @functools.wraps(backward)
    def run(ctx: Any, *gradients: Tensor) -> Gradients:
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                "this backend of scan gives first derivatives only; "
                "for create_graph=True pass backend='reference' to it"
            )
        return backward(ctx, *gradients)

    return run
