"""Constraints on the next token: functions on log-probabilities, for every strategy and every model.

A constraint only bars tokens, so several can be combined; see
`throughtime.search.generate.apply_constraints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from throughtime.errors import InputError, check_whole
from throughtime.search.generate import Constraint, Hypotheses

NO_TOKEN = -1  # fills up short sequences; no model has a token of this id


@dataclass(frozen=True)
class BarredTokens:
    """Bars tokens, always or only before a result has some number of tokens."""

    tokens: tuple[int, ...]
    until: int | None = None

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        """Overwrite the log-probabilities of the tokens."""
        if self.until is None or hypotheses.length < self.until:
            for token in self.tokens:
                log_probs[:, token] = -torch.inf
        return log_probs


def no_token(*token_ids: int) -> Constraint:
    """Bar these tokens, such as `<unk>`."""
    return BarredTokens(token_ids)


def minimum_length(tokens: int, end_id: int) -> Constraint:
    """Require at least this number of tokens before the end token."""
    return BarredTokens((end_id,), until=tokens)


def after(tokens: int, constraint: Constraint) -> Constraint:
    """Apply the constraint only after this number of tokens."""
    return lambda log_probs, rows: constraint(log_probs, rows) if rows.length >= tokens else log_probs


def no_repeated_ngram(n: int) -> Constraint:
    """Bar tokens that would repeat an n-gram of the hypothesis; n-grams of the prompt do not count.

    >>> one = Hypotheses.begin(1)
    >>> for token in (0, 1, 0):
    ...     one = one.extend(torch.tensor([0]), torch.tensor([token]), one.log_prob)
    >>> no_repeated_ngram(2)(torch.zeros(1, 3), one).tolist()    # it has the bigram 0 1
    [[0.0, -inf, 0.0]]
    """
    check_whole("no_repeat_ngram", n)

    def constraint(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        tokens = hypotheses.tokens
        if tokens.shape[1] < n:
            return log_probs
        ngrams = tokens.unfold(1, n, 1)  # [rows, places, n]
        latest = tokens[:, tokens.shape[1] - n + 1 :]
        same = (ngrams[:, :, : n - 1] == latest[:, None]).all(dim=2)
        row, position = same.nonzero(as_tuple=True)
        log_probs[row, ngrams[row, position, n - 1]] = -torch.inf
        return log_probs

    return constraint


def forced_prefix(prefixes: Sequence[Sequence[int]]) -> Constraint:
    """Make every sentence begin with its own prefix, at the model's own probability."""
    forced = pad_rows(prefixes)

    def constraint(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if hypotheses.length >= forced.shape[1]:
            return log_probs
        token = forced.to(log_probs.device)[hypotheses.sentence, hypotheses.length][:, None]
        others = torch.arange(log_probs.shape[1], device=token.device) != token
        return log_probs.masked_fill_(others & (token != NO_TOKEN), -torch.inf)

    return constraint


def forbidden_words(words: Sequence[Sequence[int]]) -> Constraint:
    """Bar these words, each of one or several tokens: the token that would complete a word is barred."""
    if not all(words):
        raise InputError("forbidden", "has a word of no tokens, expected one or more")
    by_length = [torch.tensor(list(same)) for _, same in groupby(sorted(words, key=len), key=len)]

    def constraint(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        tokens = hypotheses.tokens
        for table in by_length:  # [words, tokens]
            table = table.to(log_probs.device)
            before = table.shape[1] - 1
            if before > hypotheses.length:
                break
            begun_tokens = (tokens[:, None, tokens.shape[1] - before :] == table[:, :before]).all(dim=2)
            row, word = begun_tokens.nonzero(as_tuple=True)
            log_probs[row, table[word, before]] = -torch.inf
        return log_probs

    return constraint


def pad_rows(sequences: Sequence[Sequence[int]], width: int | None = None) -> Tensor:
    """One row for each sequence, padded on the right with -1."""
    width = max(map(len, sequences), default=0) if width is None else width
    rows = [[*sequence, *[NO_TOKEN] * (width - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.long).view(len(sequences), width)


def required_words(words: Sequence[Sequence[Sequence[int]]], end_id: int, max_new_tokens: int) -> Constraint:
    """Make every sentence contain its own words, each of one or several tokens, in any order.

    The end is barred until all words are there. A missing word that has been begun is completed. A missing
    word is begun where the end token is the likeliest one, or where the maximum length leaves just enough
    steps for the missing words and the end. No state is kept: everything is derived from the tokens.
    """
    for sentence, wanted in enumerate(words):
        needed = sum(map(len, wanted)) + 1
        if not all(wanted):
            raise InputError(
                "required", f"has a word of no tokens for sentence {sentence}, expected one or more"
            )
        if wanted and needed > max_new_tokens:
            raise InputError(
                "required",
                f"needs {needed} tokens for sentence {sentence}, including the end, but at most "
                f"{max_new_tokens} are allowed; raise max_new_tokens",
            )
    most = max(map(len, words), default=0)
    longest = max((len(word) for wanted in words for word in wanted), default=0)
    table = torch.stack(
        [pad_rows([*wanted, *[[]] * (most - len(wanted))], longest) for wanted in words] or [torch.empty(0)]
    )

    def constraint(log_probs: Tensor, hypotheses: Hypotheses) -> Tensor:
        if not table.numel():
            return log_probs
        wanted = table.to(log_probs.device)[hypotheses.sentence]  # [rows, words, longest]
        missing = _find_missing(wanted, hypotheses.tokens)  # [rows, words]
        begun_tokens = _count_begun(wanted, hypotheses.tokens).masked_fill(~missing, 0)  # [rows, words]
        furthest = begun_tokens.amax(dim=1, keepdim=True)
        left = ((wanted != NO_TOKEN).sum(dim=2) * missing).sum(dim=1, keepdim=True) + 1  # and the end token
        must_begin = log_probs.argmax(dim=1, keepdim=True) == end_id
        must_begin |= left >= max_new_tokens - hypotheses.length
        now = (
            missing & (begun_tokens == furthest) & (must_begin | (furthest > 0))
        )  # one of these words must continue now
        row, word = now.nonzero(as_tuple=True)
        others = now.any(dim=1, keepdim=True).expand_as(log_probs).clone()
        others[:, end_id] |= missing.any(dim=1)
        others[row, wanted[row, word, begun_tokens[row, word]]] = False
        return log_probs.masked_fill(others, -torch.inf)

    return constraint


def _find_missing(words: Tensor, tokens: Tensor) -> Tensor:
    """Which words [rows, words, longest] do not occur in their row's tokens [rows, length]. [rows, words]"""
    longest = words.shape[2]
    filled = torch.nn.functional.pad(tokens, (0, longest), value=NO_TOKEN - 1)
    windows = filled.unfold(1, longest, 1)  # [rows, places, longest]
    same = (windows[:, None] == words[:, :, None]) | (words == NO_TOKEN)[:, :, None]
    return ~same.all(dim=3).any(dim=2)  # empty words, which fill up the table, occur everywhere


def _count_begun(words: Tensor, tokens: Tensor) -> Tensor:
    """Number of each word's first tokens that its row ends with, less than the whole word. [rows, words]"""
    lengths = (words != NO_TOKEN).sum(dim=2)
    begun_tokens = torch.zeros_like(lengths)
    for count in range(1, min(words.shape[2] - 1, tokens.shape[1]) + 1):
        same = (words[:, :, :count] == tokens[:, None, tokens.shape[1] - count :]).all(dim=2)
        begun_tokens = torch.where(same & (count < lengths), count, begun_tokens)
    return begun_tokens
