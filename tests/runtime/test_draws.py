"""Random numbers that follow from the seed, the sentence, the choice and the step."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from throughtime.runtime.draws import Draws, philox, uniform, uniform_table
from throughtime.runtime.search import ArraySampling
from throughtime.search.sampling import Sampling


def test_the_generator_is_philox():
    """The known answers of Random123, the paper's own library."""
    assert [f"{word:08x}" for word in philox((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2)] == [
        "408f276d",
        "41c83b0e",
        "a20bc7c6",
        "6d5451fd",
    ]
    counter, key = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert [f"{word:08x}" for word in philox(counter, key)] == [
        "d16cfe09",
        "94fdcceb",
        "5001e420",
        "24126ea1",
    ]


def test_tables_are_uniform_and_a_row_does_not_depend_on_the_others():
    sentences, places = np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)
    table = uniform_table(3, 2, sentences, places, 101)
    assert stats.kstest(table.ravel(), "uniform").pvalue > 0.001
    assert len(np.unique(table)) == table.size
    assert np.array_equal(table[77:78], uniform_table(3, 2, sentences[77:78], places[77:78], 101))
    for other in (uniform_table(4, 2, sentences, places, 101), uniform_table(3, 3, sentences, places, 101)):
        assert not (table == other).any()


def test_steps_at_once_are_those_one_by_one():
    sentences, choices = np.array([4, 4, 9]), np.array([0, 1, 0])
    for row, numbers in zip(range(150), Draws(-1, sentences, choices), strict=False):
        assert np.array_equal(numbers, uniform(2**64 - 1, row, sentences, choices))
    assert not np.array_equal(
        Draws(None, sentences, choices).block(0), Draws(None, sentences, choices).block(0)
    )


def test_torch_and_numpy_choose_the_same_tokens():
    log_probs = torch.randn(500, 40, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    points = uniform(3, np.arange(500))
    for how in ({}, {"temperature": 0.6}, {"top_k": 7}, {"top_p": 0.8}, {"top_k": 1}, {"temperature": 1e-40}):
        ours = Sampling(None, **how).choose(log_probs, torch.from_numpy(points))
        assert ours.tolist() == ArraySampling(**how).choose(log_probs.numpy(), points).tolist()
