"""What holds for all batches: exact resumption, equal seeds, rows dealt to ranks without loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.test_shapes import batches_of
from tests.refusals import refuses
from torch import Tensor

from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.pairs import PairBatches
from throughtime.data.batching.series import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.batching.text import OverlappingWindows, RandomWindows, SequentialPartition
from throughtime.data.records import Specials

Build = Callable[..., Batches[Any, Any]]
MARKS = Specials(0, 1, 2)
SOURCES = [list(range(3, 4 + i * 7 % 11)) for i in range(50)]
TARGETS = [list(range(3, 4 + i * 5 % 13)) for i in range(50)]

VALUES, NONE = np.arange(60, dtype=np.float32), np.zeros((60, 0), np.float32)
PANEL = PanelWindows(
    PanelArrays(VALUES, VALUES >= 0, NONE, NONE, np.array([0, 60]), np.array([0])), [range(60)], 5, 2
)


def pairs(seed: int, **own: Any) -> PairBatches:
    return PairBatches(SOURCES, TARGETS, MARKS, MARKS, batch_size=7, seed=seed, **own)


KINDS: dict[str, Build] = {
    "random": lambda seed, **own: RandomWindows(range(200), 4, 7, seed=seed, **own),
    "sequential": lambda seed, **own: SequentialPartition(range(200), 4, 7, seed=seed, **own),
    "rotated": lambda seed, **own: SequentialPartition(range(200), 4, 7, seed=seed, rotate=True, **own),
    "covering": lambda seed, **own: SequentialPartition(range(200), 5, 7, seed=seed, cover=True, **own),
    "overlapping": lambda seed, **own: OverlappingWindows(range(50), 8, 7, seed=seed, **own),
    "pairs": pairs,
    "token budget": lambda seed, **own: PairBatches(
        SOURCES, TARGETS, MARKS, MARKS, batch_size=None, max_tokens=60, seed=seed, **own
    ),
    "series": lambda seed, **own: PanelBatches(PANEL, 8, seed=seed, **own),
}
OF_TEXTS: dict[str, Build] = {
    kind: lambda seed, kind=kind, **own: batches_of(kind, batch_size=40, seed=seed, **own)
    for kind in ("labelled", "conditioned", "masked", "tagged")
}
"""Kinds whose batches hold tables of words or places besides rows."""
all_kinds = pytest.mark.parametrize("build", [*KINDS.values(), *OF_TEXTS.values()], ids=[*KINDS, *OF_TEXTS])
kinds = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


def endless(batches: Batches[Any, Any]) -> Iterator[Batch]:
    while True:
        yield from batches


def same(one: Batch, other: Batch) -> bool:
    def equal(a: object, b: object) -> bool:
        return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b

    return all(equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


@all_kinds
@given(taken=st.integers(0, 40), seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_resumes_with_exactly_the_batches_that_would_have_followed(
    build: Build, taken: int, seed: int
) -> None:
    whole = build(seed)
    stream = endless(whole)
    for _ in islice(stream, taken):
        pass
    resumed = build(seed)
    resumed.restore(json.loads(json.dumps(whole.state())))
    for expected, got in islice(zip(stream, endless(resumed), strict=False), 20):
        assert same(expected, got)
    assert whole.epoch == resumed.epoch


@all_kinds
def test_equal_seeds_give_equal_batches_and_epochs_differ(build: Build) -> None:
    one, other, another = build(3), build(3), build(4)
    first, second, third = list(one), list(other), list(another)
    assert all(same(a, b) for a, b in zip(first, second, strict=True))
    assert one.epoch == 1
    for different in (third, list(one)):
        assert any(not same(a, b) for a, b in zip(first, different, strict=False))


@kinds
@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_rows_of_the_ranks_are_the_rows_of_one_process(build: Build, world_size: int) -> None:
    ranks = [list(build(5, rank=rank, world_size=world_size)) for rank in range(world_size)]
    for whole, *parts in zip(build(5), *ranks, strict=True):
        assert {part.count for part in parts} == {whole.count}
        for field in fields(whole):
            value = getattr(whole, field.name)
            if not isinstance(value, Tensor):
                continue
            rows = value.movedim(-1, 0) if value.ndim < 3 else value.movedim(1, 0)
            for row, expected in enumerate(rows):
                dealt = getattr(parts[row % world_size], field.name)
                got = (dealt.movedim(-1, 0) if dealt.ndim < 3 else dealt.movedim(1, 0))[row // world_size]
                # A rank pads to its own longest row.
                assert torch.equal(got, expected[: len(got)] if got.ndim else expected)
                assert got.ndim == 0 or not expected[len(got) :].any()
        assert sum(part.rows for part in parts) == whole.rows


@pytest.mark.parametrize("kind", ["labelled", "conditioned", "tagged"])
def test_ranks_share_the_texts_of_a_batch_and_its_count(kind: str) -> None:
    ranks = [list(OF_TEXTS[kind](5, rank=rank, world_size=3)) for rank in range(3)]
    for whole, *parts in zip(OF_TEXTS[kind](5), *ranks, strict=True):
        assert {part.count for part in parts} == {whole.count}
        numbers = [number for part in parts for number in part.indices.tolist()]
        assert sorted(numbers) == sorted(whole.indices.tolist())


def test_a_position_of_two_processes_can_be_taken_up_by_one() -> None:
    two = pairs(1, rank=1, world_size=2)
    for _ in islice(two, 3):
        pass
    one = pairs(1)
    one.restore(two.state())
    assert same(next(iter(one)), list(pairs(1))[3])


def test_a_rank_without_rows_still_has_every_batch() -> None:
    ranks = [list(pairs(0, rank=rank, world_size=3)) for rank in range(3)]
    assert len({len(rank) for rank in ranks}) == 1
    last = next(index for index, batch in enumerate(ranks[0]) if batch.indices.shape[0] == 1)
    assert [rank[last].labels.shape[1] for rank in ranks] == [1, 0, 0]
    assert {rank[last].count for rank in ranks} == {int(ranks[0][last].target_lengths.sum())}


def test_a_loop_left_early_goes_on_where_it_was() -> None:
    batches = pairs(0)
    seen = [batch.indices.tolist() for batch in islice(batches, 2)]
    seen += [batch.indices.tolist() for batch in batches]
    assert sorted(pair for batch in seen for pair in batch) == list(range(50))


def test_a_position_of_other_settings_is_refused() -> None:
    saved = RandomWindows(range(100), 4, 7).state()
    with refuses("saved position", "batch_size", "4", "5"):
        RandomWindows(range(100), 5, 7).restore(saved)
    with refuses("saved position", "seed", "0", "1"):
        RandomWindows(range(100), 4, 7, seed=1).restore(saved)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"batch": -1}, ("saved position", "'epoch'", "'batch'", "'settings'")),
        ({"epoch": "2"}, ("saved position", "'epoch'", "'batch'", "'settings'")),
        ({"batch": 99}, ("saved position", "4")),
        ({"settings": 3}, ("saved position", "'epoch'", "'batch'", "'settings'")),
    ],
)
def test_a_damaged_position_is_refused_and_nothing_moves(
    change: dict[str, Any], facts: tuple[str, ...]
) -> None:
    batches = RandomWindows(range(100), 4, 7)
    before = batches.state()
    with refuses(*facts):
        batches.restore({**before, **change})
    assert batches.state() == before


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_outside_the_world_is_refused(rank: int) -> None:
    with refuses("rank", "0", "1"):
        RandomWindows(range(100), 4, 7, rank=rank, world_size=2)


def test_a_batch_moves_whole() -> None:
    moved = next(iter(pairs(0))).to("meta")
    assert moved.labels.device.type == moved.source_lengths.device.type == "meta"
    assert moved.count == next(iter(pairs(0))).count
