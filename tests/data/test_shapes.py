"""A few shapes hold the batches of all epochs, with little padding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from throughtime.data.batching import packing
from throughtime.data.batching.batches import real_positions
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.packing import MERGED_AT_MOST, PaddedShapes, merge_shapes
from throughtime.data.batching.pairs import ConditionedBatches, PairBatches
from throughtime.data.batching.sequences import (
    IGNORED,
    LabelledBatches,
    MaskedBatches,
    TaggedBatches,
    TaggedRows,
)
from throughtime.data.batching.text import SequentialPartition
from throughtime.data.records import Specials
from throughtime.models import heads

MARKS = Specials(pad_id=0, bos_id=1, eos_id=2)


def ragged(seed, rows=300, longest=30):
    draws = np.random.default_rng(seed)
    lengths = draws.integers(1, longest, rows)
    return RaggedIds.of([draws.integers(3, 50, length).tolist() for length in lengths])


def batches_of(kind, **options):
    ids = ragged(1)
    labels = np.arange(len(ids)) % 3
    if kind == "pairs":
        return PairBatches(ids, ragged(2), MARKS, MARKS, **options)
    if kind == "conditioned":
        return ConditionedBatches(ids, torch.arange(4.0 * len(ids)).view(-1, 4), MARKS, **options)
    if kind == "labelled":
        return LabelledBatches(ids, labels, **options)
    if kind == "masked":
        return MaskedBatches(ids, **options)
    return TaggedBatches(TaggedRows(ids, ids, ragged(3, rows=50), ids, labels), **options)


KINDS = ("pairs", "conditioned", "labelled", "masked", "tagged")


def test_a_single_batch_has_a_shape():
    [batch] = batches_of("pairs", batch_size=1_000).sample(5)
    shapes = PaddedShapes.choose([batch], 6)
    assert batch.pack(shapes.find(batch)).count == batch.count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [{"batch_size": 16}, {"batch_size": None, "max_tokens": 200}])
def test_the_batches_of_an_epoch_get_at_most_that_number_of_shapes(kind, limit):
    batches = batches_of(kind, **limit)
    seen = batches.sample(10**6)
    assert len(seen) == len(batches)
    shapes = PaddedShapes.choose(seen, 6)
    padded = [batch.pack(shapes.find(batch)) for batch in seen]
    assert len({tuple(batch.sizes.values()) for batch in seen}) > 6
    assert 1 < len({tuple(batch.sizes.values()) for batch in padded}) <= 6
    for before, after in zip(seen, padded, strict=True):
        assert after.count == before.count
        assert all(after.sizes[axis] >= size for axis, size in before.sizes.items())
        for name, part in before.tensors().items():
            now = after.tensors()[name]
            assert now.dtype == part.dtype
            if name not in ("places", "asked"):  # which count the rows
                assert torch.equal(now[tuple(map(slice, part.shape))], part)


def test_padding_has_no_targets():
    pairs = next(iter(batches_of("pairs"))).pack({"source": 40, "target": 50, "rows": 70})
    assert pairs.source.shape == (40, 70)
    assert pairs.inputs.shape == pairs.labels.shape == (50, 70)
    assert int(real_positions(50, pairs.target_lengths).sum()) == pairs.count
    assert int(pairs.source_lengths.min()) == 1  # no encoder has to know what an empty sentence is
    labelled = next(iter(batches_of("labelled"))).pack({"steps": 40, "rows": 70})
    assert int((labelled.labels != IGNORED).sum()) == labelled.count
    assert IGNORED == heads.IGNORED


def test_hidden_places_stay_hidden_and_no_others():
    batch = next(one for one in batches_of("masked", batch_size=10, ask_all=True) if 0 not in one.places)
    more = {"masks": len(batch.places) + 5, "targets": len(batch.asked) + 3}
    padded = batch.pack({"steps": 40, "rows": 13, **more})
    hidden, wanted = (
        torch.zeros(one.ids.shape, dtype=torch.bool)
        .flatten()
        .index_fill(0, one.places, True)
        .view_as(one.ids)
        for one in (padded, batch)
    )
    assert torch.equal(hidden[: len(batch.ids), :10], wanted)
    assert hidden.sum() == wanted.sum()
    known = padded.labels != IGNORED
    assert int(known.sum()) == batch.count
    assert torch.equal(padded.ids.flatten()[padded.asked[known]], padded.labels[known])


def test_the_smallest_shape_that_holds_a_batch_is_taken_and_none_is_cut():
    batch = batches_of("labelled", batch_size=16).sample(1)[0]
    shapes = PaddedShapes(("steps", "rows"), np.array([[10, 16], [20, 15], [30, 16], [99, 16]]))
    for steps, taken in ((10, 10), (11, 30), (31, 99), (100, 100)):
        given = replace(batch, ids=torch.zeros(steps, 16, dtype=torch.long))
        assert given.pack(shapes.find(given)).ids.shape == (taken, 16)


def test_a_limited_number_of_sizes_is_remembered(monkeypatch):
    monkeypatch.setattr(packing, "MAX_FOUND", 5)
    shapes = PaddedShapes(("steps",), np.array([[10], [20]]))
    assert [shapes.find_sizes((steps,)) for steps in range(1, 23)] == [(10,)] * 10 + [(20,)] * 10 + [None] * 2
    assert len(shapes._found) <= 5


def test_shapes_that_are_fixed_stay():
    batches = SequentialPartition(np.arange(200), 4, 5)
    assert PaddedShapes.choose(batches.sample(3), 2) is None


def test_very_many_shapes_are_rounded_up_first():
    found = np.array([[one, other] for one in range(1, 41) for other in range(1, 41)])
    assert len(found) > MERGED_AT_MOST
    shapes = merge_shapes(found, np.ones(len(found), dtype=np.int64), lambda one: one.sum(-1), 9)
    assert len(shapes) == 9
    assert all((shapes >= one).all(1).any() for one in found)


def test_the_shapes_of_a_sample_hold_all_batches_of_later_epochs():
    source = np.random.default_rng(0)
    lengths = [*source.integers(5, 30, 2000).tolist(), 80, 90]  # few batches are long
    batches = MaskedBatches(RaggedIds.of([[7] * length for length in lengths]), batch_size=16, seed=1)
    shapes = PaddedShapes.choose(batches.sample(40), 8)
    for _ in range(4):
        assert all(shapes.find(batch) is not None for batch in batches)
