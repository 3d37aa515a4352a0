"""Branch and bound against trying everything, and what it says of other searches."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.search.tables import exhaustive

from throughtime.errors import ThroughtimeWarning
from throughtime.search.beam import Beam
from throughtime.search.constraints import forbidden_words, minimum_length, no_repeated_ngram, no_token
from throughtime.search.exact import ExactResult, Frontier, ReadPrefix, exact
from throughtime.search.exhaustive import search_errors
from throughtime.search.generate import Finished, Memory, Step, generate
from throughtime.search.sampling import Greedy
from throughtime.search.strategies import build_strategy

END = 0


class Recurrent:
    """h = tanh(W h + E[last] + m), P = softmax(O h + b): random; m is kept per sentence."""

    def __init__(self, seed, vocabulary=4, size=5, dtype=torch.float64, ending=0.0):
        source = torch.Generator().manual_seed(seed)

        def draw(*shape):
            return torch.randn(*shape, generator=source, dtype=torch.float64).to(dtype)

        self.embedding, self.inner = draw(vocabulary + 1, size), draw(size, size) / size**0.5
        self.outer, self.sources = 2 * draw(vocabulary, size), draw(50, size)
        self.bias = torch.zeros(vocabulary, dtype=dtype)
        self.bias[END] = ending
        self.rows = []

    def start(self, prompts):
        count = len(prompts)
        memory = Memory((self.sources[torch.tensor([p[0] for p in prompts])],), torch.arange(count))
        first = torch.full((count,), len(self.embedding) - 1)
        return first, (self.embedding.new_zeros(count, self.inner.shape[0]), torch.zeros(count)), memory

    def step(self, last, state, memory):
        self.rows.append(len(last))
        h = torch.tanh(state[0] @ self.inner + self.embedding[last] + memory.kept[0][memory.owner])
        return Step((h @ self.outer.T + self.bias).log_softmax(dim=1), (h, state[1] + 1))


def brute_force(model, prompt, end_id, steps):
    """The best by a loop over all strings, each scored on its own."""
    vocabulary = len(model.outer)
    best = (-math.inf, ())
    for length in range(1, steps + 1) if end_id is not None else [steps]:
        for string in itertools.product(range(vocabulary), repeat=length):
            if end_id is not None and (string[-1] != end_id or end_id in string[:-1]):
                continue
            last, state, memory = model.start([prompt])
            total = 0.0
            for token in string:
                log_probs, state, _ = model.step(last, state, memory)
                total, last = total + float(log_probs[0, token]), torch.tensor([token])
            best = max(best, (total, string if end_id is None else string[:-1]))
    return best


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(2, 4),
    steps=st.integers(1, 4),
    end_id=st.sampled_from([END, None]),
    at_once=st.integers(1, 9),
    bounded=st.booleans(),
)
def test_equals_brute_force(seed, vocabulary, steps, end_id, at_once, bounded):
    model = Recurrent(seed, vocabulary)
    prompts = [[0], [1], [2]]
    first = None
    if bounded:
        first = [one[0] for one in generate(model, prompts, Greedy(end_id), max_new_tokens=steps)]
    found = exact(model, prompts, end_id, max_new_tokens=steps, first=first, at_once=at_once)
    for prompt, one in zip(prompts, found, strict=True):
        log_prob, tokens = brute_force(model, prompt, end_id, steps)
        assert one.resolved
        assert one.best.tokens == tokens
        assert one.best.log_prob == one.best.score == pytest.approx(log_prob, rel=1e-9)
        assert one.best.ended == (end_id is not None)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), budget=st.integers(1, 12), at_once=st.sampled_from([1, 4]))
def test_no_budget_lets_a_sentence_pass_for_resolved_that_is_not(seed, budget, at_once):
    model, prompts = Recurrent(seed, vocabulary=4, ending=-1.0), [[0], [1], [2]]
    found = exact(model, prompts, END, max_new_tokens=4, budget=budget, at_once=at_once)
    for prompt, one in zip(prompts, found, strict=True):
        log_prob, tokens = brute_force(model, prompt, END, 4)
        assert one.expansions <= budget
        assert one.best.log_prob <= log_prob + 1e-9
        assert not one.resolved or one.best.tokens == tokens


def test_a_wide_vocabulary_does_not_fill_the_memory():
    model = Recurrent(9, vocabulary=3_000, ending=-12.0)
    last, state, memory = model.start([[0]])
    frontier = Frontier(ReadPrefix((), (state[0][0], state[1][0])), int(last), budget=50)
    while len(taken := frontier.take(4)):
        parents = taken["parent"]
        entering = tuple(map(torch.stack, zip(*(one.state for one in parents), strict=True)))
        tokens, before = (torch.tensor(taken[name].copy()) for name in ("token", "log_prob"))
        log_probs, state, _ = model.step(tokens, entering, memory.follow(torch.zeros(len(taken)).long()))
        row, token = (log_probs > -30).nonzero().unbind(1)
        assert len(row) > 2_500
        total = before[row] + log_probs[row, token]
        read = np.empty(len(taken), dtype=object)
        read[:] = [ReadPrefix((*one.tokens, 0), rows) for one, *rows in zip(parents, *state, strict=True)]
        frontier.put(read[row.numpy()], token.numpy(), total.numpy())
        assert len(frontier.waiting) <= 100
    assert frontier.expansions == 50
    assert not frontier.is_decided(-1.0)
    assert not frontier.is_decided(0.0)


def test_with_the_optimum_as_bound_only_likelier_prefixes_are_continued():
    model = Recurrent(5, vocabulary=3)
    [best] = exact(model, [[4]], END, max_new_tokens=5)
    likelier = 1  # the empty prefix
    for length in range(1, 5):
        for string in itertools.product([1, 2], repeat=length):
            last, state, memory = model.start([[4]])
            total = 0.0
            for token in string:
                log_probs, state, _ = model.step(last, state, memory)
                total, last = total + float(log_probs[0, token]), torch.tensor([token])
            likelier += total > best.best.log_prob
    [again] = exact(model, [[4]], END, max_new_tokens=5, first=[best.best])
    assert again.expansions == likelier


def test_exact_is_exhaustive_and_shows_what_greedy_and_narrow_beams_miss():
    model, prompts = Recurrent(12, vocabulary=5, ending=-2.0), [[i] for i in range(30)]
    found = exact(model, prompts, END, max_new_tokens=5)
    for [best], one in zip(
        exhaustive(model, prompts, END, 5, length_penalty=0.0, num_return_sequences=1), found, strict=True
    ):
        # A cut sequence may be likelier than all that end; where none is, both are the same.
        assert best.log_prob >= one.best.log_prob - 1e-9
        assert not best.ended or best.tokens == one.best.tokens

    def share(strategy):
        results = generate(model, prompts, strategy, max_new_tokens=5)
        return search_errors([one[0] for one in results], found).share

    beam = Beam(END, 300, length_penalty=0.0, num_return_sequences=300, max_length=5)
    wide = [
        next(one for one in results if one.ended)
        for results in generate(model, prompts, beam, max_new_tokens=5)
    ]
    assert search_errors(wide, found).share == 0
    assert share(Greedy(END)) > 0


def test_a_spent_budget_is_told_and_the_best_so_far_kept():
    model = Recurrent(2, vocabulary=8, ending=-6.0)
    for one in exact(model, [[0], [1]], END, max_new_tokens=12, budget=20):
        assert not one.resolved
        assert one.expansions == 20
        assert one.best.ended
    kept = Finished((1, 2), -0.01, -0.02, True)  # nothing beats that
    [told] = exact(model, [[0]], END, max_new_tokens=12, budget=1, first=[kept])
    assert told.best == Finished((1, 2), -0.01, -0.01, True)
    assert told.resolved


def test_where_nothing_can_end_the_answer_is_impossible():
    class Endless(Recurrent):
        def step(self, last, state, memory):
            log_probs, state, _ = super().step(last, state, memory)
            log_probs[:, END] = -math.inf
            return Step(log_probs, state)

    [found] = exact(Endless(0), [[0]], END, max_new_tokens=3)
    assert found.best.log_prob == -math.inf
    assert not found.best.ended
    assert found.resolved


def test_search_errors_are_counted_apart_from_the_unresolved():
    def ended(log_prob):
        return Finished((1,), log_prob, log_prob, True)

    beam = [ended(-1.0), ended(-2.0), ended(-3.0), ended(-4.0), Finished((1, 1), -0.5, -0.5, False)]
    best = [
        ExactResult(ended(-1.00005), True, 1),
        ExactResult(ended(-1.9), True, 1),
        ExactResult(ended(-2.0), False, 1),
        ExactResult(ended(-4.0), False, 1),
        ExactResult(ended(-0.7), True, 1),
    ]
    assert search_errors(beam, best) == (2 / 3, 2, 3, 2, 1)
    assert search_errors(beam, best, tolerance=0.2).errors == 1
    assert search_errors([], []).share is None
    with refuses("search errors", "1", "0", "exact"):
        search_errors(beam[:1], [])


def test_bad_options_are_named():
    model = Recurrent(0)
    for option in (
        {"max_new_tokens": 0},
        {"max_new_tokens": 3, "budget": 0},
        {"max_new_tokens": 3, "at_once": 0},
    ):
        with refuses(list(option)[-1], "0", "1"):
            exact(model, [[0]], END, **option)
    with refuses("first", "0", "1"):
        exact(model, [[0]], END, max_new_tokens=3, first=[])
    assert exact(model, [], END, max_new_tokens=3) == []


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9))
def test_by_name_it_finds_the_most_likely_of_all_that_constraints_allow(seed):
    model, prompts = Recurrent(seed, vocabulary=5), [[1], [2]]
    rules = [no_token(4), no_repeated_ngram(1), forbidden_words([[1, 2]]), minimum_length(2, END)]
    steps = []
    found = generate(
        model,
        prompts,
        build_strategy("exact", END),
        max_new_tokens=5,
        constraints=rules,
        watch=steps.append,
    )
    everything = build_strategy("exhaustive", END, max_length=5, length_penalty=0, num_return_sequences=500)
    for sentence, [own] in enumerate(found):
        every = generate(model, [prompts[sentence]], everything, max_new_tokens=5, constraints=rules)[0]
        best = next(one for one in every if one.ended)
        assert (own.tokens, own.ended) == (best.tokens, True)
        assert own.log_prob == pytest.approx(best.log_prob, abs=1e-9)
        assert len(own.path) == len(own.tokens) + 1 <= len(steps)


def test_what_is_not_certain_comes_with_a_warning():
    strategy = build_strategy("exact", END, budget=1)
    with pytest.warns(ThroughtimeWarning, match=r"\b1 .* 1 "):
        [[found]] = generate(Recurrent(3, vocabulary=40), [[1]], strategy, max_new_tokens=12)
    assert found.ended
