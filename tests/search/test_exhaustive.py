"""All sequences, against a loop over all strings; and what each search costs."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.search.tables import Contexts, exhaustive

from throughtime.search.beam import Beam
from throughtime.search.exhaustive import Exhaustive, SearchCosts, count_candidates
from throughtime.search.sampling import Greedy

END = 3


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
    drawn = Contexts(vocabulary, SimpleNamespace(get=lambda said, uniform: told(said)))
    [found] = exhaustive(drawn, [[]], end_id, steps, alpha, n_best)
    assert [one.score for one in found] == pytest.approx([score for score, _ in expected], rel=1e-9)
    assert found[0].tokens == expected[0][1]


def test_too_many_sequences_are_refused_in_a_sentence():
    with refuses("exhaustive search", "4^40", "2", "250,000"):
        exhaustive(Contexts(4, {}), [[], []], END, 40)
    exhaustive(Contexts(4, {}), [[]], None, 5)


def test_costs_are_counted_by_formula_and_shown():  # R96
    found = SearchCosts(vocabulary=10_000, steps=10, num_beams=5)
    assert (found.greedy, found.beam, found.exhaustive) == (10**5, 5 * 10**5, 10**40)
    assert "1.0e+40" in str(found)
    assert "e+8000" in str(SearchCosts(10_000, 2_000, 5))
    with refuses("num_beams", "0"):
        SearchCosts(10, 10, 0)


def test_costs_are_what_the_searches_really_take():  # R96
    model = Contexts(4, {})
    everything = count_candidates(model, [[]], Exhaustive(None, 5), max_new_tokens=5)
    assert everything == sum(4**t for t in range(1, 6))  # the last step alone: |Y|^T
    assert count_candidates(model, [[]], Greedy(None), max_new_tokens=5) == SearchCosts(4, 5, 1).greedy
    beam = count_candidates(model, [[]], Beam(None, 3), max_new_tokens=5)
    assert SearchCosts(4, 5, 3).greedy < beam <= SearchCosts(4, 5, 3).beam
