"""Which tokens a model finds alike: nearest neighbours, and a map of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.inspection.views import similarities, table


@dataclass(frozen=True)
class Neighbour:
    """A token near another one; 1 is the same direction, 0 is none in common."""

    token: str
    similarity: float


@dataclass(frozen=True)
class Neighbourhood:
    """A token of the sentence with the nearest others, the nearest first."""

    token: str
    nearest: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Point:
    """A token on the map; `asked` where it stands in the sentence, `near` the tokens that it is near to."""

    token: str
    x: float
    y: float
    asked: bool
    near: tuple[int, ...]  # places among the points


@dataclass(frozen=True)
class EmbeddingMap:
    """The tokens of a sentence and their nearest neighbours, on their two directions of most variance."""

    table: str
    neighbours: tuple[Neighbourhood, ...]
    points: tuple[Point, ...]
    explained: float  # the share of the points' variance that the map shows

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@torch.inference_mode()
def embedding_map(model: Any, text: str, *, k: int = 6, side: str | None = None) -> EmbeddingMap:
    """The tokens of a text and the `k` nearest of each, among those of the model's vocabulary."""
    if k < 1:
        raise InputError("k", f"is {k}, expected 1 or more")
    chosen = table(model, side)
    ids = [one for one in chosen.ids(text) if chosen.vocabulary.token(one) not in chosen.vocabulary.reserved]
    if not ids:
        raise InputError("sentence", "has no token that the model knows; give words of its language")
    nearest = _nearest(chosen.vectors.float().cpu(), ids, k, chosen.vocabulary)
    shown = list(dict.fromkeys([*ids, *(one for own in nearest for one, _ in own)]))
    places = {one: place for place, one in enumerate(shown)}
    flat, explained = principal_axes(chosen.vectors[shown].float().cpu())
    near = dict(zip(ids, nearest, strict=True))
    points = [
        Point(
            chosen.spelled(one),
            float(flat[place, 0]),
            float(flat[place, 1]),
            one in near,
            tuple(places[other] for other, _ in near.get(one, ())),
        )
        for place, one in enumerate(shown)
    ]
    neighbours = [
        Neighbourhood(
            chosen.spelled(one), tuple(Neighbour(chosen.spelled(other), like) for other, like in own)
        )
        for one, own in near.items()
    ]
    return EmbeddingMap(chosen.name, tuple(neighbours), tuple(points), explained)


def principal_axes(vectors: Tensor) -> tuple[Tensor, float]:
    """Vectors [N, E] on their two directions of most variance, [N, 2], and the share of it that is left.

    >>> flat, explained = principal_axes(torch.tensor([[0.0, 0, 0], [2, 0, 0], [4, 0, 0]]))
    >>> [round(abs(x), 3) for x in flat[:, 0].tolist()], round(explained, 3)
    ([2.0, 0.0, 2.0], 1.0)
    """
    centred = (vectors - vectors.mean(dim=0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    flat = torch.zeros(len(vectors), 2, dtype=torch.float64)
    kept = min(2, len(sizes))
    flat[:, :kept] = left[:, :kept] * sizes[:kept]
    # An axis has no sign of its own: the farthest point lies on its right side, so that maps can be compared.
    flat *= torch.where(flat.gather(0, flat.abs().argmax(dim=0, keepdim=True)) < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    return flat, float((sizes[:kept] ** 2).sum()) / total if total else 1.0


def _nearest(vectors: Tensor, ids: Sequence[int], k: int, vocabulary: Any) -> list[list[tuple[int, float]]]:
    """The nearest ids of each id with their cosines, itself and the marks apart."""
    like = similarities(vectors, list(ids))
    marks = [one for one in vocabulary[sorted(vocabulary.reserved)] if one < like.shape[1]]
    like[:, marks] = -2.0
    like[torch.arange(len(ids)), list(ids)] = -2.0
    best = like.topk(min(k, like.shape[1]))
    return [
        [(one, value) for one, value in zip(own, values, strict=True) if value > -2.0]
        for own, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
