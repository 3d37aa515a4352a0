"""Words that every result of a sentence must say."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.constraints import NO_TOKEN, Constraint, padded
from throughtime.search.hypotheses import Hypotheses


def required(words: Sequence[Sequence[Sequence[int]]], end_id: int, max_new_tokens: int) -> Constraint:
    """Every sentence says its own words, each one token or several, in any order.

    The rule is simple: the end is barred until all are said. A word that is missing and has been begun is
    completed. A missing word is begun where the model likes the end best, or where the cap leaves just enough
    steps for what is missing and the end. No state is kept: all is read off the tokens.
    """
    for sentence, own in enumerate(words):
        needed = sum(map(len, own)) + 1
        if not all(own):
            raise InputError(
                "required", f"has a word of no tokens for sentence {sentence}, expected one or more"
            )
        if own and needed > max_new_tokens:
            raise InputError(
                "required",
                f"needs {needed} tokens for sentence {sentence}, the end among them, but at most "
                f"{max_new_tokens} may come; raise max_new_tokens",
            )
    most, longest = (
        max(map(len, words), default=0),
        max((len(word) for own in words for word in own), default=0),
    )
    table = torch.stack(
        [padded([*own, *[[]] * (most - len(own))], longest) for own in words] or [torch.empty(0)]
    )

    def constraint(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if not table.numel():
            return log_probs
        own = table.to(log_probs.device)[hypotheses.sentence]  # [rows, words, longest]
        missing = _missing(own, hypotheses.tokens)  # [rows, words]
        begun = _begun(own, hypotheses.tokens).masked_fill(~missing, 0)  # [rows, words]
        furthest = begun.amax(dim=1, keepdim=True)
        left = ((own != NO_TOKEN).sum(dim=2) * missing).sum(dim=1, keepdim=True) + 1  # and the end
        pressed = log_probs.argmax(dim=1, keepdim=True) == end_id
        pressed |= left >= max_new_tokens - hypotheses.length
        now = missing & (begun == furthest) & (pressed | (furthest > 0))  # one of these words is said now
        row, word = now.nonzero(as_tuple=True)
        others = now.any(dim=1, keepdim=True).expand_as(log_probs).clone()
        others[:, end_id] |= missing.any(dim=1)
        others[row, own[row, word, begun[row, word]]] = False
        return log_probs.masked_fill(others, -torch.inf)

    return constraint


def _missing(words: Tensor, tokens: Tensor) -> Tensor:
    """Which words [rows, words, longest] do not occur in their row's tokens [rows, length]. [rows, words]"""
    longest = words.shape[2]
    filled = torch.nn.functional.pad(tokens, (0, longest), value=NO_TOKEN - 1)
    places = filled.unfold(1, longest, 1)  # [rows, places, longest]
    same = (places[:, None] == words[:, :, None]) | (words == NO_TOKEN)[:, :, None]
    return ~same.all(dim=3).any(dim=2)  # words that only fill the table occur everywhere


def _begun(words: Tensor, tokens: Tensor) -> Tensor:
    """How many of each word's first tokens its row ends with, less than the whole word. [rows, words]"""
    lengths = (words != NO_TOKEN).sum(dim=2)
    begun = torch.zeros_like(lengths)
    for count in range(1, min(words.shape[2] - 1, tokens.shape[1]) + 1):
        same = (words[:, :, :count] == tokens[:, None, tokens.shape[1] - count :]).all(dim=2)
        begun = torch.where(same & (count < lengths), count, begun)
    return begun
