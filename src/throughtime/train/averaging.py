"""Averages of the weights over updates: exponential, or uniform from a point on as in NT-ASGD."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from throughtime.errors import InputError

PREFIX = "average."
COUNT = "average.count"
YOUNG = 10
"""A young exponential average looks back on the last of so many parts of its updates."""


def first_trigger(scores: Sequence[float], nonmono: int) -> int | None:
    """The epoch, counted from 0, after which NT-ASGD begins to average (Merity et al. 2018, algorithm 1).

    It is the first whose score is worse than the best of those before it, the `nonmono` last ones aside.

    >>> first_trigger([4.0, 4.5, 4.6, 4.2], nonmono=2)
    3
    >>> first_trigger([4.0, 4.5, 4.6, 3.9], nonmono=2) is None
    True
    """
    best = float("inf")
    for epoch in range(nonmono + 1, len(scores)):
        best = min(best, scores[epoch - nonmono - 1])
        if scores[epoch] > best:
            return epoch
    return None


def triggered(scores: Sequence[float], nonmono: int) -> bool:
    """Whether NT-ASGD averages after these epochs; once it does, it goes on."""
    return first_trigger(scores, nonmono) is not None


class Averaging:
    """The running average of some parameters, beside them.

    `ema` averages from the first update on, with weight `1 - decay` for the newest, and more for as long as
    that would look back on more than the last tenth of the updates: the weights that training began with are
    no model yet. `uniform` is the plain mean of all updates since `begin`. `none` never averages.

    >>> weight = torch.zeros(1)
    >>> averaging = Averaging([weight], "uniform")
    >>> averaging.begin()
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = weight.fill_(value)
    ...     averaging.update()
    >>> with averaging.applied():
    ...     print(weight)
    tensor([3.])
    >>> weight
    tensor([6.])
    """

    def __init__(
        self, parameters: Iterable[Tensor], kind: Literal["none", "ema", "uniform"], decay: float = 0.999
    ) -> None:
        self._parameters = list(parameters)
        self._kind, self._decay = kind, decay
        self._averages: list[Tensor] = []
        self._swapped = False
        if kind == "ema":
            self.begin()

    @property
    def active(self) -> bool:
        """Whether updates are being averaged."""
        return bool(self._averages)

    def begin(self) -> None:
        """Average from the next update on; nothing happens where that is so already.

        A CUDA graph of `update` that was captured before does not know of it: capture again.
        """
        if self.active or self._kind == "none":
            return
        self._averages = [parameter.detach().clone() for parameter in self._parameters]
        # On the device, so that a captured update counts on by itself.
        self._count = torch.zeros((), dtype=torch.int64, device=self._parameters[0].device)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters as the optimiser's step left them. Nothing is read back from the device."""
        if not self.active:
            return
        self._count += 1
        if self._kind == "ema":
            weight = (YOUNG / (self._count.double() + YOUNG - 1)).clamp(min=1 - self._decay)
        else:
            weight = self._count.double().reciprocal()
        weights = {dtype: weight.to(dtype) for dtype in {average.dtype for average in self._averages}}
        shares = [weights[average.dtype] for average in self._averages]
        torch._foreach_lerp_(self._averages, self._parameters, shares)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Put the averages into the parameters for the length of the block; nothing where not active."""
        if self._swapped:
            raise RuntimeError("the averages are applied already")
        self._swap()
        self._swapped = True
        try:
            yield
        finally:
            self._swapped = False
            self._swap()

    def tensors(self) -> dict[str, Tensor]:
        """The averages for a checkpoint; nothing where not active."""
        if self._swapped:
            raise RuntimeError("the averages are applied: leave that block before saving them")
        if not self.active:
            return {}
        averages = {f"{PREFIX}{index}": average for index, average in enumerate(self._averages)}
        return {COUNT: self._count, **averages}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave; names that are not the averages' are passed over."""
        saved = {name: value for name, value in tensors.items() if name.startswith(PREFIX)}
        if not saved:
            return
        if self._kind == "none":
            raise _misfit("it holds averaged weights, and this run averages none")
        if len(saved) != len(self._parameters) + 1 or COUNT not in saved:
            raise _misfit(f"it holds {len(saved) - 1} averages for {len(self._parameters)} parameters")
        for index, parameter in enumerate(self._parameters):
            shape = saved[f"{PREFIX}{index}"].shape
            if shape != parameter.shape:
                raise _misfit(
                    f"{PREFIX}{index} has shape {list(shape)}, the parameter has {list(parameter.shape)}"
                )
        self.begin()
        self._count.copy_(saved[COUNT])
        for index, average in enumerate(self._averages):
            average.copy_(saved[f"{PREFIX}{index}"])

    @torch.no_grad()
    def _swap(self) -> None:
        # By value, one tensor at a time: what holds a parameter's memory (a CUDA graph, an optimiser, a view)
        # stays right, and no second set of weights is needed.
        for index, average in enumerate(self._averages):
            held = self._parameters[index].clone()
            self._parameters[index].copy_(average)
            average.copy_(held)


def _misfit(problem: str) -> InputError:
    return InputError("the checkpoint", f"{problem}; go on with the configuration that the run began with")
