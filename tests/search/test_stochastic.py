"""Drawing without replacement, against the probabilities that theory gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from scipy import stats
from tests.search.tables import Pairs, sequences

from throughtime.search.beam_variants import StochasticBeam
from throughtime.search.generate import generate

END, CAP, DRAWS = 2, 3, 6_000


def probabilities(model):
    return {tokens: math.exp(model.log_prob(0, tokens)) for tokens in sequences(3, END, CAP)}


def whole(one):
    return (*one.tokens, END) if one.ended else one.tokens


@pytest.fixture(scope="module")
def drawn():
    """Two sequences without replacement, many times over: each sentence of the batch has its own noise."""
    model = Pairs(1, 3, 5, sharpness=1.0)
    results = generate(model, [[0]] * DRAWS, StochasticBeam(END, 2, seed=11), max_new_tokens=CAP)
    return probabilities(model), [[whole(one) for one in found] for found in results], results


def test_inclusion_probabilities_match_theory(drawn):  # R100
    p, pairs, _ = drawn
    included = Counter(tokens for pair in pairs for tokens in pair)
    for tokens, own in p.items():
        # First, or second after any other first.
        expected = own + sum(other * own / (1 - other) for name, other in p.items() if name != tokens)
        error = math.sqrt(expected * (1 - expected) / DRAWS)
        assert abs(included[tokens] / DRAWS - expected) < 4 * error, tokens
    # The test can fail: drawing with replacement would include the likeliest less often than this.
    likeliest = max(p, key=p.get)
    with_replacement = 1 - (1 - p[likeliest]) ** 2
    error = math.sqrt(with_replacement * (1 - with_replacement) / DRAWS)
    assert abs(included[likeliest] / DRAWS - with_replacement) > 4 * error


def test_ordered_draws_follow_the_law_of_drawing_without_replacement(drawn):  # R100
    p, pairs, _ = drawn
    expected = {(a, b): p[a] * p[b] / (1 - p[a]) for a, b in itertools.permutations(p, 2)}
    assert sum(expected.values()) == pytest.approx(1)
    often = [pair for pair, share in expected.items() if share * DRAWS >= 5]
    seen = Counter((first, second) for first, second in pairs)
    observed = [seen[pair] for pair in often]
    theory = [expected[pair] * DRAWS for pair in often]
    assert stats.chisquare([*observed, DRAWS - sum(observed)], [*theory, DRAWS - sum(theory)]).pvalue > 0.001


def test_results_carry_their_log_prob_and_a_gumbel_score(drawn):  # R100
    p, _, results = drawn
    for found in results[:50]:
        assert found[0].score >= found[1].score
        for one in found:
            assert math.exp(one.log_prob) == pytest.approx(p[whole(one)], rel=1e-9)
    # The highest of all perturbed log-probabilities is a standard Gumbel variable.
    assert stats.kstest([found[0].score for found in results], stats.gumbel_r.cdf).pvalue > 0.001


def test_no_sequence_is_drawn_twice_and_a_wide_beam_draws_them_all():
    model = Pairs(1, 3, 5)
    everything = set(probabilities(model))
    [found] = generate(model, [[0]], StochasticBeam(END, 40, seed=0), max_new_tokens=CAP)
    assert {whole(one) for one in found} == everything
    assert len(found) == len(everything)


def test_draws_depend_on_the_number_of_a_sentence_but_not_on_the_others():
    model = Pairs(4, 6, 1)
    together = generate(model, [[0], [1], [2], [3]], StochasticBeam(END, 3, seed=1), max_new_tokens=6)
    for number, expected in enumerate(together):
        strategy = StochasticBeam(END, 3, seed=1)
        strategy.first_sentence = number
        [alone] = generate(model, [[number]], strategy, max_new_tokens=6)
        assert [one.tokens for one in alone] == [one.tokens for one in expected]
        assert [one.score for one in alone] == pytest.approx([one.score for one in expected])
