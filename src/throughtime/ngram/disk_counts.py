"""Counting n-grams of a text that is larger than memory: the same counts as `NgramCounts`, in files.

The text is counted in blocks that fit into memory, each of which is written as a run: its sorted keys and
their counts, length by length. Merging the keys of all runs gives those of the whole text in order, and tells
each run the numbers of its n-grams among all, from which follow its keys of the next length. All files are
read and written from their beginning to their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, check_whole
from throughtime.ngram.counts import Ints, NgramCounts, NgramLevel, check_ids

BYTES_PER_POSITION = 200
"""Memory that counting takes for each position of a block, and merging for each key."""


@dataclass(frozen=True)
class DiskCounts:
    """The files of `keys` and `count` of each length, int64, by the names that a saved model gives them."""

    files: dict[str, Path]
    order: int
    vocabulary_size: int
    never: tuple[int, ...]

    def open(self) -> NgramCounts:
        """The counts as arrays on the files, which are read where they are used."""
        levels = []
        for n in range(1, self.order + 1):
            count = _map(self.files[f"count.{n}"])
            keys = np.arange(self.vocabulary_size) if n == 1 else _map(self.files[f"keys.{n}"])
            levels.append(NgramLevel(keys, count, self.vocabulary_size))
        return NgramCounts(tuple(levels), self.vocabulary_size, self.never)


def count_on_disk(
    sentences: Iterable[Sequence[int]],
    order: int,
    vocabulary_size: int,
    never: Sequence[int],
    folder: Path,
    *,
    memory: int,
    joined: bool = False,
) -> DiskCounts:
    """Count the n-grams of sentences with files in the new `folder` and about `memory` bytes of memory.

    If they are `joined`, the sentences are parts of one.
    """
    check_whole("order", order)
    folder.mkdir()
    positions, once = max(memory // BYTES_PER_POSITION, 2), np.zeros(vocabulary_size, np.int64)
    runs: list[_Run] = []
    for ids, starts, counted in _split(sentences, positions, order - 1, joined):
        counts = NgramCounts.of_stream(
            check_ids(ids, vocabulary_size), starts, order, vocabulary_size, counted=counted
        )
        once += counts.levels[0].count
        runs.append(_Run(folder, len(runs), counts))
    if not runs:
        raise InputError("the training text", "has no tokens to count")
    files = {"count.1": _write(folder / "count.1", once)}
    for n in range(2, order + 1):
        files |= _merge(runs, folder, n, positions)
    for run in runs:
        run.path("numbers", order).unlink(missing_ok=True)
    return DiskCounts(files, order, vocabulary_size, tuple(sorted(set(never))))


def _split(
    sentences: Iterable[Sequence[int]], positions: int, overlap: int, joined: bool
) -> Iterator[tuple[Ints, Ints, int]]:
    """Yield blocks of about `positions` ids, with the places at which sentences begin.

    Blocks of joined sentences begin with the last `overlap` ids of the block before, as contexts; the number
    of these comes last.
    """
    ids: list[int] = []
    starts: list[int] = []
    counted = 0
    for sentence in sentences:
        if len(sentence) and not (joined and ids):
            starts.append(len(ids))
        ids.extend(sentence)
        if len(ids) - counted >= positions:
            yield np.array(ids), np.array(starts, np.int64), counted
            ids = ids[len(ids) - overlap :] if joined else []
            starts, counted = [], len(ids)
    if len(ids) > counted:
        yield np.array(ids), np.array(starts, np.int64), counted


class _Run:
    """A block in files: keys and counts of each length, and the numbers of its n-grams among all.

    While n-grams of one length are merged, `keys` and `count` are those that were read and not yet taken.
    """

    def __init__(self, folder: Path, number: int, counts: NgramCounts) -> None:
        self.folder, self.number, self.vocabulary_size = folder, number, counts.vocabulary_size
        self.sizes = [len(level.keys) for level in counts.levels]
        self.left = self.share = 0
        self.parts: Iterator[tuple[Ints, Ints]] = iter(())
        self.keys, self.count = np.empty(0, np.int64), np.empty(0, np.int64)
        for n, level in enumerate(counts.levels[1:], start=2):
            _write(self.path("keys", n), level.keys)
            _write(self.path("count", n), level.count)

    def path(self, name: str, n: int) -> Path:
        """Return the file of the keys, counts or numbers of one length."""
        return self.folder / f"run.{self.number}.{name}.{n}"

    def open(self, n: int, share: int) -> None:
        """Begin to read the n-grams of one length, about `share` of them at a time."""
        self.left, self.share, self.parts = self.sizes[n - 1], share, self._read(n, share)
        self.path("numbers", n).touch()

    def _read(self, n: int, share: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield `share` keys at a time, as they are among all n-grams, and their counts; remove the files."""
        files = [self.path(name, length) for name, length in (("keys", n), ("count", n), ("numbers", n - 1))]
        contexts = _map(files[2]) if n > 2 else np.arange(self.vocabulary_size)
        for first in range(0, self.sizes[n - 1], share):
            keys, count = (np.fromfile(file, np.int64, share, offset=first * 8) for file in files[:2])
            context, word = np.divmod(keys, self.vocabulary_size)
            yield contexts[context] * self.vocabulary_size + word, count
        del contexts  # a file that is mapped cannot be removed everywhere
        for file in files:
            file.unlink(missing_ok=True)

    @property
    def bound(self) -> int:
        """The last key up to which all of the run is in memory."""
        return int(self.keys[-1]) if self.left else int(np.iinfo(np.int64).max)

    def fill(self) -> bool:
        """Read on if little is in memory; return whether anything is left."""
        while len(self.keys) < self.share and (part := next(self.parts, None)) is not None:
            self.keys, self.count = np.append(self.keys, part[0]), np.append(self.count, part[1])
            self.left -= len(part[0])
        return len(self.keys) > 0

    def take(self, bound: int) -> tuple[Ints, Ints]:
        """Take the keys up to a bound out of memory, with their counts."""
        end = int(np.searchsorted(self.keys, bound, side="right"))
        taken = self.keys[:end], self.count[:end]
        self.keys, self.count = self.keys[end:], self.count[end:]
        return taken


