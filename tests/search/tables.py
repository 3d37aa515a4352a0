"""Step models small enough to know everything about, and every sequence they can say."""

from __future__ import annotations

import itertools
import math

import torch

from throughtime.search.exhaustive import Exhaustive
from throughtime.search.generate import Memory, Step, generate


class Pairs:
    """P(next | sentence, the last two tokens) at random. A prompt is the number of its sentence."""

    def __init__(self, sentences, vocabulary, seed, sharpness=2.0):
        source = torch.Generator().manual_seed(seed)
        shape = (sentences, vocabulary + 1, vocabulary + 1, vocabulary)  # the last row: nothing said yet
        noise = torch.randn(shape, generator=source, dtype=torch.float64)
        self.log_p = (sharpness * noise).log_softmax(dim=-1)
        self.vocabulary = vocabulary

    def start(self, prompts):
        nothing = torch.full((len(prompts),), self.vocabulary)
        sentence = torch.tensor([number for [number] in prompts])
        return nothing, (nothing[:, None],), Memory((sentence,), torch.arange(len(prompts)))

    def step(self, last, state, memory):
        log_p = self.log_p[memory.kept[0][memory.owner], state[0][:, 0], last]
        return Step(log_p, (last[:, None],), {"last": last})

    def log_prob(self, sentence, tokens):
        before = itertools.pairwise([self.vocabulary, self.vocabulary, *tokens])
        return sum(float(self.log_p[sentence, a, b, t]) for (a, b), t in zip(before, tokens, strict=False))


class Contexts:
    """P(next | all that was said), from a table of the contexts that are not uniform."""

    def __init__(self, vocabulary, table):
        self.vocabulary, self.table = vocabulary, table

    def start(self, prompts):
        return (
            torch.full((len(prompts),), -1),
            (torch.empty(len(prompts), 0).long(),),
            Memory.empty(len(prompts)),
        )

    def step(self, last, state, memory):
        said = torch.cat([state[0], last[:, None]], dim=1)
        uniform = [1 / self.vocabulary] * self.vocabulary
        rows = [self.table.get(tuple(row[1:]), uniform) for row in said.tolist()]
        return Step(torch.tensor(rows, dtype=torch.float64).log(), (said,))


def sequences(vocabulary, end_id, cap):
    """All that can be said: with their end token, or of `cap` tokens without."""
    others = [token for token in range(vocabulary) if token != end_id]
    for length in range(cap):
        for body in itertools.product(others, repeat=length):
            yield (*body, end_id)
    yield from itertools.product(others, repeat=cap)


def best_of_all(model, sentence, end_id, cap, alpha):
    """(score, tokens with the end token) of every possible sequence, best first."""
    found = []
    for tokens in sequences(model.vocabulary, end_id, cap):
        log_prob = model.log_prob(sentence, tokens)
        if log_prob > -math.inf:
            found.append((log_prob / len(tokens) ** alpha, tokens))
    return sorted(found, reverse=True)


def exhaustive(model, prompts, end_id, max_new_tokens, length_penalty=0.75, num_return_sequences=1):
    """The best of all sequences of each prompt, by `Exhaustive`."""
    strategy = Exhaustive(
        end_id,
        max_new_tokens,
        length_penalty=length_penalty,
        num_return_sequences=num_return_sequences,
    )
    return generate(model, prompts, strategy, max_new_tokens=max_new_tokens)
