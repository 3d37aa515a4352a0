"""What holds for every strategy, whatever the model: float64, random tiny models, equality to 1e-9."""

from __future__ import annotations

import inspect
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.tables import Pairs, best_of_all

from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam
from throughtime.search.constraints import forbidden_words, minimum_length, no_repeated_ngram, no_token
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy
from throughtime.search.strategies import STRATEGIES, strategy_options

END, V, CAP = 2, 4, 6
PROMPTS = [[n] for n in range(4)]

OPTIONS = {
    "sampling": {"num_return_sequences": 3},
    "beam": {"num_beams": 3, "num_return_sequences": 3},
    "diverse": {"num_beams": 4, "groups": 2, "per_group": 2},
    "stochastic": {"num_beams": 3},
    "exhaustive": {"num_return_sequences": 2},
}
"""Options other than the defaults of a strategy."""


def build(name, seed=5):
    constructor, options = STRATEGIES[name], OPTIONS.get(name, {})
    if "seed" in strategy_options(name):
        options = {"seed": seed, **options}
    bound = inspect.signature(constructor).parameters.get("max_length")
    if bound is not None and bound.default is bound.empty:
        options = {"max_length": CAP, **options}
    return constructor(END, **options)


every_strategy = pytest.mark.parametrize("name", STRATEGIES)
random_models = given(st.integers(0, 10**9), st.sampled_from([0.5, 2.0, 6.0]))
quick = settings(max_examples=15, deadline=None)


def same(found, expected):
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert [(one.tokens, one.ended) for one in own] == [(one.tokens, one.ended) for one in other]
        assert [one.log_prob for one in own] == pytest.approx([one.log_prob for one in other], abs=1e-9)
        assert [one.score for one in own] == pytest.approx([one.score for one in other], abs=1e-9)


@every_strategy
@quick
@random_models
def test_results_are_whole_and_within_the_cap(name, seed, sharpness):  # R89
    model = Pairs(4, V, seed, sharpness)
    results = generate(model, PROMPTS, build(name), max_new_tokens=CAP)
    assert len(results) == len(PROMPTS)
    for sentence, own in enumerate(results):
        assert own
        assert [one.score for one in own] == sorted((one.score for one in own), reverse=True)
        for one in own:
            assert END not in one.tokens
            whole = (*one.tokens, END) if one.ended else one.tokens
            assert len(whole) <= CAP if one.ended else len(whole) == CAP
            assert len(one.path) == len(whole)
            assert one.log_prob == pytest.approx(model.log_prob(sentence, whole), abs=1e-9)


@every_strategy
@quick
@random_models
def test_every_sentence_is_answered_when_constraints_close_every_way(name, seed, sharpness):
    model = Pairs(4, V, seed, sharpness)
    closing = [no_repeated_ngram(1), no_token(0), forbidden_words([(1, 3), (3, 1)]), minimum_length(5, END)]
    results = generate(model, PROMPTS, build(name), max_new_tokens=CAP, constraints=closing)
    for own in results:
        assert own
        assert {one.tokens for one in own} <= {(1,), (3,)}
        assert all(one.ended and math.isfinite(one.log_prob) for one in own)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if "seed" not in strategy_options(name)])
@quick
@random_models
def test_a_batch_is_each_sentence_alone(name, seed, sharpness):
    model = Pairs(4, V, seed, sharpness)
    together = generate(model, PROMPTS, build(name), max_new_tokens=CAP)
    alone = [generate(model, [prompt], build(name), max_new_tokens=CAP)[0] for prompt in PROMPTS]
    same(together, alone)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if "seed" in strategy_options(name)])
def test_draws_depend_on_the_seed(name):
    model = Pairs(4, V, seed=0, sharpness=0.0)  # all tokens are equally likely

    def draw(seed):
        results = generate(model, PROMPTS, build(name, seed), max_new_tokens=CAP)
        return [[one.tokens for one in own] for own in results]

    assert draw(1) == draw(1) != draw(2) == draw(2)
    assert draw(None) != draw(None)


@quick
@random_models
def test_stopping_early_a_batch_is_each_sentence_alone(seed, sharpness):
    model = Pairs(4, V, seed, sharpness)
    for strategy in (
        Beam(END, 3, num_return_sequences=2, max_length=CAP),
        Beam(END, 4, eager=True),
        Beam(END, 3, length_penalty=0.0),
    ):
        together = generate(model, PROMPTS, strategy, max_new_tokens=20)
        same(together, [generate(model, [prompt], strategy, max_new_tokens=20)[0] for prompt in PROMPTS])


@quick
@random_models
def test_a_beam_of_one_is_greedy(seed, sharpness):  # R97
    model = Pairs(4, V, seed, sharpness)
    greedy = generate(model, PROMPTS, Greedy(END), max_new_tokens=20)
    for beam in (
        Beam(END, 1, length_penalty=0.0),
        Beam(END, 1, length_penalty=0.0, max_length=20),
        DiverseBeam(END, 1, groups=1, length_penalty=0.0),
    ):
        same(generate(model, PROMPTS, beam, max_new_tokens=20), greedy)
    normalised = generate(model, PROMPTS, Beam(END, 1), max_new_tokens=20)
    assert [own[0].tokens for own in normalised] == [own[0].tokens for own in greedy]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.75, 1.0, 1.5]), st.integers(1, 5), st.booleans())
def test_a_wide_beam_is_exhaustive(seed, alpha, cap, told):  # R97
    model = Pairs(2, V, seed, 1.0)
    n_best, width = 5, V**cap
    beam = Beam(
        END,
        max(width, n_best),
        length_penalty=alpha,
        num_return_sequences=n_best,
        max_length=cap if told else None,
    )
    for sentence, own in enumerate(generate(model, [[0], [1]], beam, max_new_tokens=cap)):
        expected = best_of_all(model, sentence, END, cap, alpha)[:n_best]
        assert [(*one.tokens, END) if one.ended else one.tokens for one in own] == [
            tokens for _, tokens in expected
        ]
        assert [one.score for one in own] == pytest.approx([score for score, _ in expected], abs=1e-9)
