"""Masks: one at least in every sentence, drawn anew each epoch, the same wherever they are drawn."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import MaskedBatches, hash_to_unit, split_rows

sentences = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12), min_size=1, max_size=20)


def numbered(rows):
    """Rows whose every id is its place in the data, to tell tokens apart."""
    lengths = [len(row) for row in rows]
    return RaggedIds(np.arange(sum(lengths), dtype=np.int32), np.append(0, np.cumsum(lengths)))


def masked(batches):
    """The places in the data that the rest of an epoch masks."""
    return [one for batch in batches for one in batch.labels.tolist()]


@settings(max_examples=50, deadline=None)
@given(sentences, st.floats(0.01, 1), st.integers(1, 7))
def test_every_sentence_once_with_a_mask_at_least(rows, share, batch_size):
    data = numbered(rows)
    seen = []
    for batch in MaskedBatches(data, share=share, batch_size=batch_size, seed=3):
        assert batch.count == len(batch.places)
        steps, columns = np.divmod(batch.places.numpy(), batch.rows)
        assert (steps < batch.lengths.numpy()[columns]).all()
        assert set(columns) == set(range(batch.rows))
        seen += batch.ids[0].tolist()
    assert sorted(seen) == data.offsets[:-1].tolist()


@settings(max_examples=50, deadline=None)
@given(sentences, st.floats(0.01, 1), st.integers(1, 7))
def test_all_tokens_may_be_asked_whether_hidden_or_not(rows, share, batch_size):
    data = numbered(rows)
    options = {"share": share, "batch_size": batch_size, "seed": 3}
    for batch, masked_only in zip(
        MaskedBatches(data, ask_all=True, **options), MaskedBatches(data, **options), strict=True
    ):
        assert batch.count == len(batch.asked) == len(batch.labels) == int(batch.lengths.sum())
        assert torch.equal(batch.labels, batch.ids.flatten()[batch.asked])
        assert {*batch.places.tolist()} <= {*masked_only.places.tolist()} <= {*batch.asked.tolist()}
        assert len(batch.places)


def test_masks_are_drawn_anew_each_epoch_and_from_the_seed():
    data = numbered([[0] * 9] * 40)
    batches = MaskedBatches(data, batch_size=8)
    first, second = sorted(masked(batches)), sorted(masked(batches))
    assert first != second
    assert sorted(masked(MaskedBatches(data, batch_size=8))) == first
    assert sorted(masked(MaskedBatches(data, batch_size=8, seed=1))) != first


def test_masks_depend_on_no_batch_and_no_process():
    data = numbered([[0] * (1 + number % 11) for number in range(50)])
    alone, by_fives = MaskedBatches(data, batch_size=8), MaskedBatches(data, batch_size=5)
    ranks = [MaskedBatches(data, batch_size=5, rank=rank, world_size=3) for rank in range(3)]
    for _ in range(2):
        counts = [batch.count for batch in by_fives]
        shares = [list(own) for own in ranks]
        assert all([batch.count for batch in own] == counts for own in shares)
        assert sorted(masked(alone)) == sorted(one for own in shares for one in masked(own))


def test_fixed_masks_are_always_the_same():
    data = numbered([[0] * 9] * 20)
    one, two = (MaskedBatches(data, shuffle=False, batch_size=size) for size in (4, 7))
    assert sorted(masked(one)) == sorted(masked(two))


def test_lots_are_even_and_apart():
    drawn = hash_to_unit(0, 0, np.arange(100_000))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(np.histogram(drawn, 10, (0, 1))[0] - 10_000).max() < 5 * 100
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.02
    assert not np.intersect1d(drawn, hash_to_unit(0, 1, np.arange(100_000))).size


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8), st.integers(1, 5))
def test_pieces_lose_nothing(rows, longest):
    cut = split_rows(RaggedIds.of(rows), longest)
    expected = [row[first : first + longest] for row in rows for first in range(0, len(row), longest)]
    assert [cut[number].tolist() for number in range(len(cut))] == expected


def test_what_cannot_be_masked_is_refused():
    with refuses("mask_share", "0", "1"):
        MaskedBatches(numbered([[1]]), share=0)
    with refuses("sentences"):
        MaskedBatches(RaggedIds.of([[1], []]))
