"""What a language model expects next, and how much each token so far surprised it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from throughtime.errors import InputError
from throughtime.text.codec import END, WINDOW

if TYPE_CHECKING:
    from throughtime.tasks.language.model import LanguageModel

TOP = 10


@dataclass(frozen=True)
class Read:
    """A token of the text and -log2 of the probability that it had, None where it was given."""

    piece: str
    bits: float | None


@dataclass(frozen=True)
class Expected:
    """A token that may come next: what it would add to the text, and how likely it is."""

    token: str
    piece: str
    probability: float


@dataclass(frozen=True)
class NextTokens:
    """A text as the model reads it and what may follow, the likeliest first."""

    read: tuple[Read, ...]
    expected: tuple[Expected, ...]
    entropy: float  # bits; how open the next token is

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@torch.inference_mode()
def next_tokens(language: LanguageModel, text: str, k: int = TOP) -> NextTokens:
    """The `k` likeliest next tokens after a text; the text may be empty."""
    framing = getattr(language, "framing", None)
    if framing is None:
        raise InputError("model", "is not a language model; only those predict the next token")
    if framing.backward:
        raise InputError("model", "reads from right to left, so nothing comes next")
    ids = framing.ids(text, end=False)
    pieces = framing.pieces(ids)
    log_probs = [float(one) for one in language.model.log_probs([ids])[0]] if ids else []
    read = [
        Read(piece, None if place < framing.given else -log_p / math.log(2))
        for place, (piece, log_p) in enumerate(zip(pieces, log_probs, strict=True))
    ]
    last, state, memory = language.model.start([ids])
    row = language.model.step(last, state, memory).log_probs[0].double()
    row[framing.never_predicted] = -torch.inf
    row = row.log_softmax(0)
    chances = row.exp()
    best = chances.topk(min(k, len(row)))
    vocabulary = framing.codec.vocabulary
    expected = [
        Expected(
            END if one == framing.end_id else vocabulary.token(one),
            framing.addition(ids[-WINDOW:], one),
            chance,
        )
        for chance, one in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if chance > 0
    ]
    entropy = -float((chances * row.clamp(min=-1e30)).sum()) / math.log(2)
    return NextTokens(tuple(read[framing.given :]), tuple(expected), entropy)
