"""The attention of a decoder, one step after another: forward, and backward from the last step to the first.

`TorchAttention` computes it with torch, on any device. Scores are e' sigmoid(q + k) for projected queries or,
without an energy e, products q' k. The sum of the values, weighted by the softmax of the scores, is added to
`sums`, and its tanh is shown.

Backward, `into_sums` holds the slopes of what is shown, and becomes the gradient of the sums; without
`given`, it is that gradient already. Keys, values and weights are [B, T, ...]; those of all steps come with
one more dimension in front.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.accelerate import find_attention_kernels
from throughtime.layers.attention import Additive, Attention, Dot, General
from throughtime.recurrence.layout import scratch


class SavedAttention(NamedTuple):
    """What the backward pass of the attention needs."""

    keys: Tensor
    values: Tensor
    energy: Tensor | None
    weights: Tensor  # [L, B, T]
    seen: Tensor  # [L, B, T, D]: the sigmoids, if torch computes them


ShownGradients = tuple[Tensor, Tensor | None]
"""Two gradients of what is shown; the second may be missing. The first may be overwritten by their sum."""


class TorchAttentionGradients:
    """The gradients of all steps; `queries` [L, B, D] are those that `look` was given."""

    def __init__(self, saved: SavedAttention, queries: Tensor) -> None:
        self._saved = saved
        self._of_scores: AdditiveGradients | ProductGradients = (
            ProductGradients(saved.keys, queries)
            if saved.energy is None
            else AdditiveGradients(saved.keys, saved.energy, saved.seen)
        )

    def retreat(
        self,
        t: int,
        into_sums: Tensor,
        given: ShownGradients | None,
        from_weights: Tensor | None,
        into_query: Tensor,
        into_state: Tensor,
    ) -> None:
        """Write the gradient of the query, or add it to that of the state, if the state is the query."""
        if given is not None:
            into_shown, other = given
            if other is not None:
                into_shown += other
            into_sums.mul_(into_shown)
        into_weights = product_scores(into_sums, self._saved.values)
        if from_weights is not None:
            into_weights += from_weights
        into_scores = _softmax_gradient(self._saved.weights[t], into_weights)
        self._of_scores.step(t, into_scores, into_query, into_state)

    def result(self, into_sums: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the gradients of keys, values and energy, from those of the sums of all steps, [L, B, V]."""
        into_keys, into_energy = self._of_scores.result()
        return into_keys, value_gradients(self._saved.weights, into_sums), into_energy


class TorchAttention:
    """The attention of all steps of a target, from the first to the last."""

    gradients = TorchAttentionGradients
    narrow_values = False
    """Whether values have the precision of products even where keys are compared in float32."""

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        energy: Tensor | None,
        hidden: Tensor,
        steps: int,
        differentiable: bool,
    ) -> None:
        self._hidden, self._real = hidden, hidden == 0
        self._kept = 0 if energy is None else steps if differentiable else 1
        seen = scratch((self._kept, *keys.shape), like=keys)
        weights = scratch((steps, *keys.shape[:2]), like=keys)
        self.saved = SavedAttention(keys, values, energy, weights, seen)

    def look(self, t: int, query: Tensor, sums: Tensor, shown: Tensor | None) -> None:
        """Add the weighted values of step t to `sums` [B, V]; show their tanh."""
        keys, values, energy, weights, seen = self.saved
        if energy is None:
            scores = product_scores(query, keys)
        else:
            scores = additive_scores(query, keys, energy, seen[min(t, self._kept - 1)])
        torch.mul(torch.softmax(scores + self._hidden, dim=-1), self._real, out=weights[t])
        sums += torch.bmm(weights[t, :, None], values)[:, 0]
        if shown is not None:
            torch.tanh(sums, out=shown)


class Scores(NamedTuple):
    """The keys, and what additive attention multiplies; without a query and an energy, scores are q' k."""

    keys: Tensor
    query: Tensor | None
    energy: Tensor | None


