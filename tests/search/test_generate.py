"""The loop and its two first strategies, on models small enough to know everything about."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from tests.refusals import refuses

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Laplace
from throughtime.search.generate import Memory, Step, generate, moments
from throughtime.search.sampling import Greedy, Sampling

END = 3


class Table:
    """A step model from a table: P(next | last). Its memory is a bias per sentence, to see it follow."""

    def __init__(self, rows, bias=None):
        self.log_p = torch.tensor(rows, dtype=torch.float64).log()
        self.bias = bias
        self.calls = []

    def start(self, prompts):
        last = torch.tensor([prompt[-1] for prompt in prompts])
        kept = () if self.bias is None else (torch.tensor(self.bias, dtype=torch.float64),)
        return last, (torch.zeros(len(prompts), 1),), Memory(kept, torch.arange(len(prompts)))

    def step(self, last, state, memory):
        self.calls.append((last.tolist(), state[0].flatten().tolist(), memory))
        log_p = self.log_p[last]
        if memory.kept:
            log_p = (log_p + memory.kept[0][memory.owner]).log_softmax(dim=1)
        return Step(log_p, (state[0] + 1,), {"last": last})


CHAIN = [[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0.2, 0.1, 0.1, 0.6], [0.25] * 4]


def test_greedy_takes_the_argmax_and_stops_at_the_end():  # R95, R89
    [[found]] = generate(Table(CHAIN), [[0]], Greedy(END), max_new_tokens=9)
    assert found.tokens == (1, 2)
    assert found.ended
    assert found.log_prob == pytest.approx(math.log(0.6 * 0.7 * 0.6))


def test_greedy_equals_argmax_of_the_ngram_model_step_by_step():  # R95
    model = NgramModel(NgramCounts.of([[0, 1, 2, 1, 1, 2, 0, 2, 1]], 3, 3), Laplace())
    [[found]] = generate(model, [[0]], Greedy(None), max_new_tokens=12)
    text = [0]
    for _ in range(12):
        text.append(int(model.step(*model.start([text])).log_probs.argmax()))
    assert list(found.tokens) == text[1:]
    assert not found.ended


def test_nothing_is_emitted_while_the_prompt_is_read():  # R41
    model = NgramModel(NgramCounts.of([[0, 1, 2] * 4], 3, 3), Laplace((0.01,)))
    [[found]] = generate(model, [[0, 1, 2, 0]], Greedy(None), max_new_tokens=3)
    assert found.tokens == (1, 2, 0)


def test_finished_sentences_leave_the_batch_and_memory_follows_its_sentence():
    rows = [[0.7, 0.1, 0.1, 0.1]] * 4
    # Sentence 0 is pushed to end at once, sentence 1 to say 1 for ever, sentence 2 to say 2.
    bias = [[0, 0, 0, 9], [0, 9, 0, 0], [0, 0, 9, 0]]
    model = Table(rows, bias)
    results = generate(model, [[0], [0], [0]], Greedy(END), max_new_tokens=4)
    assert [one[0].tokens for one in results] == [(), (1, 1, 1, 1), (2, 2, 2, 2)]
    last, state, memory = model.calls[-1]
    assert last == [1, 2]
    assert state == [3.0, 3.0]
    assert memory.kept[0].tolist() == bias[1:]


def test_no_token_follows_the_end_token():  # R89
    draws = generate(Table(CHAIN), [[0]], Sampling(END, num_return_sequences=200, seed=3), max_new_tokens=30)[
        0
    ]
    assert all(END not in one.tokens for one in draws)
    assert any(one.ended for one in draws)


def test_drawn_tokens_follow_the_distribution():  # R16
    draws = generate(
        Table(CHAIN), [[0]], Sampling(None, num_return_sequences=4_000, seed=1), max_new_tokens=1
    )[0]
    observed = [sum(one.tokens[0] == token for one in draws) for token in range(4)]
    expected = [4_000 * p for p in CHAIN[0]]
    assert stats.chisquare(observed, expected).pvalue > 0.001
    # The test can fail: the draws do not fit a neighbouring distribution.
    assert stats.chisquare(observed, [4_000 * p for p in (0.15, 0.55, 0.2, 0.1)]).pvalue < 0.001


def test_ngram_samples_follow_the_model_over_whole_strings():  # R16
    model = NgramModel(NgramCounts.of([[0, 1, 1, 0, 1, 2, 0, 0, 1]], 2, 3), Laplace())
    draws = generate(model, [[]], Sampling(None, num_return_sequences=6_000, seed=2), max_new_tokens=2)[0]
    strings = [(a, b) for a in range(3) for b in range(3)]
    observed = [sum(one.tokens == string for one in draws) for string in strings]
    expected = [6_000 * math.exp(p.sum()) for p in model.log_probs(strings)]
    assert stats.chisquare(observed, expected).pvalue > 0.001


def test_temperature_top_k_and_top_p_reshape_what_is_drawn_from():
    log_p = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log()
    cold = Sampling(None, temperature=0.5).probabilities(log_p)[0]
    squares = torch.tensor([0.25, 0.09, 0.0225, 0.0025], dtype=torch.float64)
    torch.testing.assert_close(cold, squares / squares.sum())
    assert Sampling(None, top_k=2).probabilities(log_p)[0].tolist() == pytest.approx([0.625, 0.375, 0, 0])
    nucleus = Sampling(None, top_p=0.7).probabilities(log_p)[0]
    assert (nucleus > 0).tolist() == [True, True, False, False]  # .5 is not enough, .8 is
    assert (Sampling(None, top_p=0.5).probabilities(log_p)[0] > 0).sum() == 1
    assert (Sampling(None, top_p=1e-46).probabilities(log_p)[0] > 0).sum() == 1
    assert torch.equal(Sampling(None, top_k=9, top_p=1.0).probabilities(log_p), log_p.softmax(1))


def test_moments_show_every_step_and_where_each_row_came_from():
    seen = list(moments(Table(CHAIN), [[0], [2]], Greedy(END), max_new_tokens=5))
    assert seen[0].rows.tolist() == [0]  # sentence 1 ended at its first token
    assert seen[0].extras["last"].tolist() == [0, 2]
    assert seen[0].hypotheses.tokens.tolist() == [[1]]
    found = generate(Table(CHAIN), [[0], [2]], Greedy(END), max_new_tokens=5)[0][0]
    assert found.path == (0, 0, 0)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"temperature": 0.0}, ("temperature", "0.0")),
        ({"top_k": 0}, ("top_k", "0")),
        ({"top_p": 1.5}, ("top_p", "1.5")),
        ({"num_return_sequences": 0}, ("num_return_sequences", "0")),
    ],
)
def test_bad_options_are_named(options, facts):
    with refuses(*facts):
        Sampling(None, **options)


def test_no_prompt_no_result_and_a_cap_of_zero_is_refused():
    assert generate(Table(CHAIN), [], Greedy(END), max_new_tokens=3) == []
    with refuses("max_new_tokens", "1"):
        generate(Table(CHAIN), [[0]], Greedy(END), max_new_tokens=0)
