"""Batches of labelled sequences and of texts with conditions: all once, dealt, taken up again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.pairs import ConditionedBatches
from throughtime.data.batching.sequences import LabelledBatches
from throughtime.data.records import Specials

ROWS = RaggedIds.of([[number + 3] * (number * 7 % 11) for number in range(50)])
NUMBERS = np.arange(50)
VECTORS = torch.arange(100.0).view(50, 2)


def labelled(**options):
    return LabelledBatches(ROWS, NUMBERS, batch_size=8, **options)


def conditioned(**options):
    return ConditionedBatches(ROWS, VECTORS, Specials(0, 1, 2), batch_size=8, **options)


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sequence_once_with_its_own_label(shuffle):
    seen = []
    for batch in labelled(shuffle=shuffle):
        assert torch.equal(batch.labels, batch.indices)
        assert batch.count == batch.rows == len(batch.labels)
        for column, number in enumerate(batch.indices.tolist()):
            assert batch.ids[: int(batch.lengths[column]), column].tolist() == ROWS[number].tolist()
        seen += batch.indices.tolist()
    assert sorted(seen) == NUMBERS.tolist()


def test_each_text_has_its_own_condition():
    for batch in conditioned():
        assert torch.equal(batch.source[0], VECTORS[batch.indices])
        assert batch.rows == len(batch.indices)


def test_what_does_not_belong_together_is_refused():
    with refuses("labels", "2", "50"):
        LabelledBatches(ROWS, [0, 1])
    with refuses("sequences"):
        LabelledBatches(RaggedIds.of([]), [])
    with refuses("conditions", "2", "50"):
        ConditionedBatches(ROWS, VECTORS[:2], Specials(0, 1, 2))
