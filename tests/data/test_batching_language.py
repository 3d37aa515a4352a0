"""One long text: every window once, rows that go on, labels shifted by one, nothing lost in evaluation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.batching.batches import draws, random_offset
from throughtime.data.batching.text import OverlappingWindows, RandomWindows, SequentialPartition

lengths, sizes, steps, seeds = (
    st.integers(2, 300),
    st.integers(1, 9),
    st.integers(1, 12),
    st.integers(0, 2**40),
)
quick = settings(max_examples=40, deadline=None)


@given(tokens=lengths, batch_size=sizes, num_steps=steps, seed=seeds)
@quick
def test_every_window_once_an_epoch(tokens: int, batch_size: int, num_steps: int, seed: int) -> None:
    # R28, R30
    assume(tokens >= 2 * num_steps)
    batches = RandomWindows(range(tokens), batch_size, num_steps, seed=seed)
    starts = torch.cat([batch.inputs[0] for batch in batches]).sort().values
    offset = int(starts[0])
    assert 0 <= offset < num_steps
    assert starts.tolist() == [offset + num_steps * i for i in range((tokens - 1 - offset) // num_steps)]


def test_windows_come_in_a_new_seeded_permutation_each_epoch() -> None:
    # R28
    batches = RandomWindows(range(1001), 10, 10, random_start=False)
    first, second = ([int(i) for batch in batches for i in batch.inputs[0]] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(0, 1000, 10))
    assert first != second != sorted(second)
    again = RandomWindows(range(1001), 10, 10, random_start=False)
    assert [int(i) for batch in again for i in batch.inputs[0]] == first


def test_every_offset_occurs_and_equally_often() -> None:
    # R30
    counts = Counter(random_offset(5, draws(0, epoch)) for epoch in range(5000))
    assert set(counts) == {0, 1, 2, 3, 4}
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_squared < 18.5  # the 99.9 % point of four degrees of freedom
    batches = RandomWindows(range(100), 50, 5)
    seen = {min(int(batch.inputs.min()) for batch in batches) for _ in range(60)}
    assert seen == {0, 1, 2, 3, 4}


@given(tokens=lengths, batch_size=sizes, num_steps=steps, seed=seeds)
@quick
def test_labels_are_inputs_shifted_by_one(tokens: int, batch_size: int, num_steps: int, seed: int) -> None:
    # R31
    assume(tokens > batch_size * num_steps)
    ids = np.random.default_rng(seed).integers(0, 7, tokens)
    for build in (RandomWindows, SequentialPartition, OverlappingWindows):
        for batch in build(ids, batch_size, num_steps, seed=seed):
            assert batch.inputs.dtype == batch.labels.dtype == batch.lengths.dtype == torch.int64
            assert torch.equal(batch.labels[:-1], batch.inputs[1:])
            assert batch.lengths.tolist() == [num_steps] * batch.inputs.shape[1]
            assert batch.count == batch.labels.numel()


@given(tokens=lengths, batch_size=sizes, num_steps=steps, seed=seeds, cover=st.booleans())
@quick
def test_rows_continue(tokens: int, batch_size: int, num_steps: int, seed: int, cover: bool) -> None:
    # R29
    assume(tokens > batch_size * num_steps)
    batches = SequentialPartition(range(tokens), batch_size, num_steps, seed=seed, cover=cover)
    before = None
    for batch in batches:
        assert batch.continues == (before is not None)
        if before is not None:
            goes_on = batch.lengths > 0
            assert torch.equal(batch.inputs[0][goes_on], before.labels[-1][goes_on])
        before = batch
    assert batches.epoch == 1


@given(tokens=lengths, batch_size=sizes, num_steps=steps, seed=seeds)
@quick
def test_rotated_rows_go_round_once(tokens: int, batch_size: int, num_steps: int, seed: int) -> None:
    assume(tokens > batch_size * num_steps)
    batches = SequentialPartition(range(tokens), batch_size, num_steps, seed=seed, rotate=True)
    made = list(batches)
    inputs, labels = (torch.cat([getattr(batch, name) for batch in made]) for name in ("inputs", "labels"))
    assert torch.equal(labels, inputs + 1)  # also where a row's end leads to its start
    assert [batch.continues for batch in made] == [False] + [True] * (len(made) - 1)
    offset_and_rows = SequentialPartition(range(tokens), batch_size, num_steps, seed=seed)
    starts = next(iter(offset_and_rows)).inputs[0]
    length = (tokens - 1 - int(starts[0])) // batch_size
    for row, start in zip(inputs.T, starts, strict=True):
        assert len(row) == length - length % num_steps == len(row.unique())
        assert torch.equal((row - start) % length, (row[0] - start + torch.arange(len(row))) % length)
        assert start <= row.min()
        assert row.max() < start + length


def test_training_rows_are_whole_and_equally_long() -> None:
    # R29, R30
    batches = SequentialPartition(range(1000), 4, 7, seed=2)
    for _ in range(20):
        made = list(batches)
        offset = int(made[0].inputs[0, 0])
        assert 0 <= offset < 7
        assert len(made) == (999 - offset) // 4 // 7
        assert all(batch.inputs.shape == (7, 4) for batch in made)


@given(tokens=lengths, batch_size=sizes, num_steps=steps)
@quick
def test_evaluation_predicts_every_token_once(tokens: int, batch_size: int, num_steps: int) -> None:
    predicted: list[int] = []
    total = 0
    for batch in SequentialPartition(range(tokens), batch_size, num_steps, random_start=False, cover=True):
        assert batch.inputs.shape[0] == batch.lengths.max()
        for row, length in enumerate(batch.lengths.tolist()):
            predicted += batch.labels[:length, row].tolist()
            assert torch.equal(batch.inputs[:length, row] + 1, batch.labels[:length, row])
            assert not batch.labels[length:, row].any()
            assert not batch.inputs[length:, row].any()
        total += batch.count
    assert sorted(predicted) == list(range(1, tokens))
    assert total == tokens - 1


def test_overlapping_windows_train_and_validate() -> None:
    text = np.arange(100) % 28
    train = OverlappingWindows(text, 16, 8, windows=range(60))
    valid = OverlappingWindows(text, 16, 8, windows=range(60, 80), shuffle=False)
    ids = torch.from_numpy(text)
    seen = Counter(tuple(row.tolist()) for batch in train for row in batch.inputs.T)
    assert seen == Counter(tuple(text[i : i + 8].tolist()) for i in range(60))
    inputs = torch.cat([batch.inputs for batch in valid], dim=1)
    assert torch.equal(inputs, torch.stack([ids[i : i + 8] for i in range(60, 80)], dim=1))
    assert sum(batch.inputs.shape[1] for batch in OverlappingWindows(text, 16, 8)) == 92
    strided = OverlappingWindows(range(100), 100, 8, stride=4, shuffle=False)
    assert next(iter(strided)).inputs[0].tolist() == list(range(0, 92, 4))


def test_a_short_last_batch_is_kept() -> None:
    for build in (RandomWindows(range(31), 4, 3, random_start=False), OverlappingWindows(range(13), 4, 3)):
        assert [tuple(batch.inputs.shape) for batch in build] == [(3, 4), (3, 4), (3, 2)]


def test_a_short_text_always_gives_a_batch() -> None:
    shortest = RandomWindows(range(8), 4, 7)
    assert [len(list(shortest)) for _ in range(20)] == [1] * 20
    shortest_rows = SequentialPartition(range(16), 2, 7)
    assert [len(list(shortest_rows)) for _ in range(20)] == [1] * 20


@pytest.mark.parametrize(
    ("build", "facts"),
    [
        (lambda: RandomWindows(range(7), 4, 7), ("text", "7", "8", "batch_size", "num_steps")),
        (lambda: SequentialPartition(range(28), 4, 7), ("text", "28", "29", "batch_size", "num_steps")),
        (lambda: SequentialPartition([5], 4, 7, cover=True), ("text", "1", "2")),
        (lambda: SequentialPartition([], 4, 7, cover=True), ("ids",)),
    ],
)
def test_a_text_too_short_is_refused(build: object, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("ids", [[0.5, 1.0, 2.0], [[1, 2], [3, 4]], ["a", "b"], [True, False, True]])
def test_ids_that_are_none_are_refused(ids: object) -> None:
    with refuses("ids"):
        RandomWindows(ids, 1, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("windows", [range(0), range(90, 95), range(-1, 4)])
def test_windows_outside_the_text_are_refused(windows: range) -> None:
    with refuses("windows", "0", "91"):
        OverlappingWindows(range(100), 4, 8, windows=windows)
