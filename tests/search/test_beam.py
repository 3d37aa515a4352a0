"""Beam search against greedy search, against all sequences there are, and against its own table."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.search.tables import Contexts, Pairs, exhaustive

from throughtime.search.beam import Beam
from throughtime.search.candidates import highest, prune_by_hypothesis, prune_by_token
from throughtime.search.generate import Step, generate
from throughtime.search.sampling import Greedy

A, B, C, END = range(4)
TABLE = {
    (): [0.5, 0.2, 0.2, 0.1],
    (A,): [0.1, 0.4, 0.3, 0.2],
    (A, B): [0.2, 0.2, 0.4, 0.2],
    (A, B, C): [0.0, 0.2, 0.2, 0.6],
    (A, C): [0.1, 0.6, 0.2, 0.1],
    (A, C, B): [0.1, 0.2, 0.1, 0.6],
}


def best(strategy, cap=6):
    return generate(Contexts(4, TABLE), [[0]], strategy, max_new_tokens=cap)[0][0]


def test_greedy_misses_what_a_beam_of_two_and_exhaustive_search_find():  # R99
    greedy, beam = best(Greedy(END)), best(Beam(END, 2))
    assert (greedy.tokens, beam.tokens) == ((A, B, C), (A, C, B))
    assert math.exp(greedy.log_prob) == pytest.approx(0.048)
    assert math.exp(beam.log_prob) == pytest.approx(0.054)
    assert beam.score == pytest.approx(math.log(0.054) / 4**0.75)
    [[everything]] = exhaustive(Contexts(4, TABLE), [[0]], END, 6)
    assert everything.tokens == (A, C, B)
    assert best(Beam(END, 4**6)).tokens == (A, C, B)


def test_without_length_normalisation_the_early_end_wins():  # R98, R99
    [[everything]] = exhaustive(Contexts(4, TABLE), [[0]], END, 6, length_penalty=0.0)
    assert math.exp(everything.log_prob) == pytest.approx(0.1)
    assert math.exp(best(Beam(END, 4**6, length_penalty=0.0)).log_prob) == pytest.approx(0.1)
    assert Beam(END).length_penalty == 0.75


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.75, 1.0, 2.0]), st.integers(2, 4), st.integers(1, 4))
def test_stopping_early_changes_nothing(seed, alpha, width, n_best):  # R97
    model, prompts, n_best = Pairs(3, 4, seed), [[0], [1], [2]], min(n_best, width)
    bounded = Beam(END, width, length_penalty=alpha, num_return_sequences=n_best, max_length=9)
    unbounded = Beam(END, width, length_penalty=alpha, num_return_sequences=n_best)
    unbounded.ceiling = lambda rank, length: torch.zeros_like(rank)  # never certain
    assert said(generate(model, prompts, bounded, max_new_tokens=9)) == said(
        generate(model, prompts, unbounded, max_new_tokens=9)
    )


def said(results):
    return [[(one.tokens, one.ended, round(one.score, 9)) for one in found] for found in results]


class Steps:
    """Counts the rows that a model is asked for."""

    def __init__(self, model):
        self.model, self.rows, self.each = model, [], []
        self.start = model.start

    def step(self, last, state, memory):
        self.rows.append(len(last))
        self.each.append(memory.rows_each)
        return self.model.step(last, state, memory)


def test_the_bound_stops_the_search_and_eagerness_stops_it_sooner():
    table = {(): [0.01, 0.01, 0.01, 0.97]}  # nothing that goes on can win
    counts = []
    for strategy in (
        Beam(END, 2, max_length=30),
        Beam(END, 2, max_length=30, eager=True),
        Beam(END, 2, length_penalty=0.0),
        Beam(END, 2),
    ):
        steps = Steps(Contexts(4, table))
        [[found]] = generate(steps, [[0]], strategy, max_new_tokens=30)
        assert (found.tokens, found.ended) == ((), True)
        counts.append(len(steps.rows))
    bounded, eager, shortest, unbounded = counts
    assert eager == shortest == 1
    assert unbounded == 30
    assert 1 <= bounded < 30


def test_a_model_is_asked_for_the_rows_that_go_on_only():
    steps = Steps(Pairs(5, 4, 7))
    generate(steps, [[n] for n in range(5)], Beam(END, 3, max_length=20), max_new_tokens=20)
    assert steps.rows[0] == 5
    assert max(steps.rows) <= 15
    assert steps.rows[-1] < 5  # sentences leave, and of those that stay, rows that cannot win
    assert None in steps.each  # one by one, not all of a sentence at once


class Together(Beam):
    """The plain search: all rows of a sentence go on until none can win."""

    alone = False


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**9),
    st.sampled_from([0.5, 2.0, 6.0]),
    st.sampled_from([0.0, 0.75, 1.5]),
    st.integers(1, 4),
    st.integers(1, 9),
)
def test_dropping_rows_that_cannot_win_changes_no_result(seed, sharpness, alpha, n_best, cap):
    found, rows = [], []
    for kind in (Together, Beam):
        steps = Steps(Pairs(4, 5, seed, sharpness))
        strategy = kind(END, 4, length_penalty=alpha, num_return_sequences=n_best, max_length=cap)
        found.append(said(generate(steps, [[n] for n in range(4)], strategy, max_new_tokens=cap)))
        rows.append(sum(steps.rows))
    assert found[0] == found[1]
    assert rows[1] <= rows[0]


@pytest.mark.parametrize("prune", [prune_by_token, prune_by_hypothesis])
@pytest.mark.parametrize("seed", range(8))
def test_limit_zero_is_greedy_and_limit_one_is_plain_beam(seed, prune):  # R102
    model, prompts = Pairs(3, 4, seed), [[0], [1], [2]]

    def tokens(strategy):
        return [
            [one.tokens for one in found] for found in generate(model, prompts, strategy, max_new_tokens=7)
        ]

    assert tokens(Beam(END, 4, prune=prune(0.0))) == tokens(Greedy(END))
    assert tokens(Beam(END, 4, num_return_sequences=4, prune=prune(1.0))) == tokens(
        Beam(END, 4, num_return_sequences=4)
    )


def test_limit_zero_keeps_ties_and_does_not_fade_with_length():  # R102
    # A and B are equally likely: both go on at every step.
    tied = [0.5, 0.5, 0.0, 0.0]
    results = generate(
        Repeating(tied),
        [[0]],
        Beam(END, 4, num_return_sequences=4, prune=prune_by_hypothesis(0.0)),
        max_new_tokens=2,
    )
    assert {one.tokens for one in results[0]} == {(A, A), (A, B), (B, A), (B, B)}
    skewed = Repeating([0.6, 0.4, 0.0, 0.0])
    [found] = generate(
        skewed,
        [[0]],
        Beam(END, 4, num_return_sequences=4, prune=prune_by_hypothesis(0.0)),
        max_new_tokens=1_500,
    )
    assert [set(one.tokens) for one in found] == [{A}]  # .6^1500 is no number any more


class Repeating(Contexts):
    """One distribution for ever."""

    def __init__(self, row):
        super().__init__(len(row), {})
        self.log_p = torch.tensor(row, dtype=torch.float64).log()

    def step(self, last, state, memory):
        return Step(self.log_p.expand(len(last), -1), state)


def test_a_limit_for_the_newest_token_ignores_what_came_before():  # R102
    newest = torch.tensor([[0.5, 0.45, 0.1]]).log()
    whole = torch.tensor([[0.02, 0.3, 0.29]]).log()
    assert prune_by_token(0.1)(newest, whole).tolist() == [[True, True, False]]
    assert prune_by_hypothesis(0.1)(newest, whole).tolist() == [[False, True, True]]


def test_limits_measure_what_they_say():  # R102
    first = generate(
        Contexts(4, TABLE),
        [[0]],
        Beam(END, 4, num_return_sequences=4, prune=prune_by_token(0.3)),
        max_new_tokens=1,
    )
    assert sorted(one.tokens for one in first[0]) == [(A,), (B,), (C,)]  # .5 - .2 is within, .5 - .1 is not
    # After two steps: A B .2, A C .15, A end .1, and B or C with anything .05, whose token has .25.
    whole = generate(
        Contexts(4, TABLE),
        [[0]],
        Beam(END, 16, num_return_sequences=16, prune=prune_by_hypothesis(0.12)),
        max_new_tokens=2,
    )
    assert sorted(one.tokens for one in whole[0]) == [(A,), (A, B), (A, C)]
    token = generate(
        Contexts(4, TABLE),
        [[0]],
        Beam(END, 16, num_return_sequences=16, prune=prune_by_token(0.12)),
        max_new_tokens=1,
    )
    assert [one.tokens for one in token[0]] == [(A,)]


@pytest.mark.parametrize("vocabulary", [3, 511, 512, 513, 1_000, 1_024])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_highest_are_the_highest(vocabulary, count):
    values = torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    values[0] = 0.25  # all equal: any will do, each once
    values[1, 2:] = -math.inf
    count = min(count, vocabulary)
    places = highest(values, count)
    assert all(len(set(row)) == count for row in places.tolist())
    found = values.gather(1, places).sort(dim=1, descending=True).values
    assert torch.equal(found, values.topk(count, dim=1).values)


def test_a_row_that_does_not_go_on_sets_no_limit():  # R102
    newest = torch.tensor([[0.9, 0.5, 0.3]], dtype=torch.float64).log()
    whole = newest.masked_fill(torch.tensor([[True, False, False]]), -math.inf)
    assert prune_by_token(0.1)(newest, whole)[0, 1:].tolist() == [True, False]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"num_beams": 0}, ("num_beams", "0")),
        ({"length_penalty": -1.0}, ("length_penalty", "-1.0")),
        ({"length_penalty": math.nan}, ("length_penalty", "0", "10")),
        ({"length_penalty": math.inf}, ("length_penalty", "10")),
        ({"length_penalty": 300.0}, ("length_penalty", "300.0", "10")),
        ({"num_beams": 2, "num_return_sequences": 3}, ("num_return_sequences", "3", "1", "2")),
        ({"max_length": 0}, ("max_length", "0")),
    ],
)
def test_bad_options_are_named(options, facts):
    with refuses(*facts):
        Beam(END, **options)
