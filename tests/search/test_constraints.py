"""Constraints, one by one and together, under several strategies."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.search.tables import Contexts, Pairs

from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam, StochasticBeam
from throughtime.search.constraints import (
    after,
    forbidden_words,
    forced_prefix,
    minimum_length,
    no_repeated_ngram,
    no_token,
    required_words,
)
from throughtime.search.generate import Hypotheses, apply_constraints, generate
from throughtime.search.sampling import Greedy, Sampling

END, V, CAP = 3, 6, 9
PROMPTS = [[0], [1], [2]]
STRATEGIES = [
    Greedy(END),
    Beam(END, 3, num_return_sequences=3),
    DiverseBeam(END, 4, groups=2, per_group=2),
    Sampling(END, num_return_sequences=3, seed=0),
    StochasticBeam(END, 3, seed=0),
]

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: type(one).__name__)


def found(strategy, *constraints, seed=0, cap=CAP):
    results = generate(Pairs(3, V, seed), PROMPTS, strategy, max_new_tokens=cap, constraints=constraints)
    assert all(results)  # every sentence has an answer
    return results


def every(*arguments, **options):
    return [one for own in found(*arguments, **options) for one in own]


def occurs(word, tokens):
    return any(tuple(tokens[at : at + len(word)]) == tuple(word) for at in range(len(tokens)))


@every_strategy
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_twice(strategy, n):
    for seed in range(4):
        for one in every(strategy, no_repeated_ngram(n), minimum_length(5, END), seed=seed):
            ngrams = [one.tokens[at : at + n] for at in range(len(one.tokens) - n + 1)]
            assert len(set(ngrams)) == len(ngrams)


@pytest.mark.parametrize("tokens", [0, 1, 4, CAP])
def test_a_result_may_end_at_the_minimum_length_and_no_token_earlier(tokens):
    ending = [0.02, *[0.01] * (END - 1), 0.9, *[0.01] * (V - END - 1)]
    eager = Contexts(V, {(0,) * length: ending for length in range(CAP + 1)})
    [[one]] = generate(
        eager, [[0]], Greedy(END), max_new_tokens=CAP + 1, constraints=[minimum_length(tokens, END)]
    )
    assert (len(one.tokens), one.ended) == (tokens, True)


@every_strategy
def test_minimum_length(strategy):
    lengths = [len(one.tokens) for one in every(strategy, minimum_length(4, END), seed=1)]
    assert min(lengths) >= 4
    assert min(len(one.tokens) for one in every(strategy, seed=1)) < 4


@every_strategy
def test_forced_prefix_of_each_sentence(strategy):
    prefixes = [[5, 0, 1], [], [4]]
    model = Pairs(3, V, 2)
    results = found(strategy, forced_prefix(prefixes), seed=2)
    for sentence, (prefix, own) in enumerate(zip(prefixes, results, strict=True)):
        for one in own:
            assert list(one.tokens[: len(prefix)]) == prefix
            tokens = (*one.tokens, END) if one.ended else one.tokens
            assert one.log_prob == pytest.approx(
                model.log_prob(sentence, tokens), abs=1e-9
            )  # the model's own


@every_strategy
def test_rules_wait_for_the_prefix(strategy):
    # The prefix begins a required word without completing it, and says a forbidden one.
    rules = [required_words([[[4, 5]]] * 3, END, CAP), forbidden_words([[0]])]
    for one in every(strategy, *(after(3, rule) for rule in rules), forced_prefix([[4, 0, 0]] * 3)):
        assert one.tokens[:3] == (4, 0, 0)
        assert occurs((4, 5), one.tokens[3:])
        assert 0 not in one.tokens[3:]


@every_strategy
def test_forbidden_words_of_one_and_several_tokens(strategy):
    free = found(Greedy(END), minimum_length(6, END), seed=3)
    words = [own[0].tokens[:2] for own in free] + [free[0][0].tokens[2:5], (1,)]
    for one in every(strategy, forbidden_words(words), minimum_length(6, END), seed=3):
        assert not any(occurs(word, one.tokens) for word in words)
    # Their parts may be said: only the token that completes a word is barred.
    parts = Contexts(4, {(): [0.9, 0.1, 0.0, 0.0], (0,): [0.8, 0.2, 0.0, 0.0]})
    [[one]] = generate(parts, [[0]], Greedy(END), max_new_tokens=2, constraints=[forbidden_words([(0, 0)])])
    assert one.tokens == (0, 1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(
        st.lists(st.lists(st.sampled_from([0, 1, 2, 4, 5]), min_size=1, max_size=3), max_size=2),
        min_size=3,
        max_size=3,
    ),
    st.integers(7, 10),
    st.sampled_from(STRATEGIES),
)
def test_required_words_are_said_before_the_end(seed, words, cap, strategy):
    results = found(strategy, required_words(words, END, cap), seed=seed, cap=cap)
    for own, missing in zip(results, words, strict=True):
        for one in own:
            assert all(occurs(word, one.tokens) for word in missing), one


def test_a_required_word_comes_where_the_model_would_end():
    model = Contexts(4, {(): [0.9, 0.1, 0.0, 0.0], (0,): [0.1, 0.1, 0.1, 0.7], (0, 2): [0.1, 0.2, 0.1, 0.6]})
    [[one]] = generate(
        model, [[0]], Greedy(END), max_new_tokens=20, constraints=[required_words([[[2]]], END, 20)]
    )
    assert one.tokens == (0, 2)
    assert one.log_prob == pytest.approx(math.log(0.9 * 0.1 * 0.6))


@every_strategy
def test_what_nothing_may_follow_ends(strategy):
    results = found(strategy, no_token(0, 1, 2, 4, 5), minimum_length(5, END), seed=4)
    model = Pairs(3, V, 4)
    for sentence, own in enumerate(results):
        assert {one.tokens for one in own} == {()}
        assert all(one.ended for one in own)
        assert own[0].log_prob == pytest.approx(model.log_prob(sentence, (END,)))  # the model's own


@every_strategy
def test_an_impossible_end_is_still_a_number(strategy):
    model = Contexts(4, {(): [0.5, 0.5, 0.0, 0.0]})
    [own] = generate(model, [[0]], strategy, max_new_tokens=5, constraints=[no_token(0, 1)])
    assert own[0].tokens == ()
    assert math.isfinite(own[0].log_prob)


def test_without_an_end_token_a_stuck_row_goes_on():
    [own] = generate(
        Pairs(1, 3, 0), [[0]], Greedy(None), max_new_tokens=6, constraints=[no_repeated_ngram(1)]
    )
    assert set(own[0].tokens[:3]) == {0, 1, 2}
    assert len(own[0].tokens) == 6
    assert math.isfinite(own[0].log_prob)


def test_constraints_leave_what_they_are_given_as_it_was():
    model = Pairs(3, V, 0)
    before = model.log_p.clone()
    every = [
        no_token(1),
        no_repeated_ngram(1),
        forbidden_words([(0,), (4, 5)]),
        required_words([[[5]]] * 3, END, CAP),
    ]
    generate(model, PROMPTS, Beam(END, 3), max_new_tokens=CAP, constraints=[*every, minimum_length(2, END)])
    assert torch.equal(model.log_p, before)


def test_bad_constraints_are_named():
    with refuses("no_repeat_ngram", "0"):
        no_repeated_ngram(0)
    with refuses("forbidden"):
        forbidden_words([[1], []])
    with refuses("required", "4", "1", "3"):
        required_words([[], [[1], [2, 0]]], END, 3)
    with refuses("required", "0"):
        required_words([[[]]], END, 3)


def test_a_row_whose_first_tokens_are_all_barred_may_still_say_the_others():
    log_probs = torch.full((2, 200), -math.log(200), dtype=torch.float64)
    left = apply_constraints(log_probs, Hypotheses.begin(2), [no_token(*range(150))], end_id=3)
    assert torch.isinf(left[:, :150]).all()
    assert torch.equal(left[:, 150:], torch.full((2, 50), -math.log(200), dtype=torch.float64))
    closed = apply_constraints(left, Hypotheses.begin(2), [no_token(*range(200))], end_id=199)
    assert (closed > -math.inf).nonzero().tolist() == [[0, 199], [1, 199]]
    assert closed[0, 199] == pytest.approx(-math.log(200))
