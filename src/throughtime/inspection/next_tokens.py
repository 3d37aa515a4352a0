"""What a language model expects next, and the surprisal of each token so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from throughtime.errors import InputError
from throughtime.results import Answer
from throughtime.text.codec import END, WINDOW

if TYPE_CHECKING:
    from throughtime.tasks.language_model import LanguageModel

TOP = 10


@dataclass(frozen=True)
class ScoredToken:
    """A token of the text and its surprisal, -log2 of its probability; None if it was not predicted."""

    piece: str
    bits: float | None


@dataclass(frozen=True)
class NextToken:
    """A token that may come next: what it adds to the text, and its probability."""

    token: str
    piece: str
    probability: float


@dataclass(frozen=True)
class NextTokens(Answer):
    """A text as the model reads it, and the tokens that may follow, the most likely first."""

    read: tuple[ScoredToken, ...]
    expected: tuple[NextToken, ...]
    entropy: float  # of the next token, in bits


@torch.inference_mode()
def next_tokens(language: LanguageModel, text: str, k: int = TOP) -> NextTokens:
    """Find the `k` most likely next tokens after a text, which may be empty."""
    framing = getattr(language, "framing", None)
    if framing is None:
        raise InputError("model", "is not a language model; only those predict the next token")
    if framing.backward:
        raise InputError("model", "reads from right to left, so nothing comes next")
    ids = framing.ids(text, end=False)
    pieces = framing.pieces(ids)
    log_probs = [float(log_prob) for log_prob in language.model.log_probs([ids])[0]] if ids else []
    read = [
        ScoredToken(piece, None if position < framing.num_given else -log_p / math.log(2))
        for position, (piece, log_p) in enumerate(zip(pieces, log_probs, strict=True))
    ]
    last, state, memory = language.model.start([ids])
    row = language.model.step(last, state, memory).log_probs[0].double()
    row[framing.never_predicted] = -torch.inf
    row = row.log_softmax(0)
    chances = row.exp()
    best = chances.sort(descending=True, stable=True)  # of equally likely ones, the smallest id comes first
    vocabulary = framing.codec.vocabulary
    expected = []
    for chance, token_id in zip(best.values[:k].tolist(), best.indices[:k].tolist(), strict=True):
        token = END if token_id == framing.end_id else vocabulary.token(token_id)
        if chance > 0:
            expected.append(NextToken(token, framing.addition(ids[-WINDOW:], token_id), chance))
    entropy = -float((chances * row.clamp(min=-1e30)).sum()) / math.log(2)
    return NextTokens(tuple(read[framing.num_given :]), tuple(expected), entropy)
