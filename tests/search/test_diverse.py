"""Groups of beams that avoid each other."""

from __future__ import annotations

import random

import pytest
from tests.refusals import refuses
from tests.search.tables import Contexts, Pairs

from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam
from throughtime.search.generate import generate

END = 3
PROMPTS = [[0], [1], [2]]


@pytest.mark.parametrize("seed", range(6))
def test_one_group_is_beam_search(seed):
    model = Pairs(3, 5, seed)
    one = DiverseBeam(END, 4, groups=1, diversity_penalty=2.0, per_group=3)
    assert generate(model, PROMPTS, one, max_new_tokens=7) == generate(
        model, PROMPTS, Beam(END, 4, num_return_sequences=3), max_new_tokens=7
    )


@pytest.mark.parametrize("seed", range(60))
def test_there_are_as_many_different_answers_as_asked(seed):  # groups find none twice
    draws = random.Random(seed)
    vocabulary, length = draws.choice([2, 3, 4, 6]), draws.randint(1, 6)
    count, width = draws.randint(1, 10), draws.randint(1, 3)
    groups = draws.choice([None, 1, 2, 3, count])
    if groups is not None:
        width = max(width, -(-count // groups))
    diverse = DiverseBeam(
        vocabulary - 1,
        None if groups is None else groups * width,
        groups=groups,
        diversity_penalty=draws.choice([0.0, 0.5, 1.0, 3.0]),
        num_return_sequences=count,
        max_length=length,
    )
    existing = sum((vocabulary - 1) ** size for size in range(length)) + (vocabulary - 1) ** length
    for found in generate(Pairs(3, vocabulary, seed), PROMPTS, diverse, max_new_tokens=length):
        assert len(found) == len({(one.tokens, one.ended) for one in found}) == min(count, existing)


@pytest.mark.parametrize(
    ("vocabulary", "length", "groups"), [(2, 4, 5), (2, 7, 8), (3, 3, 6), (3, 4, 9), (4, 3, 9)]
)
def test_groups_share_the_few_results_of_two_or_three_tokens(vocabulary, length, groups):
    for seed in range(6):
        model, end = Pairs(3, vocabulary, seed), vocabulary - 1
        search = DiverseBeam(end, groups, groups=groups, num_return_sequences=groups, max_length=length)
        for found in generate(model, PROMPTS, search, max_new_tokens=length):
            assert len({(one.tokens, one.ended) for one in found}) == len(found) == groups


def test_groups_go_the_same_way_as_long_as_enough_results_are_left():
    # Of two tokens, six results begin with token 0, which is by far the likeliest: enough for five groups.
    model = Contexts(6, {(): [0.95, 0.01, 0.01, 0.01, 0.01, 0.01]})
    search = DiverseBeam(5, 5, groups=5, diversity_penalty=0.0, num_return_sequences=5, max_length=2)
    (found,) = generate(model, [[0]], search, max_new_tokens=2)
    assert [one.tokens[0] for one in found] == 5 * [0]


def test_a_group_takes_the_next_best_text_when_an_earlier_one_has_ended_it():
    # Both groups would end after token 0, which has .6 * .9; the second takes .6 * .1 * (its best end).
    model = Contexts(3, {(): [0.6, 0.3, 0.1], (0,): [0.05, 0.05, 0.9], (1,): [0.2, 0.2, 0.6]})
    pair = DiverseBeam(2, 2, groups=2, diversity_penalty=0.0, num_return_sequences=2, max_length=5)
    (found,) = generate(model, [[0]], pair, max_new_tokens=5)
    assert found[0].tokens == (0,)
    assert found[1].tokens[:1] == (0,)
    assert len(found[1].tokens) > 1


def test_the_penalty_is_paid_for_every_earlier_group_that_took_the_token():
    # Group 1 takes token 0. Group 2 counts .5 as .5 / e^.6 = .27 and takes 1 at .3. Group 3 counts 0 as .27,
    # and 1 as .3 / e^.6 = .16, so it takes 0 again.
    model = Contexts(4, {(): [0.5, 0.3, 0.15, 0.05]})
    groups = DiverseBeam(END, 3, groups=3, diversity_penalty=0.6, per_group=1)
    chosen = first_step(model, groups)
    assert chosen.last.tolist() == [0, 1, 0]
    stronger = DiverseBeam(END, 3, groups=3, diversity_penalty=2.0)
    assert first_step(model, stronger).last.tolist() == [0, 1, 2]
    # What was chosen has the model's own log-probability.
    assert chosen.log_prob.exp().tolist() == pytest.approx([0.5, 0.3, 0.5])


def test_a_token_that_two_groups_took_costs_twice():  # R101
    # Group 2 counts token 0 as .6 / e^.6 = .33 and takes it again. To group 3 it counts .6 / e^1.2 = .18,
    # less than the .25 of token 1; to group 4 token 1 counts .25 / e^.6 = .14, and 0 still .18.
    model = Contexts(4, {(): [0.6, 0.25, 0.1, 0.05]})
    groups = DiverseBeam(END, 4, groups=4, diversity_penalty=0.6)
    assert first_step(model, groups).last.tolist() == [0, 0, 1, 0]


def test_a_token_that_one_group_took_twice_costs_twice():  # R101
    # Both hypotheses of group 1 go on with token 2. To group 2 the first of them counts .275 / e^.8 = .12,
    # less than .15 for token 1; paid for once it would be .275 / e^.4 = .18.
    after = [0.1, 0.3, 0.55, 0.05]
    model = Contexts(4, {(): [0.5, 0.45, 0.04, 0.01], (0,): after, (1,): after})
    groups = DiverseBeam(END, 4, groups=2, diversity_penalty=0.4)
    assert step_number(1, model, groups).last.tolist() == [0, 1, 0, 1]
    assert step_number(2, model, groups).last.tolist() == [2, 2, 1, 1]


def test_a_group_that_is_over_takes_nothing():  # R101
    model = Contexts(4, {(): [0.4, 0.0, 0.0, 0.6], (0,): [0.5, 0.4, 0.05, 0.05]})
    groups = DiverseBeam(END, 2, groups=2, diversity_penalty=1.0)
    assert step_number(1, model, groups).last.tolist() == [0]  # of group 2: group 1 took the end token
    assert step_number(2, model, groups).last.tolist() == [0]


def first_step(model, strategy):
    return step_number(1, model, strategy)


def step_number(number, model, strategy):
    seen = []
    generate(model, [[0]], strategy, max_new_tokens=number, watch=seen.append)
    return seen[number - 1].hypotheses


def distinct_bigrams(results):
    return sum(
        len({pair for one in found for pair in zip(one.tokens, one.tokens[1:], strict=False)})
        for found in results
    )


def test_groups_say_more_different_things_than_one_beam():  # R101
    wins = 0
    for seed in range(10):
        model, prompts = Pairs(8, 12, seed), [[n] for n in range(8)]
        plain = generate(model, prompts, Beam(END, 4, num_return_sequences=4), max_new_tokens=8)
        diverse = generate(
            model,
            prompts,
            DiverseBeam(END, 4, groups=4, diversity_penalty=1.5, per_group=1),
            max_new_tokens=8,
        )
        assert all(len(found) <= 4 for found in diverse)
        wins += distinct_bigrams(diverse) > distinct_bigrams(plain)
    assert wins == 10


def test_bad_options_are_named():
    with refuses("num_return_sequences", "7", "6"):
        DiverseBeam(END, 6, groups=3, num_return_sequences=7)
    with refuses("diversity_penalty", "nan"):
        DiverseBeam(END, diversity_penalty=float("nan"))
    with refuses("groups", "4", "6"):
        DiverseBeam(END, 6, groups=4)
    with refuses("diversity_penalty", "-1.0", "0"):
        DiverseBeam(END, diversity_penalty=-1.0)
