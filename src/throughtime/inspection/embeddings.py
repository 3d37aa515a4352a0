"""The token vectors of a model: nearest neighbours of tokens, and a map of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from throughtime.errors import InputError, check_whole
from throughtime.inspection.gates import tags
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.results import Answer


@dataclass(frozen=True)
class Table:
    """The vectors of one vocabulary. `codec` encodes texts; None if whole words are looked up."""

    name: str
    vectors: Tensor  # [V, E]
    vocabulary: Any
    codec: Any = None

    def ids(self, text: str) -> list[int]:
        """Return the ids of the tokens of a text that have a vector."""
        if self.codec is None:
            token_ids = self.vocabulary[text.split()]
        else:
            # Most words occur inside sentences, where a subword contains the space before it.
            token_ids = min((self.codec.encode(spelt) for spelt in (f" {text}", text)), key=len)
        unk = self.vocabulary.unk_id
        return [one for one in dict.fromkeys(token_ids) if one != unk and one < len(self.vectors)]

    def spell(self, token_id: int) -> str:
        """Return a token as people read it."""
        token: str = self.vocabulary.token(token_id)
        if self.codec is None or token in self.vocabulary.reserved:
            return token
        return self.codec.decode([token_id]).strip() or "␣"


def tables(model: Any) -> list[Table]:
    """List all tables of token vectors in a loaded model, that of the source first."""
    network: Any = getattr(model, "model", None)
    if isinstance(network, EncoderDecoder) and hasattr(model, "codecs"):
        return _list_translator_tables(network, model.codecs)
    if tags(model):
        return [Table("words", network.embedding.weight.detach(), model.codec.words)]
    # The encoder of a composer reads labels or numbers; only its decoder has tokens.
    module = network.decoder if isinstance(network, EncoderDecoder) else getattr(network, "encoder", network)
    embedding = getattr(module, "embedding", None)
    framing = getattr(model, "framing", None)
    codec = framing.codec if framing is not None else getattr(model, "codec", None)
    if not isinstance(embedding, nn.Embedding) or codec is None:
        raise InputError("model", "has no token vectors to show")
    return [Table("tokens", embedding.weight.detach(), codec.vocabulary, codec)]


def table(model: Any, name: str | None = None) -> Table:
    """Return the table of this name, or the first one."""
    by_name = {table.name: table for table in tables(model)}
    if name is not None and name not in by_name:
        shared = "but all tokens of this model share one table; leave it out"
        problem = shared if len(by_name) == 1 else f"expected {' or '.join(by_name)}"
        raise InputError("side", f"is {name!r}, {problem}")
    return by_name[name] if name is not None else next(iter(by_name.values()))


def _list_translator_tables(network: EncoderDecoder, codecs: Any) -> list[Table]:
    sides = {"source": (network.encoder, codecs.source), "target": (network.decoder, codecs.target)}
    tables_of_sides: list[Table] = []
    for name, (module, codec) in sides.items():
        embedding = getattr(module, "embedding", None)
        if isinstance(embedding, nn.Embedding):
            tables_of_sides.append(Table(name, embedding.weight.detach(), codec.vocabulary, codec))
    if len(tables_of_sides) == 2 and len({table.vectors.data_ptr() for table in tables_of_sides}) == 1:
        return [replace(tables_of_sides[0], name="tokens")]
    return tables_of_sides


@dataclass(frozen=True)
class Neighbour:
    """A token near another one, with the cosine of the angle between their vectors."""

    token: str
    similarity: float


@dataclass(frozen=True)
class Neighbourhood:
    """A token of the sentence with its neighbours, the nearest first."""

    token: str
    nearest: tuple[Neighbour, ...]


@dataclass(frozen=True)
class Point:
    """A token on the map. `asked` tells whether it is in the sentence, `near` lists its neighbours."""

    token: str
    x: float
    y: float
    asked: bool
    near: tuple[int, ...]  # indices of points


@dataclass(frozen=True)
class EmbeddingMap(Answer):
    """The tokens of a sentence and their nearest neighbours, on the two principal axes of their vectors."""

    table: str
    neighbours: tuple[Neighbourhood, ...]
    points: tuple[Point, ...]
    explained: float  # the share of the variance that the map shows


@torch.inference_mode()
def embedding_map(model: Any, text: str, *, k: int = 6, side: str | None = None) -> EmbeddingMap:
    """Find the tokens of a text and the `k` nearest tokens of each in the vocabulary of a model."""
    check_whole("k", k)
    chosen = table(model, side)
    ids = [
        token_id
        for token_id in chosen.ids(text)
        if chosen.vocabulary.token(token_id) not in chosen.vocabulary.reserved
    ]
    if not ids:
        raise InputError("sentence", "has no token that the model knows; give words of its language")
    nearest = _nearest(chosen.vectors.float().cpu(), ids, k, chosen.vocabulary)
    shown = list(dict.fromkeys([*ids, *(token_id for row in nearest for token_id, _ in row)]))
    places = {token_id: position for position, token_id in enumerate(shown)}
    flat, explained = principal_axes(chosen.vectors[shown].float().cpu())
    near = dict(zip(ids, nearest, strict=True))
    spelt = {token_id: chosen.spell(token_id) for token_id in shown}
    points = [
        Point(
            spelt[token_id], x, y, token_id in near, tuple(places[one] for one, _ in near.get(token_id, ()))
        )
        for token_id, (x, y) in zip(shown, flat.tolist(), strict=True)
    ]
    neighbours = [
        Neighbourhood(spelt[token_id], tuple(Neighbour(spelt[one], like) for one, like in row))
        for token_id, row in near.items()
    ]
    return EmbeddingMap(chosen.name, tuple(neighbours), tuple(points), explained)


def principal_axes(vectors: Tensor) -> tuple[Tensor, float]:
    """Project vectors [N, E] onto their two main axes, [N, 2], and return the share of variance kept.

    >>> flat, explained = principal_axes(torch.tensor([[0.0, 0, 0], [2, 0, 0], [4, 0, 0]]))
    >>> [round(abs(x), 3) for x in flat[:, 0].tolist()], round(explained, 3)
    ([2.0, 0.0, 2.0], 1.0)
    """
    centred = (vectors - vectors.mean(dim=0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    flat = torch.zeros(len(vectors), 2, dtype=torch.float64)
    count = min(2, len(sizes))
    flat[:, :count] = left[:, :count] * sizes[:count]
    # The sign of an axis is arbitrary; the farthest point gets a positive sign, so that maps are comparable.
    flat *= torch.where(flat.gather(0, flat.abs().argmax(dim=0, keepdim=True)) < 0, -1.0, 1.0)
    total = float((sizes**2).sum())
    return flat, float((sizes[:count] ** 2).sum()) / total if total else 1.0


def _nearest(vectors: Tensor, ids: Sequence[int], k: int, vocabulary: Any) -> list[list[tuple[int, float]]]:
    """Find the nearest ids of each id with their cosines, without itself and reserved tokens."""
    unit = vectors / vectors.norm(dim=1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)
    like = unit[list(ids)] @ unit.T  # [ids, V], cosines
    marks = [token_id for token_id in vocabulary[sorted(vocabulary.reserved)] if token_id < like.shape[1]]
    like[:, marks] = -2.0
    like[torch.arange(len(ids)), list(ids)] = -2.0
    best = like.topk(min(k, like.shape[1]))
    return [
        [(token_id, value) for token_id, value in zip(row, values, strict=True) if value > -2.0]
        for row, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