def is_supported(attention: Attention) -> bool:
    """Return whether its scores are those of `prepare_scores`; a subclass may have others."""
    return type(attention) in (Additive, Dot, General)


def prepare_scores(attention: Attention, keys: Tensor, dtype: torch.dtype) -> Scores:
    """Return the scores of an attention as e' sigmoid(W q + k) or q' k; the energy is of this type."""
    if isinstance(attention, Additive):
        # The keys are doubled already; adding a number to all scores does not change their softmax.
        return Scores(keys, 2 * attention.query.weight, 2 * attention.scale * attention.energy.to(dtype))
    return Scores(keys * attention.scale if attention.scaled else keys, None, None)


def find_attention(dtype: torch.dtype, keys: Tensor, width: int) -> type[TorchAttention]:
    """Return the fastest implementation for keys [B, T, D], values of this width and queries of this type."""
    return find_attention_kernels(dtype, keys, width) or TorchAttention


def value_gradients(weights: Tensor, into_sums: Tensor) -> Tensor:
    """Return sum_t a_tj ds_t: [L, B, T], [L, B, V] -> [B, T, V]."""
    return torch.bmm(weights.permute(1, 2, 0), into_sums.transpose(0, 1).to(weights.dtype))


def key_gradients(into_scores: Tensor, queries: Tensor) -> Tensor:
    """dk_j = sum_t de_tj q_t, if scores are products: [L, B, T], [L, B, D] -> [B, T, D]."""
    return torch.bmm(into_scores.permute(1, 2, 0), queries.transpose(0, 1).to(into_scores.dtype))


def _softmax_gradient(weights: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of scores from that of their softmax."""
    product = weights * gradient
    return product.addcmul_(weights, product.sum(1, keepdim=True), value=-1)


def additive_scores(query: Tensor, keys: Tensor, energy: Tensor, seen: Tensor) -> Tensor:
    """e' sigmoid(q + k) for projected queries, [B, T]; the sigmoid is written to `seen` [B, T, D]."""
    torch.add(query[:, None].to(keys.dtype), keys, out=seen).sigmoid_()
    return torch.mv(seen.flatten(0, 1), energy).view(keys.shape[:2])


def product_scores(query: Tensor, keys: Tensor) -> Tensor:
    """q' k, [B, T]."""
    # A row times a matrix: batches of columns are ten times as slow in torch.
    return torch.bmm(query[:, None].to(keys.dtype), keys.transpose(1, 2))[:, 0]


class AdditiveGradients:
    """The gradients of e' sigmoid(q + k)."""

    def __init__(self, keys: Tensor, energy: Tensor, seen: Tensor) -> None:
        self.energy, self.seen = energy, seen  # seen: [L, B, T, D]
        self.slopes, self.into_keys = scratch(tuple(keys.shape), like=keys), torch.zeros_like(keys)
        self.into_energy = scratch((len(seen), len(energy)), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """Touch as few tensors of the size of the keys as possible; the energy is added up at the end."""
        seen = self.seen[t]
        torch.mm(gradient.view(1, -1), seen.flatten(0, 1), out=self.into_energy[t : t + 1])
        torch.addcmul(seen, seen, seen, value=-1, out=self.slopes)
        self.into_keys.addcmul_(self.slopes, gradient[..., None])
        torch.mul(torch.bmm(gradient[:, None], self.slopes)[:, 0], self.energy, out=query)

    def result(self) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of all steps together."""
        return self.into_keys * self.energy, self.into_energy.sum(0)


class ProductGradients:
    """The gradients of q' k, where the query is the state itself."""

    def __init__(self, keys: Tensor, states: Tensor) -> None:
        self.keys, self.states = keys, states  # states: [L, B, D]
        self.into_scores = scratch((len(states), *keys.shape[:2]), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """dq = sum_j de_j k_j."""
        self.into_scores[t] = gradient
        state += torch.bmm(gradient[:, None], self.keys)[:, 0]

    def result(self) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of all steps together."""
        return key_gradients(self.into_scores, self.states), None
