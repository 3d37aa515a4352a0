"""Steps of fixed shape find what the plain loop finds: tokens, scores, order, alternatives and paths."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.tables import Pairs

from throughtime.errors import DamagedModelError
from throughtime.gpu.search import search_fixed
from throughtime.models.language import RecurrentLanguageModel
from throughtime.search.beam import Beam
from throughtime.search.constraints import minimum_length, no_token
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy, Sampling
from throughtime.tasks.translate.network import PRESETS, build

END, V, CAP = 2, 5, 8
PROMPTS = [[n] for n in range(5)]

MADE = {
    "greedy": lambda: Greedy(END),
    "endless": lambda: Greedy(None),
    "sampling": lambda: Sampling(END, num_return_sequences=3, seed=5),
    "truncated": lambda: Sampling(END, temperature=0.7, top_k=4, top_p=0.8, seed=6),
    "beam": lambda: Beam(END, 3, num_return_sequences=3, max_length=CAP),
    "unbounded": lambda: Beam(END, 4, num_return_sequences=2),
    "short": lambda: Beam(END, 3, max_length=4, num_return_sequences=3),
    "eager": lambda: Beam(END, 4, eager=True),
    "without penalty": lambda: Beam(END, 3, length_penalty=0.0),
    "narrow": lambda: Beam(END, 1, max_length=CAP),
    "wide": lambda: Beam(END, 9, num_return_sequences=5, length_penalty=1.5, max_length=CAP),
    "endless beam": lambda: Beam(None, 3, num_return_sequences=3, max_length=CAP),
}
CONSTRAINTS = {
    "none": [],
    "some": [no_token(0), minimum_length(3, END)],
    "only the end": [no_token(0, 1, 3, 4)],
    "nothing": [no_token(*range(V))],
}
strategies = pytest.mark.parametrize("name", MADE)


@strategies
@settings(deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([0.5, 2.0, 6.0]), st.sampled_from(sorted(CONSTRAINTS)))
def test_fixed_steps_find_what_the_plain_loop_finds(name, seed, sharpness, constraints):
    model, options = Pairs(5, V, seed, sharpness), {"constraints": CONSTRAINTS[constraints]}
    expected = generate(model, PROMPTS, MADE[name](), max_new_tokens=CAP, **options)
    assert search_fixed(model, PROMPTS, MADE[name](), max_new_tokens=CAP, **options) == expected


@strategies
def test_a_search_is_cut_at_the_maximum_length(name):
    model = Pairs(5, V, seed=1, sharpness=0.5)
    for most in (1, 3, 2 * CAP):
        expected = generate(model, PROMPTS, MADE[name](), max_new_tokens=most)
        assert search_fixed(model, PROMPTS, MADE[name](), max_new_tokens=most) == expected


@strategies
@settings(deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([0.2, 0.6, 1.0]))
def test_a_sentence_that_nothing_can_follow_is_answered(name, seed, share):
    model = Pairs(5, V, seed)
    closed = torch.rand(model.log_p.shape[:3], generator=torch.Generator().manual_seed(seed)) < share
    model.log_p[closed] = -torch.inf
    expected = generate(model, PROMPTS, MADE[name](), max_new_tokens=CAP)
    assert search_fixed(model, PROMPTS, MADE[name](), max_new_tokens=CAP) == expected


@strategies
def test_what_is_not_a_number_is_damage_only_at_the_first_step(name):
    model = Pairs(5, V, seed=3)
    model.log_p[2, V, V] = math.nan  # of one sentence, before its first token
    with pytest.raises(DamagedModelError):
        search_fixed(model, PROMPTS, MADE[name](), max_new_tokens=CAP)


def build_network(kind):
    torch.manual_seed(0)
    if kind in PRESETS:
        return build(kind, 11, 13, bos_id=1, embedding_size=8, hidden_size=12).double().eval()
    model = RecurrentLanguageModel(13, cell=kind, embedding_size=8, hidden_size=12, num_layers=2)
    return model.double().eval()


@pytest.mark.parametrize("kind", [*PRESETS, "gru", "lstm"])
def test_networks_search_in_fixed_steps(kind):
    prompts, model = [[3, 4, 5], [6], [], [7, 8, 9, 10, 2], [4, 4]], build_network(kind)
    for strategy in (lambda: Beam(END, 4, max_length=9, num_return_sequences=2), MADE["sampling"]):
        expected = generate(model, prompts, strategy(), max_new_tokens=9)
        same(search_fixed(model, prompts, strategy(), max_new_tokens=9), expected)


def test_an_ensemble_searches_in_fixed_steps():
    torch.manual_seed(1)
    models = [build(name, 11, 13, bos_id=1, hidden_size=12).double().eval() for name in ("main", "attention")]
    expected = generate(Ensemble(models), [[3, 4], [5]], MADE["beam"](), max_new_tokens=CAP)
    same(search_fixed(Ensemble(models), [[3, 4], [5]], MADE["beam"](), max_new_tokens=CAP), expected)


def same(found, expected):
    """Products of other shapes may differ in their last digits."""
    assert [[(one.tokens, one.ended, one.path) for one in own] for own in found] == [
        [(one.tokens, one.ended, one.path) for one in own] for own in expected
    ]
    scores = [
        [(one.score, one.log_prob) for own in all_found for one in own] for all_found in (found, expected)
    ]
    assert torch.tensor(scores[0]).allclose(torch.tensor(scores[1]), rtol=1e-9)
