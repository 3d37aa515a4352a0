"""A softmax over sampled words: the full one in the mean, and exactly where all words are drawn."""

from __future__ import annotations

import pytest
import torch

from throughtime.models.chunked_loss import draw_words, sampled_surprisal
from throughtime.models.heads import IGNORED, SoftmaxHead

FREQUENT = torch.arange(4)


def build(words=40, rows=6, bias=True):
    torch.manual_seed(0)
    head = SoftmaxHead(5, words, bias=bias)
    if bias:
        head.begin_with(torch.randint(1, 50, (words,)))
    hidden = torch.randn(rows, 5, requires_grad=True)
    return head, hidden, torch.randint(words, (rows,))


def gradients(head, hidden, loss):
    for one in (hidden, *head.parameters()):
        one.grad = None
    loss.backward()
    return [one.grad.clone() for one in (hidden, *head.parameters())]


@pytest.mark.parametrize("bias", [True, False])
def test_with_all_words_it_is_the_full_softmax(bias):
    head, hidden, labels = build(bias=bias)
    labels[2] = IGNORED
    full, sampled = head.loss(hidden, labels), sampled_surprisal(head, hidden, labels, FREQUENT, 40)
    torch.testing.assert_close(sampled, full)
    for one, other in zip(
        gradients(head, hidden, sampled), gradients(head, hidden, head.loss(hidden, labels)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_sum_over_all_words_is_right_in_the_mean():
    head, hidden, labels = build()
    scores = (hidden @ head.weight.t() + head.bias).detach()
    totals = scores.exp().sum(1)
    draws = [draw_words(labels, FREQUENT, 40, others=8) for _ in range(4000)]
    found = torch.stack([(scores[:, words] + weights).exp().sum(1) for words, weights in draws])
    error = found.std(0) / len(draws) ** 0.5
    assert ((found.mean(0) - totals).abs() < 4 * error).all()
    assert (error > 0).all()


def test_labels_and_frequent_words_stand_for_themselves_and_no_word_comes_twice():
    words, log_weights = draw_words(torch.tensor([9, 9, 2]), FREQUENT, 40, others=8)
    assert words[:5].tolist() == [0, 1, 2, 3, 9]
    assert len(set(words.tolist())) == len(words) == 13
    assert log_weights.exp().tolist() == pytest.approx([1] * 5 + [35 / 8] * 8)
    words, log_weights = draw_words(torch.tensor([9]), FREQUENT, 5 + 5, others=8)
    assert sorted(words.tolist()) == list(range(10))
    assert not log_weights.any()


def test_the_gradient_is_near_that_of_all_words():
    head, hidden, labels = build(words=400, rows=50)
    whole = torch.cat([one.flatten() for one in gradients(head, hidden, head.loss(hidden, labels))])
    torch.manual_seed(1)
    drawn = [
        torch.cat(
            [
                one.flatten()
                for one in gradients(head, hidden, sampled_surprisal(head, hidden, labels, FREQUENT, 100))
            ]
        )
        for _ in range(50)
    ]
    mean = torch.stack(drawn).mean(0)
    assert (mean - whole).norm() < 0.1 * whole.norm()
