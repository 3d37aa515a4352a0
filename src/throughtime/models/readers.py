"""Score every token of a long text given all tokens before it, in constant memory.

A reader scores with the model alone, adds a cache of recent tokens, or keeps learning from the text that it
has scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from throughtime.cells.base import State
from throughtime.errors import InputError, ThroughtimeError, check_number, check_whole
from throughtime.layers.layer import check_probability
from throughtime.models.language import NOTHING, RecurrentLanguageModel

STEPS = 512
WINDOWS_AT_ONCE = 256


class StreamScorer:
    """How a piece of the text is scored: here by the model alone; subclasses add what they learn from it."""

    steps = STEPS
    """Number of tokens of a piece."""

    @torch.inference_mode()
    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """Return surprisals of the labels [T, B], in nats, and the state after them."""
        outputs, _, reached = model(inputs, state)
        alone = model.head.surprisals(outputs.flatten(0, 1), labels.flatten()).view_as(labels)
        return self.mix(outputs, labels, alone), reached

    def mix(self, outputs: Tensor, labels: Tensor, alone: Tensor) -> Tensor:
        """Return the surprisals [T, B], from those of the model alone and its outputs."""
        return alone


def surprisals(
    model: RecurrentLanguageModel,
    ids: np.ndarray[Any, Any],
    begin: int,
    *,
    reader: StreamScorer | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Tensor]:
    """Yield the surprisal of every id, in nats, piece by piece; `begin` is the id before the first one.

    The results stay on the model's device, so that reading does not wait for them.
    """
    reader = reader or StreamScorer()
    device = model.embedding.weight.device
    state = model.initial_state(1)
    before, first = begin, 0
    while first < len(ids):
        # NOTHING does not change the state, so the token after it is a separate piece.
        steps = 1 if before == NOTHING else reader.steps
        labels = torch.from_numpy(ids[first : first + steps].astype(np.int64))[:, None]
        inputs = torch.cat([torch.tensor([[before]]), labels[:-1]])
        piece, reached = reader.read(model, inputs.to(device), labels.to(device), state)
        state = state if before == NOTHING else reached
        before, first = int(labels[-1]), first + len(labels)
        yield piece[:, 0]
        if progress is not None:
            progress(first)


@torch.inference_mode()
def window_surprisals(
    model: RecurrentLanguageModel, ids: np.ndarray[Any, Any], window: int, warm_up: int
) -> Iterator[npt.NDArray[np.float64]]:
    """Read a text in windows, each from a new state: surprisals [positions, windows], in nats.

    The first `warm_up` positions of a window are read but left out. Windows overlap by that number, so that
    every token after the first `warm_up + 1` of the text is scored once.
    """
    starts = list(range(0, len(ids) - 1 - warm_up, window - warm_up))
    whole = [start for start in starts if start + window < len(ids)]
    groups = [(whole[i : i + WINDOWS_AT_ONCE], window) for i in range(0, len(whole), WINDOWS_AT_ONCE)]
    groups += [([start], len(ids) - 1 - start) for start in starts[len(whole) :]]
    for group, steps in groups:
        rows = np.stack([ids[start : start + steps + 1] for start in group], axis=1).astype(np.int64)
        yield -np.stack(model.log_probs(rows.T.tolist()), axis=1)[1 + warm_up :]


class NeuralCache(StreamScorer):
    r"""A reader that mixes the model with a cache of its recent past (Grave, Joulin and Usunier, 2017).

    .. math:: P = (1 - \text{share}) P_\text{model} + \text{share} P_\text{cache}, \quad
        P_\text{cache}(w) \propto \sum_{i=t-\text{window}}^{t-1} e^{\theta h_t \cdot h_i} [x_{i+1} = w]

    The h are the outputs of the model's last layer. While the cache is empty, P is that of the model. The
    cache is kept from one piece to the next, so use a new one for each text.
    """

    def __init__(self, window: int = 500, theta: float = 0.3, share: float = 0.1) -> None:
        check_whole("window", window)
        check_probability("share", share)
        if not math.isfinite(theta):
            raise InputError("theta", f"is {theta}, expected a finite number")
        self.window, self.theta, self.share = window, theta, share
        self._past: tuple[Tensor, Tensor] | None = None  # outputs [W, B, H] and the tokens after them [W, B]

    @torch.no_grad()
    def mix(self, outputs: Tensor, labels: Tensor, alone: Tensor) -> Tensor:
        """Mix the model's surprisals [T, B] with the cache; then add the outputs and labels to the cache."""
        states = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        if self._past is None:
            self._past = states[:0], labels[:0]
        past, words = torch.cat([self._past[0], states]), torch.cat([self._past[1], labels])
        self._past = past[-self.window :], words[-self.window :]
        # Row t scores the tokens before it, at most `window` of them.
        scores = self.theta * torch.einsum("tbh,ibh->bti", states, past)
        now = torch.arange(len(past) - len(states), len(past), device=past.device)[:, None]  # [T, 1]
        then = torch.arange(len(past), device=past.device)  # [I]
        scores.masked_fill_((then >= now) | (then < now - self.window), -torch.inf)
        everything = scores.logsumexp(2)  # [B, T]
        same = labels.T[:, :, None] == words.T[:, None, :]
        cache_log_prob = scores.masked_fill_(~same, -torch.inf).logsumexp(2) - everything
        both = torch.logaddexp(
            math.log1p(-self.share) - alone,
            cache_log_prob.T + (math.log(self.share) if self.share else -math.inf),
        )
        return torch.where(everything.T.isneginf(), alone, -both)


