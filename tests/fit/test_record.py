"""Which validation of a run is its best."""

from __future__ import annotations

import math

import pytest

from throughtime.fit.metrics import Record


def taken(record, *figures):
    return [
        record.add({"bleu": bleu, "loss": loss}, {}, step=1, epoch=2 * number)
        for number, (bleu, loss) in enumerate(figures, 1)
    ]


def test_where_scores_tie_the_smaller_loss_is_better():
    record = Record("bleu", "more")
    assert taken(record, (0.0, 5.0), (0.0, 4.0), (0.0, 4.5), (0.0, 4.0)) == [True, True, False, False]
    assert (record.best["loss"], record.best_epoch, record.validations_since_best) == (4.0, 4, 2)
    assert taken(record, (1.0, 9.0), (1.0, 9.0), (0.5, 1.0)) == [True, False, False]
    assert (record.best["loss"], record.validations_since_best) == (9.0, 2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_broken_model_is_no_record_however_small_its_loss(bad):
    record = Record("bleu", "more")
    assert taken(record, (bad, 1.0), (bad, 0.5)) == [False, False]
    assert record.broken
    assert taken(record, (3.0, 2.0)) == [True]
    assert not record.broken


def test_a_checkpoint_keeps_which_was_best():
    record = Record("bleu", "more")
    taken(record, (0.0, 5.0), (0.0, 4.0), (0.0, 6.0))
    again = Record("bleu", "more")
    again.restore(record.values(), step=9)
    assert (again.best_epoch, again.validations_since_best, again.best) == (4, 1, record.best)
    assert again.best_step == record.best_step > 0
    fresh = Record("bleu", "more")
    fresh.restore(
        {"scores": [], "best": {}, "best_at": 0, "best_epoch": 0, "best_step": 0, "best_inside": False},
        step=0,
    )
    assert taken(fresh, (0.0, 5.0)) == [True]
