"""The beam over arrays beside the one over tensors, on models that are tables of chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.runtime.search import ArrayBeam, Likeliest
from throughtime.search.beam import Beam
from throughtime.search.generate import Memory, Step, generate

END, BEGIN = 0, 1


class Table:
    """ln P of a next token by the last one and the sentence's own table: a step model for both searches."""

    def __init__(self, tables):
        self.tables = torch.log_softmax(torch.tensor(tables), -1)  # [sentences, V, V]

    def start(self, prompts):
        sentences = len(prompts)
        return torch.full((sentences,), BEGIN), (torch.arange(sentences)[:, None],), Memory.empty(sentences)

    def step(self, last, state, memory):
        return Step(self.tables[state[0][:, 0], last].clone(), state)


class Stepping:
    """The same for the beam over arrays."""

    def __init__(self, model):
        self.tables, self.sentence = model.tables.numpy(), np.arange(len(model.tables))

    def __call__(self, rows, last, staying, count):
        self.sentence = self.sentence[rows]
        log_probs = self.tables[self.sentence, last]
        order = np.argsort(-log_probs, axis=1, kind="stable")[:, :count]
        return Likeliest(np.take_along_axis(log_probs, order, axis=1), order)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    sentences=st.integers(1, 4),
    width=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.75, 1.5]),
    most=st.integers(1, 7),
    words=st.integers(3, 9),
)
def test_both_beams_find_the_same(seed, sentences, width, alpha, most, words):
    model = Table(np.random.default_rng(seed).normal(0, 2, (sentences, words, words)).astype(np.float32))
    best = max(1, width // 2)
    expected = generate(
        model,
        [[BEGIN]] * sentences,
        Beam(END, width, length_penalty=alpha, num_return_sequences=best, max_length=most),
        max_new_tokens=most,
    )
    ours = ArrayBeam(END, width, alpha, best, most).search(Stepping(model), sentences, BEGIN)
    plain = [[(one.tokens, one.ended, round(one.score, 9)) for one in own] for own in expected]
    assert [[(one.tokens, one.ended, round(one.score, 9)) for one in own] for own in ours] == plain


def test_barred_tokens_are_never_said():
    model = Table(np.zeros((1, 5, 5), dtype=np.float32))
    (found,) = ArrayBeam(END, 3, 0.0, 3, 4, barred=[2, 3]).search(Stepping(model), 1, BEGIN)
    assert {token for one in found for token in one.tokens} <= {1, 4}


@pytest.mark.parametrize("alpha", [-0.1, 11.0, math.inf, math.nan])
def test_both_beams_refuse_the_same_penalties(alpha):
    with refuses("length_penalty", "0", "10"):
        ArrayBeam(END, 3, length_penalty=alpha)
    with refuses("length_penalty", "0", "10"):
        Beam(END, 3, length_penalty=alpha)
