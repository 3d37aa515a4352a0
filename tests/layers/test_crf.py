"""The chain of tags against trying all sequences, in float64, with ragged rows."""

from __future__ import annotations

import itertools

import pytest
import torch

from throughtime.layers.crf import Independent, LinearChain

LENGTHS = torch.tensor([4, 1, 3])
TAGS = 3


@pytest.fixture(params=range(3))
def drawn(request):
    """A chain with weights and the scores of three sentences."""
    source = torch.Generator().manual_seed(request.param)
    chain = LinearChain(TAGS).double()
    with torch.no_grad():
        for weight in chain.parameters():
            weight.normal_(generator=source)
    return chain, torch.randn(4, 3, TAGS, generator=source, dtype=torch.float64)


def total(chain, scores, row, path):
    """The score of one sequence, by its definition."""
    found = chain.first[path[0]] + chain.last[path[-1]]
    found = found + sum(scores[t, row, tag] for t, tag in enumerate(path))
    return found + sum(chain.transitions[a, b] for a, b in itertools.pairwise(path))


@torch.no_grad()
def test_everything_equals_trying_all_sequences(drawn):
    chain, scores = drawn
    partition, marginals = chain.log_partition(scores, LENGTHS), chain.marginals(scores, LENGTHS)
    best = chain.best(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = list(itertools.product(range(TAGS), repeat=length))
        totals = torch.stack([total(chain, scores, row, path) for path in paths])
        torch.testing.assert_close(partition[row], totals.logsumexp(0), rtol=1e-12, atol=1e-12)
        assert tuple(best[:length, row].tolist()) == paths[int(totals.argmax())]
        assert best[length:, row].tolist() == [0] * (4 - length)
        expected = torch.zeros(4, TAGS, dtype=torch.float64)
        for path, p in zip(paths, totals.softmax(0), strict=True):
            for t, tag in enumerate(path):
                expected[t, tag] += p
        torch.testing.assert_close(marginals[:, row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("crf", [True, False])
@torch.no_grad()
def test_forbidden_pairs_are_left_out_of_all_sequences(drawn, crf):
    chain, scores = drawn
    head = chain if crf else Independent()
    before = head.surprisals(scores, torch.zeros(4, 3, dtype=torch.long), LENGTHS)
    forbidden = torch.zeros(TAGS + 1, TAGS + 1, dtype=torch.bool)
    forbidden[0, 2] = forbidden[3, 2] = forbidden[1, 3] = True  # 2 after 0, 2 first, 1 last
    head.forbid(forbidden)
    best, marginals = head.best(scores, LENGTHS), head.marginals(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        paths = [
            path
            for path in itertools.product(range(TAGS), repeat=length)
            if not any(forbidden[a, b] for a, b in itertools.pairwise((3, *path, 3)))
        ]
        totals = [
            total(chain, scores, row, path) if crf else sum(scores[t, row, tag] for t, tag in enumerate(path))
            for path in paths
        ]
        totals = torch.stack(totals)
        assert tuple(best[:length, row].tolist()) == paths[int(totals.argmax())]
        expected = torch.zeros(4, TAGS, dtype=torch.float64)
        for path, p in zip(paths, totals.softmax(0), strict=True):
            for t, tag in enumerate(path):
                expected[t, tag] += p
        torch.testing.assert_close(marginals[:, row], expected, rtol=1e-10, atol=1e-12)
    # The loss is that of all sequences.
    assert head.surprisals(scores, torch.zeros(4, 3, dtype=torch.long), LENGTHS).equal(before)


@torch.no_grad()
def test_surprisals_are_those_of_a_distribution(drawn):
    chain, scores = drawn
    paths = torch.tensor(list(itertools.product(range(TAGS), repeat=4))).T  # [T, all]
    alone = scores[:, :1].expand(-1, paths.shape[1], -1)
    nats = chain.surprisals(alone, paths, torch.full((paths.shape[1],), 4))
    assert nats.neg().exp().sum().item() == pytest.approx(1, abs=1e-12)


@torch.no_grad()
def test_a_chain_without_transitions_is_a_softmax_a_word(drawn):
    _, scores = drawn
    chain, alone = LinearChain(TAGS).double(), Independent()
    tags = torch.tensor([[0, 1, 2], [2, 0, 0], [1, 0, 1], [1, 0, 0]])
    for name, arguments in [
        ("surprisals", (scores, tags, LENGTHS)),
        ("marginals", (scores, LENGTHS)),
        ("best", (scores, LENGTHS)),
    ]:
        torch.testing.assert_close(
            getattr(chain, name)(*arguments), getattr(alone, name)(*arguments), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("head", ["chain", "alone"])
@torch.no_grad()
def test_a_padded_batch_is_each_row_alone(drawn, head):
    chain, scores = drawn
    head = chain if head == "chain" else Independent()
    tags = torch.zeros(4, 3, dtype=torch.long)
    together = head.marginals(scores, LENGTHS), head.surprisals(scores, tags, LENGTHS)
    torch.testing.assert_close(together[0].sum(-1), (torch.arange(4)[:, None] < LENGTHS).double())
    for row, length in enumerate(LENGTHS.tolist()):
        own = scores[:length, row : row + 1], LENGTHS[row : row + 1]
        torch.testing.assert_close(together[0][:length, row : row + 1], head.marginals(*own))
        torch.testing.assert_close(
            together[1][row : row + 1], head.surprisals(own[0], tags[:length, :1], own[1])
        )
        assert head.best(*own)[:, 0].tolist() == head.best(scores, LENGTHS)[:length, row].tolist()


def test_gradients_are_right(drawn):
    chain, scores = drawn
    tags = torch.tensor([[0, 1, 2], [2, 0, 0], [1, 0, 1], [1, 0, 0]])
    weights = [weight.detach().requires_grad_() for weight in chain.parameters()]

    def loss(scores, *given):
        named = dict(zip(("transitions", "first", "last"), given, strict=True))
        return torch.func.functional_call(chain, named, (scores,), {})

    chain.forward = lambda scores: chain.surprisals(scores, tags, LENGTHS)
    assert torch.autograd.gradcheck(loss, (scores.requires_grad_(), *weights))