FLOOR = 0.1
"""Added to every scale, so that a weight whose gradient is nearly always 0 does not take a huge step."""


class DynamicEvaluation(StreamScorer):
    r"""A reader that takes a step of gradient descent after each piece (Krause et al., 2018).

    A piece of `steps` tokens is scored first; then, with g the gradient of its mean surprisal, no longer than
    `clip`, and w_0 the trained weights,

    .. math:: w \leftarrow w - \text{rate}\, g + \text{decay}\, (w_0 - w)

    With `scales` s, one for each weight that learns (see `gradient_scales`), a weight's step is divided by
    s + FLOOR and its decay multiplied by s: weights with usually small gradients learn as fast as others,
    and keep what they have learned for longer.

    Leaving the block restores the trained weights exactly, whatever happened in it. A `cache` is mixed into
    the scores, not into what is learned.

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
        scales: list[Tensor] | None = None,
    ) -> None:
        check_number("rate", rate)
        check_number("decay", decay, 0, 1)
        check_whole("steps", steps)
        check_number("clip", clip, above=True)
        self.rate, self.decay, self.steps, self.clip, self.cache = rate, decay, steps, clip, cache
        self.scales = scales
        self._model: RecurrentLanguageModel | None = None
        self._weights: list[Tensor] = []
        self._trained: list[Tensor] = []
        self._divisors: list[Tensor] = []
        self._decays: list[Tensor] = []

    def __enter__(self) -> Self:
        """Begin; the weights are saved at the first piece."""
        return self

    def __exit__(self, *error: object) -> None:
        """See `close`."""
        self.close()

    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """See `StreamScorer`."""
        self._keep(model)
        with torch.enable_grad():
            outputs, _, reached = model(inputs, tuple(tensor.detach() for tensor in state))
            log_probs = model.head.log_probs(outputs.flatten(0, 1))
            surprisals = -log_probs.gather(1, labels.flatten()[:, None])[:, 0]
            gradients = torch.autograd.grad(
                surprisals.mean(), self._weights, allow_unused=True, materialize_grads=True
            )
        self._learn(list(gradients))
        result = surprisals.detach().view_as(labels)
        if self.cache is not None:
            result = self.cache.mix(outputs.detach(), labels, result)
        return result, tuple(tensor.detach() for tensor in reached)

    @torch.no_grad()
    def close(self) -> None:
        """Restore the trained weights."""
        for weight, trained in zip(self._weights, self._trained, strict=True):
            weight.copy_(trained)
        self._model, self._weights, self._trained, self._divisors, self._decays = None, [], [], [], []

    def _keep(self, model: RecurrentLanguageModel) -> None:
        if self._model is None:
            self._model = model
            self._weights = _learning_weights(model)
            self._trained = [weight.detach().clone() for weight in self._weights]
            self._divisors = [scale + FLOOR for scale in self.scales or ()]
            self._decays = [(self.decay * scale).clamp(max=1.0) for scale in self.scales or ()]
        elif self._model is not model:
            raise ThroughtimeError(
                "a dynamic evaluation reads with one model; close it before you use another"
            )

    @torch.no_grad()
    def _learn(self, gradients: list[Tensor]) -> None:
        """One step of gradient descent; nothing here waits for the device."""
        norm = get_total_norm(gradients)
        step = self.rate * (self.clip / norm).clamp(max=1.0)
        torch._foreach_mul_(gradients, step)
        if self.scales is None:
            torch._foreach_lerp_(self._weights, self._trained, self.decay)
        else:
            torch._foreach_div_(gradients, self._divisors)
            torch._foreach_lerp_(self._weights, self._trained, self._decays)
        torch._foreach_sub_(self._weights, gradients)


def gradient_scales(model: RecurrentLanguageModel, pieces: Iterable[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Return the usual size of the gradient of each weight, scaled to a mean of one over all weights.

    `pieces` are inputs and labels [T, B], each the continuation of the one before. The size is the root mean
    square over all pieces of the gradient of their mean surprisals.
    """
    weights = _learning_weights(model)
    squares = [torch.zeros_like(weight) for weight in weights]
    state: State | None = None
    for inputs, labels in pieces:
        with torch.enable_grad():
            outputs, _, reached = model(inputs, state)
            loss = model.head.loss(outputs, labels) / labels.numel()
            gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        torch._foreach_addcmul_(squares, gradients, gradients)
        state = tuple(tensor.detach() for tensor in reached)
    torch._foreach_sqrt_(squares)
    mean = sum(scale.sum() for scale in squares) / sum(scale.numel() for scale in squares)
    torch._foreach_div_(squares, mean)
    return squares


def _learning_weights(model: RecurrentLanguageModel) -> list[Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]
