"""Sentence pairs: padded and shifted right, each once an epoch, with little padding."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.batching.buckets import Buckets, RaggedIds
from throughtime.data.batching.pairs import PairBatch, PairBatches, TruncationCounts
from throughtime.data.records import Specials

SOURCE, TARGET = Specials(pad_id=0, eos_id=3), Specials(pad_id=7, bos_id=8, eos_id=9)
sentences = st.lists(st.integers(10, 99), max_size=12)
corpus = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=60)


def batches_of(pairs: Iterable[tuple[list[int], list[int]]], **own: object) -> PairBatches:
    sources, targets = zip(*pairs, strict=True)
    return PairBatches(sources, targets, SOURCE, TARGET, **own)  # type: ignore[arg-type]


def rows_of(batch: PairBatch) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Source, decoder input and label of each pair without its padding, by the pair's number."""
    found = {}
    for row, pair in enumerate(batch.indices.tolist()):
        source, target = int(batch.source_lengths[row]), int(batch.target_lengths[row])
        found[pair] = (
            batch.source[:source, row].tolist(),
            batch.inputs[:target, row].tolist(),
            batch.labels[:target, row].tolist(),
        )
        assert set(batch.source[source:, row].tolist()) <= {0}
        assert set(batch.inputs[target:, row].tolist()) <= {7}
        assert set(batch.labels[target:, row].tolist()) <= {7}
    return found


@given(pairs=corpus, batch_size=st.integers(1, 20), seed=st.integers(0, 99), shuffle=st.booleans())
@settings(max_examples=60, deadline=None)
def test_each_pair_once_an_epoch(
    pairs: list[tuple[list[int], list[int]]], batch_size: int, seed: int, shuffle: bool
) -> None:
    # R71: <eos> ends both sides, <bos> starts the decoder's input, the label shifted by one
    batches = batches_of(pairs, batch_size=batch_size, seed=seed, shuffle=shuffle)
    for _ in range(2):
        seen: dict[int, tuple[list[int], list[int], list[int]]] = {}
        for batch in batches:
            rows = rows_of(batch)
            assert 1 <= len(rows) <= batch_size
            assert not rows.keys() & seen.keys()
            assert batch.count == int(batch.target_lengths.sum())
            seen |= rows
        assert len(seen) == len(pairs)
        for number, (source, target) in enumerate(pairs):
            assert seen[number] == ([*source, 3], [8, *target], [*target, 9])


@given(pairs=corpus, max_tokens=st.integers(13, 80), batch_size=st.none() | st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_a_token_budget_holds(
    pairs: list[tuple[list[int], list[int]]], max_tokens: int, batch_size: int | None
) -> None:
    seen = []
    for batch in batches_of(pairs, batch_size=batch_size, max_tokens=max_tokens):
        assert max(batch.source.numel(), batch.labels.numel()) <= max_tokens
        assert batch.source.shape[1] <= (batch_size or len(pairs))
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(len(pairs)))


@given(pairs=corpus, max_length=st.integers(2, 14))
@settings(max_examples=40, deadline=None)
def test_truncation_is_counted_and_keeps_the_end_token(
    pairs: list[tuple[list[int], list[int]]], max_length: int
) -> None:
    # R72
    batches = batches_of(pairs, max_length=max_length)
    long = [[len(side) + 1 > max_length for side in pair] for pair in pairs]
    assert batches.truncated == TruncationCounts(*(sum(side) for side in zip(*long, strict=True)))
    for batch in batches:
        for number, (source, _, labels) in rows_of(batch).items():
            assert source == [*pairs[number][0][: max_length - 1], 3]
            assert labels == [*pairs[number][1][: max_length - 1], 9]


