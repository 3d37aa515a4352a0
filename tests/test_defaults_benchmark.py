"""What the comparison of our defaults with simple methods counts, and the rows that both sides get."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import defaults, defaults_peers, defaults_texts

TRUTH = np.array([10.0, 12.0, 11.0, 13.0])


def answer(mean, width):
    return {"mean": list(mean), **{str(level): [mean - width, mean + width] for level in defaults.LEVELS}}


def test_errors_and_interval_scores_are_those_over_the_seasonal_naive():
    naive = answer(np.full(4, 13.0), 0.5)  # misses by 3, 1, 2 and 0
    row = defaults.measure_answer(answer(TRUTH + 0.5, 1.0), TRUTH, naive)
    assert row["score"] == pytest.approx(0.5 / 1.5, rel=1e-4)
    assert row["covered"] == [1.0, 1.0]
    outside = (2.5 + 0.5 + 1.5) / 4
    assert row["interval"] == pytest.approx((2 + 2) / (1 + 10 * outside + 1 + 40 * outside), rel=1e-4)
    assert defaults.measure_answer(naive, TRUTH, naive)["covered"] == [0.25, 0.25]


def test_tags_are_scored_by_chunks_where_they_mark_some():
    truth = [["B-city", "I-city", "O"], ["O", "B-time"]]
    assert defaults.score_tags(truth, [["B-city", "O", "O"], ["O", "B-time"]]) == 50.0
    assert defaults.score_tags([["NOUN", "VERB"]], [["NOUN", "NOUN"]]) == 50.0


@pytest.mark.parametrize("task", ["classify", "language"])
def test_each_row_is_in_one_split(task):
    train, test = list(range(95)), list(range(95, 100))
    splits = defaults_texts.separate_validation(task, train, test)
    assert sorted(row for rows in splits.values() for row in rows) == train + test
    assert splits["test"] == test
    assert 4 <= len(splits["valid"]) <= 10
    assert (splits["train"] == train[: len(splits["train"])]) == (task == "language")


def test_the_sets_of_a_task_are_at_least_four_besides_those_held_out():
    for task, sets in defaults_texts.SETS.items():
        assert defaults_texts.HELD_OUT[task] < sets.keys()
        assert len(sets.keys() - defaults_texts.HELD_OUT[task]) >= 4


def test_trigrams_are_distributions_that_know_their_contexts():
    counted = defaults_peers.Trigrams([["a", "b", "c"], ["a", "b", "d"], ["b", "c", "c"]])
    chances = np.exp(counted.log_probs(("a", "b")))
    assert chances.sum() == pytest.approx(1.0)
    assert counted.ids.keys() == {"a", "b", "c", "d"}
    assert chances[counted.ids["a"]] < chances[counted.ids["d"]]
