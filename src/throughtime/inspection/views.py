"""Which views `throughtime inspect` can show of a loaded model, and its tables of token vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from throughtime.errors import InputError
from throughtime.inspection.gates import check_gates, tags
from throughtime.inspection.translation import require_translator
from throughtime.models.seq2seq import EncoderDecoder

VIEWS = ("attention", "beam", "gates", "embedding")


def views(model: Any) -> list[str]:
    """The names of the views that this model has; none for a model of counts or of series."""
    checks = {
        "attention": _check_attention,
        "beam": require_translator,
        "gates": check_gates,
        "embedding": tables,
    }
    found = []
    for view in VIEWS:
        try:
            checks[view](model)
        except InputError:
            continue
        found.append(view)
    return found


def _check_attention(model: Any) -> None:
    require_translator(model)
    if not model.attends:
        raise InputError("model", "has no attention")


@dataclass(frozen=True)
class Table:
    """The vectors of one vocabulary; `codec` reads texts for it, None where words are looked up as such."""

    name: str
    vectors: Tensor  # [V, E]
    vocabulary: Any
    codec: Any = None

    def ids(self, text: str) -> list[int]:
        """The tokens of a text that have a vector."""
        if self.codec is None:
            found = self.vocabulary[text.split()]
        else:
            # A word is met inside of sentences, not at their beginning, where parts may carry no space.
            found = min((self.codec.encode(one) for one in (f" {text}", text)), key=len)
        unk = self.vocabulary.unk_id
        return [one for one in dict.fromkeys(found) if one != unk and one < len(self.vectors)]

    def spelled(self, one: int) -> str:
        """A token as people read it."""
        token: str = self.vocabulary.token(one)
        if self.codec is None or token in self.vocabulary.reserved:
            return token
        return self.codec.decode([one]).strip() or "␣"


def tables(model: Any) -> list[Table]:
    """All tables of token vectors in a loaded model; the source's first."""
    network: Any = getattr(model, "model", None)
    if isinstance(network, EncoderDecoder) and hasattr(model, "codecs"):
        return _of_translator(network, model.codecs)
    if tags(model):
        return [Table("words", network.embedding.weight.detach(), model.codec.words)]
    # The encoder of a composer reads labels or numbers; only its decoder has tokens.
    part = network.decoder if isinstance(network, EncoderDecoder) else getattr(network, "encoder", network)
    embedding = getattr(part, "embedding", None)
    framing = getattr(model, "framing", None)
    codec = framing.codec if framing is not None else getattr(model, "codec", None)
    if not isinstance(embedding, nn.Embedding) or codec is None:
        raise InputError("model", "has no vectors of tokens to show")
    return [Table("tokens", embedding.weight.detach(), codec.vocabulary, codec)]


def table(model: Any, name: str | None = None) -> Table:
    """The table of this name, or the first."""
    found = {one.name: one for one in tables(model)}
    if name is not None and name not in found:
        shared = "but this model has one table of vectors for all its tokens; leave it out"
        problem = shared if len(found) == 1 else f"expected {' or '.join(found)}"
        raise InputError("side", f"is {name!r}, {problem}")
    return found[name] if name is not None else next(iter(found.values()))


def _of_translator(network: EncoderDecoder, codecs: Any) -> list[Table]:
    sides = {"source": (network.encoder, codecs.source), "target": (network.decoder, codecs.target)}
    found: list[Table] = []
    for name, (part, codec) in sides.items():
        embedding = getattr(part, "embedding", None)
        if isinstance(embedding, nn.Embedding):
            found.append(Table(name, embedding.weight.detach(), codec.vocabulary, codec))
    if len(found) == 2 and found[0].vectors.data_ptr() == found[1].vectors.data_ptr():
        return [Table("tokens", found[0].vectors, codecs.source.vocabulary, codecs.source)]
    return found


def similarities(vectors: Tensor, ids: list[int]) -> Tensor:
    """The cosine of the angle between some vectors and all, [ids, V]."""
    lengths = vectors.norm(dim=1).clamp(min=torch.finfo(vectors.dtype).tiny)
    unit = vectors / lengths[:, None]
    like: Tensor = unit[ids] @ unit.T
    return like