@given(pairs=corpus, batch_size=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_strips_pad_no_more_than_sorting_by_source(
    pairs: list[tuple[list[int], list[int]]], batch_size: int
) -> None:
    sources, targets = (np.array([len(side) for side in sides]) + 1 for sides in zip(*pairs, strict=True))
    buckets = Buckets(sources, targets, batch_size=batch_size)
    by_source = RaggedIds.chunks(np.lexsort((targets * (-1) ** (sources % 2), sources)), batch_size)
    assert buckets.padding(buckets.plan_in_order()) <= buckets.padding(by_source)


def test_evaluation_goes_from_short_to_long_and_gives_the_order_back() -> None:
    generator = np.random.default_rng(0)
    pairs = [([10] * n, [10] * n) for n in generator.integers(1, 30, 200).tolist()]
    batches = batches_of(pairs, batch_size=16, shuffle=False)
    first, second = ([batch.indices.tolist() for batch in batches] for _ in range(2))
    assert first == second
    longest = [batch.source.shape[0] for batch in batches]
    assert longest == sorted(longest)
    results: list[int | None] = [None] * len(pairs)
    for batch in batches:
        for pair, length in zip(batch.indices.tolist(), batch.target_lengths.tolist(), strict=True):
            results[pair] = length - 1
    assert results == [len(target) for _, target in pairs]


def test_training_mixes_lengths_over_the_epoch_and_partners_over_epochs() -> None:
    generator = np.random.default_rng(0)
    pairs = [([10] * n, [10] * n) for n in generator.integers(1, 12, 2000).tolist()]
    batches = batches_of(pairs, batch_size=20, jitter=0)
    epochs = [[frozenset(batch.indices.tolist()) for batch in batches] for _ in range(2)]
    assert not set(epochs[0]) & set(epochs[1])
    lengths = [batch.source.shape[0] for batch in batches]
    assert lengths != sorted(lengths)
    assert np.corrcoef(lengths, np.arange(len(lengths)))[0, 1] == pytest.approx(0, abs=0.3)


def test_vocabularies_of_different_sizes() -> None:
    # R73, the data's side
    small, large = [[1, 2], [2, 1]], [[900_000, 5], [70_000, 6]]
    marks = Specials(pad_id=999_999, bos_id=999_998, eos_id=999_997)
    batch = next(iter(PairBatches(small, large, Specials(pad_id=0, eos_id=3), marks)))
    assert int(batch.source.max()) == 3
    assert int(batch.labels.max()) == 999_997
    assert batch.inputs[0].tolist() == [999_998, 999_998]


def test_a_source_may_end_bare() -> None:
    batch = next(iter(PairBatches([[5, 6]], [[7]], Specials(), TARGET)))
    assert batch.source.T.tolist() == [[5, 6]]
    with refuses("pairs", "source", "1"):
        PairBatches([[5], []], [[7], [7]], Specials(), TARGET)


@pytest.mark.parametrize(
    ("build", "facts"),
    [
        (lambda: PairBatches([[1]], [[1], [2]], SOURCE, TARGET), ("pairs", "1", "2")),
        (lambda: PairBatches([], [], SOURCE, TARGET), ("pairs",)),
        (
            lambda: PairBatches([[1]], [[1]], SOURCE, Specials(eos_id=1)),
            ("target vocabulary", "<bos>", "<eos>"),
        ),
        (lambda: PairBatches([[1]], [[1]], SOURCE, TARGET, batch_size=None), ("batch_size", "max_tokens")),
        (lambda: PairBatches([[1]], [[1]], SOURCE, TARGET, batch_size=0), ("batch_size", "1")),
        (lambda: PairBatches([[1]], [[1]], SOURCE, TARGET, max_length=1), ("max_length", "2")),
        (lambda: PairBatches([[1]], [[1]], SOURCE, TARGET, jitter=-1.0), ("jitter", "0")),
        (
            lambda: PairBatches([[1], [1] * 9], [[1], [1]], SOURCE, TARGET, max_tokens=9),
            ("max_tokens", "1", "10"),
        ),
        (lambda: PairBatches([[1], ["a"]], [[1], [1]], SOURCE, TARGET), ("row 1", "32")),
        (lambda: RaggedIds(np.arange(4), np.array([0, 3, 2, 4])), ("offsets", "0", "4")),
    ],
)
def test_bad_input_is_refused(build: object, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        build()  # type: ignore[operator]


def words(path: Path) -> RaggedIds:
    known: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        return RaggedIds.of(
            [known.setdefault(word, len(known) + 4) for word in line.split()] for line in file
        )


def test_multi30k_is_hardly_padded(corpora: Path) -> None:
    folder = corpora / "multi30k" / "tok"
    sources, targets = (words(folder / f"train.lc.norm.tok.{language}") for language in ("en", "de"))
    marks = Specials(0, 1, 2)
    batches = PairBatches(sources, targets, marks, marks, batch_size=64)
    assert batches.padding < 0.05
    assert sum(len(batch.indices) for batch in batches) == 29_000
    assert batches.padding < 0.05  # the second epoch's


@pytest.mark.parametrize("jitter", [0.0, 1.0, 1e-15, 40.0])
@pytest.mark.parametrize("width", [1, 3, 16])
def test_rows_are_sorted_by_strips_then_targets_then_ties(width, jitter):
    """Whether one number tells all rows apart, as with jitter, or not."""
    draws = np.random.default_rng(width)
    sources, targets = draws.integers(0, 90, 3000), draws.integers(0, 90, 3000)
    buckets, ties = Buckets(sources, targets, batch_size=64), draws.permutation(3000)
    blurred = targets + jitter * draws.uniform(-1, 1, 3000)
    strips = sources // width
    wanted = np.lexsort((ties, np.where(strips % 2 == 0, blurred, -blurred), strips))
    assert np.array_equal(buckets._sort_by_lengths(width, blurred, ties), wanted)
