"""The chain over indicators: its loss is that of a linear chain, and it learns what words look like."""

from __future__ import annotations

import random

import numpy as np
import torch

from throughtime.layers.crf import Independent, LinearChain, mix_chains
from throughtime.models.indicators import IndicatorChain, _surprisal, fit_chain
from throughtime.text.indicators import INDICATORS, indicate
from throughtime.text.vocabulary import Vocabulary


def test_its_loss_is_that_of_a_linear_chain():
    torch.manual_seed(0)
    chain, lengths = LinearChain(4), torch.tensor([5, 1, 3])
    for weight in chain.parameters():
        torch.nn.init.normal_(weight, std=2.0)
    scores, tags = 3 * torch.randn(5, 3, 4), torch.randint(4, (5, 3))
    loss = _surprisal(scores, tags, lengths, chain.learned)
    torch.testing.assert_close(loss, chain.surprisals(scores, tags, lengths).sum())


def test_it_learns_names_by_their_shape_and_verbs_by_their_neighbours():
    dice, kinds = random.Random(1), ("NAME", "VERB", "NOUN")

    def draw(size, first):
        return first + "".join(dice.choices("abcdefgh", k=size))

    def draw_rows(count):
        return [[draw(5, "K"), draw(4, "x"), draw(3, "t") + "tion"] for _ in range(count)]

    rows, new = draw_rows(120), draw_rows(40)
    known = Vocabulary.build(one for row in rows for word in indicate(row) for one in word)
    ids = np.array([known[word] for row in rows for word in indicate(row)])
    for linked in (True, False):
        chain = IndicatorChain(len(known), len(kinds))
        fit_chain(chain, ids, np.tile(np.arange(3), 120), 3 * np.arange(121), linked=linked)
        assert bool(chain.transitions.any()) == linked
        asked = torch.tensor([[known[word] for word in indicate(row)] for row in new]).transpose(0, 1)
        assert asked.shape == (3, 40, INDICATORS)
        head = mix_chains(Independent(), chain.chain, 1.0)
        best = head.best(chain(asked), torch.full((40,), 3))
        assert (best == torch.arange(3)[:, None]).float().mean() > 0.95


def test_no_time_leaves_the_chain_as_it_was():
    chain = IndicatorChain(3, 2)
    fit_chain(chain, np.ones((4, 2), int), np.zeros(4, int), np.array([0, 4]), linked=True, seconds=-1.0)
    assert not chain.table.any()
