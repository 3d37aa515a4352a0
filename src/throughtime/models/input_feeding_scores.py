"""Scores of attention inside a loop over steps, and their gradients in the opposite order."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from throughtime.recurrence.layout import scratch


def additive_scores(query: Tensor, keys: Tensor, energy: Tensor, seen: Tensor) -> Tensor:
    """e' sigmoid(q + k), for queries that are projected; the sigmoid goes to `seen` [B, T, D]. -> [B, T]"""
    torch.add(query[:, None].to(keys.dtype), keys, out=seen).sigmoid_()
    return torch.mv(seen.flatten(0, 1), energy).view(keys.shape[:2])


def product_scores(query: Tensor, keys: Tensor) -> Tensor:
    """q' k. -> [B, T]"""
    # A row times a matrix: torch multiplies batches of columns ten times as slowly.
    return torch.bmm(query[:, None].to(keys.dtype), keys.transpose(1, 2))[:, 0]


class ScoreGradients(Protocol):
    """Takes the gradients of one step's scores after another, the last step first."""

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """From the scores' gradient [B, T]: write the projected query's, or add to the state's."""
        ...

    def result(self) -> tuple[Tensor, Tensor | None]:
        """The gradients of the keys and of the energy."""
        ...


class AdditiveGradients:
    """Of e' sigmoid(q + k)."""

    def __init__(self, keys: Tensor, energy: Tensor, seen: Tensor) -> None:
        self.energy, self.seen = energy, seen  # seen: [L, B, T, D]
        self.slopes, self.into_keys = scratch(tuple(keys.shape), like=keys), torch.zeros_like(keys)
        self.into_energy = scratch((len(seen), len(energy)), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """The energy waits until the end where it can: this goes over as little of that size as possible."""
        seen = self.seen[t]
        torch.mm(gradient.view(1, -1), seen.flatten(0, 1), out=self.into_energy[t : t + 1])
        torch.addcmul(seen, seen, seen, value=-1, out=self.slopes)
        self.into_keys.addcmul_(self.slopes, gradient[..., None])
        torch.mul(torch.bmm(gradient[:, None], self.slopes)[:, 0], self.energy, out=query)

    def result(self) -> tuple[Tensor, Tensor | None]:
        """Of all steps together."""
        return self.into_keys * self.energy, self.into_energy.sum(0)


class ProductGradients:
    """Of q' k, where the query is the state itself."""

    def __init__(self, keys: Tensor, states: Tensor) -> None:
        self.keys, self.states = keys, states  # states: [L, B, D]
        self.into_scores = scratch((len(states), *keys.shape[:2]), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """dq = sum_j de_j k_j."""
        self.into_scores[t] = gradient
        state += torch.bmm(gradient[:, None], self.keys)[:, 0]

    def result(self) -> tuple[Tensor, Tensor | None]:
        """dk = sum_t de q."""
        states = self.states.transpose(0, 1).to(self.keys.dtype)
        return torch.bmm(self.into_scores.permute(1, 2, 0), states), None