def _merge(runs: Sequence[_Run], folder: Path, n: int, positions: int) -> dict[str, Path]:
    """Merge the n-grams of all runs: each distinct key once, with the sum of its counts.

    Up to a bound, the smallest of the last keys that each unfinished run has in memory, all keys are in
    memory, so they can be sorted and written.
    """
    files = {f"keys.{n}": folder / f"keys.{n}", f"count.{n}": folder / f"count.{n}"}
    for run in runs:
        run.open(n, max(positions // len(runs), 2))
    total = 0
    with files[f"keys.{n}"].open("wb") as keys_file, files[f"count.{n}"].open("wb") as count_file:
        while unfinished := [run for run in runs if run.fill()]:
            bound = min(run.bound for run in unfinished)
            taken = [run.take(bound) for run in unfinished]
            merged = np.concatenate([keys for keys, _ in taken])
            unique, _, inverse = np.unique(merged, return_index=True, return_inverse=True)
            # Sums of floats are exact up to 2^53, far above the number of words in any text.
            counts = np.bincount(inverse, np.concatenate([count for _, count in taken])).astype(np.int64)
            _append(keys_file, unique)
            _append(count_file, counts)
            ends = np.cumsum([len(keys) for keys, _ in taken])[:-1]
            for run, numbers in zip(unfinished, np.split(inverse + total, ends), strict=True):
                with run.path("numbers", n).open("ab") as file:
                    _append(file, numbers)
            total += len(unique)
    return files


def _write(path: Path, values: Ints) -> Path:
    with path.open("wb") as file:
        _append(file, values)
    return path


def _append(file: IO[bytes], values: npt.NDArray[Any]) -> None:
    # An error of `tofile` would not say that the disk is full.
    file.write(np.ascontiguousarray(values).data)


def _map(path: Path) -> Ints:
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.empty(0, np.int64)
