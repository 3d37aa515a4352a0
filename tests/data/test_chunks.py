"""Batches that are prepared several at a time are those that are prepared one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tests.data.test_shapes import KINDS, batches_of, ragged

from throughtime.data.batching import batches as batching
from throughtime.data.batching.packing import PaddedShapes
from throughtime.data.batching.pairs import ConditionedBatches, PairBatches
from throughtime.data.batching.sequences import MaskedBatches
from throughtime.data.batching.series import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.records import Specials

MARKS = Specials(pad_id=0, bos_id=1, eos_id=2)


def conditioned(vectors=False, **options):
    texts = ragged(3, rows=120)
    labels = torch.randn(len(texts), 5) if vectors else torch.arange(len(texts)) % 7
    return ConditionedBatches(texts, labels, MARKS, **options)


def panel(complete=True, columns=0, **options):
    source = np.random.default_rng(1)
    values, known = source.normal(size=300).astype(np.float32), source.normal(size=(300, columns))
    observed = np.full(300, True) if complete else source.random(300) < 0.7
    none = np.zeros((300, 0), np.float32)
    arrays = PanelArrays(
        values, observed, known.astype(np.float32), none, np.array([0, 180, 300]), np.array([4, -1])
    )
    return PanelBatches(PanelWindows(arrays, [range(180), range(120)], 9, 4, counted=6), 16, **options)


SOURCES = {
    **{kind: lambda kind=kind, **options: batches_of(kind, batch_size=6, **options) for kind in KINDS},
    "all asked": lambda **options: MaskedBatches(
        ragged(1, rows=90), share=0.2, ask_all=True, batch_size=5, **options
    ),
    "other padding": lambda **options: PairBatches(
        ragged(2, rows=60), ragged(5, rows=60), MARKS, Specials(3, 1, 2), batch_size=7, **options
    ),
    "conditions": lambda **options: conditioned(batch_size=7, **options),
    "vectors": lambda **options: conditioned(vectors=True, batch_size=7, **options),
    "windows": panel,
    "windows with gaps": lambda **options: panel(complete=False, **options),
    "windows with columns": lambda **options: panel(columns=2, **options),
}


def build(kind, **options):
    torch.manual_seed(0)
    return SOURCES[kind](**options)


def assert_same(found, wanted):
    assert type(found) is type(wanted)
    assert type(found.count) is int
    assert found.describe_tensors() == wanted.describe_tensors()
    assert (found.count, int(found.header[0])) == (wanted.count, wanted.count)
    for name, tensor in wanted.tensors().items():
        assert torch.equal(getattr(found, name), tensor), name
    assert found.describe_tensors() == wanted.describe_tensors()  # also once they are looked up


@pytest.mark.parametrize("most", [3, None])
@pytest.mark.parametrize("kind", SOURCES)
def test_chunks_hold_the_batches_of_an_epoch(kind, most, monkeypatch):
    monkeypatch.setattr(batching, "CHUNK", 4)
    one_by_one, together = build(kind), build(kind)
    shapes = None if most is None else PaddedShapes.choose(one_by_one.sample(100), most)
    for _ in range(2):
        wanted = [batch.pack(None if shapes is None else shapes.find(batch)) for batch in one_by_one]
        states, found = zip(
            *((together.state(), batch) for batch in together.pack_epoch(shapes)), strict=True
        )
        assert len(wanted) > 4
        assert [state["batch"] for state in states] == [*range(1, len(wanted) + 1)]
        for own, batch in zip(found, wanted, strict=True):
            assert_same(own, batch)
    assert together.state() == one_by_one.state()


@pytest.mark.parametrize("kind", SOURCES)
def test_a_position_inside_a_chunk_is_restored(kind):
    whole, rest = build(kind), build(kind)
    first = [*itertools.islice(whole.pack_epoch(), 3)]
    rest.restore(whole.state())
    assert len(first) == 3
    for own, batch in zip(rest.pack_epoch(), whole, strict=True):
        assert_same(own, batch.pack())


@pytest.mark.parametrize("kind", SOURCES)
def test_several_processes_share_the_rows(kind):
    for rank in range(2):
        own, same = (build(kind, rank=rank, world_size=2) for _ in range(2))
        for batch, wanted in itertools.islice(zip(own.pack_epoch(), same, strict=True), 3):
            assert_same(batch, wanted.pack())


def test_a_batch_in_memory_has_its_own_tensors_and_no_others():
    batch = next(build("labelled").pack_epoch())
    with pytest.raises(AttributeError, match="LabelledBatch has no attribute 'words'"):
        _ = batch.words
    assert batch.ids.shape[1] == batch.rows == 6
    with pytest.raises(AttributeError, match="'words'"):
        _ = batch.words
