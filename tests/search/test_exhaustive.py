"""All sequences, against a loop over all strings; and what each search costs."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.search.tables import exhaustive

from throughtime.search.beam import Beam
from throughtime.search.exhaustive import Exhaustive, SearchCosts, count_candidates
from throughtime.search.generate import Memory, Step, generate
from throughtime.search.sampling import Greedy

A, B, C, END = range(4)
# R99's table; contexts that are not listed are uniform.
BOOK = {
    (): [0.5, 0.2, 0.2, 0.1],
    (A,): [0.1, 0.4, 0.3, 0.2],
    (A, B): [0.2, 0.2, 0.4, 0.2],
    (A, B, C): [0.0, 0.2, 0.2, 0.6],
    (A, C): [0.1, 0.6, 0.2, 0.1],
    (A, C, B): [0.1, 0.2, 0.1, 0.6],
}


class Told:
    """A step model from a function: P(next | all tokens so far). Its state is what was said."""

    def __init__(self, told, steps):
        self.told, self.steps = told, steps

    def start(self, prompts):
        said = torch.full((len(prompts), self.steps + 1), -1)
        return (
            torch.full((len(prompts),), -1),
            (said, torch.zeros(len(prompts), 1)),
            Memory.empty(len(prompts)),
        )

    def step(self, last, state, memory):
        said, length = state
        said = said.scatter(1, length.long(), last[:, None])
        rows = [self.told(tuple(x for x in row if x >= 0)) for row in said.tolist()]
        return Step(torch.tensor(rows, dtype=torch.float64).log(), (said, length + 1))


def book(steps=4):
    return Told(lambda said: BOOK.get(said, [0.25] * 4), steps)


def scored(told, vocabulary, end_id, steps, alpha):
    """(score, tokens) of every sequence, by a loop over all strings."""
    for length in range(1, steps + 1):
        for string in itertools.product(range(vocabulary), repeat=length):
            ended = string[-1] == end_id
            if end_id in string[:-1] or not (ended or length == steps):
                continue
            p = math.prod(told(string[:t])[token] for t, token in enumerate(string))
            if p > 0:
                yield math.log(p) / length**alpha, string[:-1] if ended else string


def test_the_book_s_example_has_its_numbers():  # R99
    [[best]] = exhaustive(book(), [[]], END, 4)
    assert (best.tokens, best.ended) == ((A, C, B), True)
    assert math.exp(best.log_prob) == pytest.approx(0.054)
    assert best.score == pytest.approx(math.log(0.054) / 4**0.75)
    [[greedy]] = generate(book(), [[]], Greedy(END), max_new_tokens=4)
    assert greedy.tokens == (A, B, C)
    assert math.exp(greedy.log_prob) == pytest.approx(0.048)


def test_without_length_normalisation_an_early_end_wins():  # R98, R99
    [[best]] = exhaustive(book(), [[]], END, 4, length_penalty=0.0)
    assert best.tokens == ()
    assert math.exp(best.log_prob) == pytest.approx(0.1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(2, 4),
    steps=st.integers(1, 4),
    ends=st.booleans(),
    alpha=st.sampled_from([0.0, 0.75, 1.3]),
    n_best=st.integers(1, 5),
)
def test_equals_brute_force(seed, vocabulary, steps, ends, alpha, n_best):  # R96
    source = torch.Generator().manual_seed(seed)
    table = {}

    def told(said):
        if said not in table:
            drawn = torch.rand(vocabulary, generator=source, dtype=torch.float64)
            drawn[torch.rand(vocabulary, generator=source) < 0.15] = 0.0  # some are impossible
            drawn[-1] += 0.1
            table[said] = (drawn / drawn.sum()).tolist()
        return table[said]

    end_id = 0 if ends else None
    expected = sorted(scored(told, vocabulary, end_id, steps, alpha), key=lambda one: -one[0])[:n_best]
    [found] = exhaustive(Told(told, steps), [[]], end_id, steps, alpha, n_best)
    assert [one.score for one in found] == pytest.approx([score for score, _ in expected], rel=1e-9)
    assert found[0].tokens == expected[0][1]


def test_a_batch_is_each_sentence_alone():
    class Biased(Told):
        def start(self, prompts):
            last, state, _ = super().start(prompts)
            bias = torch.tensor([[0.0, 0.0, 0.0, 3.0 * prompt[0]] for prompt in prompts], dtype=torch.float64)
            return last, state, Memory((bias,), torch.arange(len(prompts)))

        def step(self, last, state, memory):
            log_probs, state, _ = super().step(last, state, memory)
            return Step((log_probs + memory.kept[0][memory.owner]).log_softmax(1), state)

    model = Biased(book().told, 4)
    together = exhaustive(model, [[0], [1], [-1]], END, 4, num_return_sequences=3)
    for prompt, many in zip([0, 1, -1], together, strict=True):
        [alone] = exhaustive(model, [[prompt]], END, 4, num_return_sequences=3)
        assert [one.tokens for one in many] == [one.tokens for one in alone]
        assert [one.score for one in many] == pytest.approx([one.score for one in alone], rel=1e-9)


def test_too_many_sequences_are_refused_in_a_sentence():
    with refuses("exhaustive search", "4^40", "2", "250,000"):
        exhaustive(book(40), [[], []], END, 40)
    exhaustive(book(5), [[]], None, 5)


def test_costs_are_counted_by_formula_and_shown():  # R96
    found = SearchCosts(vocabulary=10_000, steps=10, num_beams=5)
    assert (found.greedy, found.beam, found.exhaustive) == (10**5, 5 * 10**5, 10**40)
    assert "1.0e+40" in str(found)
    assert "e+8000" in str(SearchCosts(10_000, 2_000, 5))
    with refuses("num_beams", "0"):
        SearchCosts(10, 10, 0)


def test_costs_are_what_the_searches_really_take():  # R96
    def uniform(said):
        return [0.25] * 4

    model = Told(uniform, 5)
    everything = count_candidates(model, [[]], Exhaustive(None, 5), max_new_tokens=5)
    assert everything == sum(4**t for t in range(1, 6))  # the last step alone: |Y|^T
    assert count_candidates(model, [[]], Greedy(None), max_new_tokens=5) == SearchCosts(4, 5, 1).greedy
    beam = count_candidates(model, [[]], Beam(None, 3), max_new_tokens=5)
    assert SearchCosts(4, 5, 3).greedy < beam <= SearchCosts(4, 5, 3).beam
