"""Blanks filled together, on a made-up language whose probabilities are known exactly."""

from __future__ import annotations

import math

import pytest
import torch

from throughtime.tasks.fill.runner import Partial, best_first

BLANK = 99
# Three words in a row. The first alone is likeliest 0, the last alone likeliest 3, but never both together.
JOINT = {
    (0, 2, 1): 0.20,
    (0, 2, 2): 0.20,
    (1, 2, 3): 0.32,
    (2, 2, 3): 0.18,
    (2, 0, 3): 0.10,
}
WORDS = 4


def guess(partials, width):
    """The likeliest words at each blank, and ln P of each."""
    best = log_probs(partials).topk(min(width, WORDS))
    return best.values.tolist(), best.indices.tolist()


def log_probs(partials):
    """ln P of each word at each blank, given what is filled: by counting up the table."""
    rows = []
    for partial in partials:
        fitting = {
            words: share
            for words, share in JOINT.items()
            if all(own in (BLANK, word) for own, word in zip(partial.ids, words, strict=True))
        }
        for blank in partial.blanks:
            mass = [sum(p for words, p in fitting.items() if words[blank] == word) for word in range(WORDS)]
            rows.append(torch.tensor(mass, dtype=torch.float64).log() - math.log(sum(fitting.values())))
    return torch.stack(rows)


def filled(ids, width):
    start = Partial(tuple(ids), tuple(place for place, one in enumerate(ids) if one == BLANK))
    return best_first([start], guess, width)[0]


def test_blanks_are_filled_together_not_each_alone():
    alone = log_probs([Partial((BLANK,) * 3, (0, 1, 2))]).argmax(1)
    assert tuple(alone.tolist()) == (0, 2, 3)  # what no one ever says
    assert tuple(alone.tolist()) not in JOINT
    best = filled([BLANK] * 3, width=3)[0]
    assert best.ids == (1, 2, 3)
    assert math.exp(best.log_prob) == pytest.approx(0.32)


def test_a_wide_beam_finds_all_fillings_with_their_probabilities():
    found = filled([BLANK] * 3, width=50)
    assert {one.ids: math.exp(one.log_prob) for one in found} == pytest.approx(JOINT)
    assert [one.log_prob for one in found] == sorted((one.log_prob for one in found), reverse=True)
    assert sum(math.exp(one.log_prob) for one in found) == pytest.approx(1)


def test_what_is_given_stays_and_counts():
    found = filled([2, BLANK, BLANK], width=5)
    assert [one.ids for one in found] == [(2, 2, 3), (2, 0, 3)]
    assert math.exp(found[0].log_prob) == pytest.approx(0.18 / 0.28)


def test_the_most_certain_blank_is_filled_first():
    asked = []

    def watched(partials, width):
        asked.append([partial.blanks for partial in partials])
        return guess(partials, width)

    best_first([Partial((BLANK,) * 3, (0, 1, 2))], watched, 1)
    assert asked[1] == [(0, 2)]  # the middle one is 2 at .9
    assert len(asked) == 3
