"""Dynamic evaluation: the model goes on learning from the text that it is judged on, after it is judged."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from throughtime.cells.base import State
from throughtime.errors import InputError, ThroughtimeError
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.neural_cache import NeuralCache


class DynamicEvaluation:
    r"""A reader that takes a step of gradient descent after each piece (Krause et al., 2018).

    A piece of `steps` tokens is scored first; then, with g the gradient of its mean surprisal, no longer than
    `clip`, and w_0 the trained weights,

    .. math:: w \leftarrow w - \text{rate}\, g + \text{decay}\, (w_0 - w)

    Leaving the block puts the trained weights back, bit for bit, whatever happened in it. A `cache` is mixed
    into the scores, not into what is learned.

    >>> model = RecurrentLanguageModel(9, embedding_size=4).eval()
    >>> text = torch.randint(9, (11, 1))
    >>> with DynamicEvaluation(rate=0.1) as reader:
    ...     found, state = reader.read(model, text[:-1], text[1:], model.initial_state(1))
    >>> found.shape
    torch.Size([10, 1])
    """

    def __init__(
        self,
        rate: float = 0.03,
        decay: float = 0.001,
        steps: int = 5,
        *,
        clip: float = 1.0,
        cache: NeuralCache | None = None,
    ) -> None:
        if not (rate >= 0 and math.isfinite(rate)):
            raise InputError("dynamic rate", f"is {rate}, expected 0 or more")
        if not 0 <= decay <= 1:
            raise InputError("dynamic decay", f"is {decay}, expected a number in [0, 1]")
        if steps < 1:
            raise InputError("dynamic steps", f"are {steps}, expected 1 or more")
        if not clip > 0:
            raise InputError("dynamic clip", f"is {clip}, expected a number above 0")
        self.rate, self.decay, self.steps, self.clip, self.cache = rate, decay, steps, clip, cache
        self._model: RecurrentLanguageModel | None = None
        self._weights: list[Tensor] = []
        self._trained: list[Tensor] = []

    def __enter__(self) -> Self:
        """Begin; the weights are kept at the first piece."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """See `close`."""
        self.close()

    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """See `throughtime.models.reading.Reader`."""
        self._keep(model)
        with torch.enable_grad():
            outputs, _, reached = model(inputs, tuple(part.detach() for part in state))
            log_probs = model.head.log_probs(outputs.flatten(0, 1))
            surprisals = -log_probs.gather(1, labels.flatten()[:, None])[:, 0]
            gradients = torch.autograd.grad(
                surprisals.mean(), self._weights, allow_unused=True, materialize_grads=True
            )
        self._learn(list(gradients))
        found = surprisals.detach().view_as(labels)
        if self.cache is not None:
            found = self.cache.mixed(outputs.detach(), labels, found)
        return found, tuple(part.detach() for part in reached)

    @torch.no_grad()
    def close(self) -> None:
        """Put the trained weights back."""
        for weight, trained in zip(self._weights, self._trained, strict=True):
            weight.copy_(trained)
        self._model, self._weights, self._trained = None, [], []

    def _keep(self, model: RecurrentLanguageModel) -> None:
        if self._model is None:
            self._model = model
            self._weights = [weight for weight in model.parameters() if weight.requires_grad]
            self._trained = [weight.detach().clone() for weight in self._weights]
        elif self._model is not model:
            raise ThroughtimeError("a dynamic evaluation reads with one model; close it before the next")

    @torch.no_grad()
    def _learn(self, gradients: list[Tensor]) -> None:
        """One step; nothing here waits for the device."""
        norm = get_total_norm(gradients)
        step = self.rate * (self.clip / norm).clamp(max=1.0)
        torch._foreach_mul_(gradients, step)
        torch._foreach_lerp_(self._weights, self._trained, self.decay)
        torch._foreach_sub_(self._weights, gradients)
