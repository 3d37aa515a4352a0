"""The learning-rate finder on a real task."""

from __future__ import annotations

import pytest

from throughtime.train.sweep import HIGHEST, SPAN, UPDATES, sweep


def test_rates_rise_until_the_loss_breaks_away(language_task):
    task = language_task(optimizer="sgd", clip=None)
    found = sweep(task, task.config)
    updates = UPDATES["sgd"]
    ratio = SPAN ** (1 / (updates - 1))
    assert found.rates[0] == pytest.approx(HIGHEST["sgd"] / SPAN)
    for low, high in zip(found.rates, found.rates[1:], strict=False):
        assert high == pytest.approx(ratio * low)
    assert len(found.rates) == len(found.losses) < updates  # a rate of 1000 is beyond hope, and not tried
    assert found.losses[-1] > 4 * found.losses[0]
    assert found.rates[0] < found.suggested < found.rates[-1]


def test_what_it_suggests_trains(language_task, trainer_of):
    found = sweep(language_task(), language_task().config, updates=50)
    assert len(found.rates) <= 50
    task = language_task(lr=found.suggested, epochs=2)
    trained = trainer_of(task).fit().best["perplexity"]
    slow = trainer_of(language_task(lr=found.rates[0], epochs=2)).fit().best["perplexity"]
    assert trained < slow
