"""Counting n-grams of a text that is larger than memory: the same counts as `NgramCounts`, in files.

The text is one file of ids. For each length, a block of it that fits into memory is sorted and written as a
run: its distinct keys and their counts. Merging the runs gives the keys of all n-grams in order, and tells
each run the numbers of its keys, from which follow the nodes of all positions: the contexts of the next
length. All files are read and written from their beginning to their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, check_whole
from throughtime.ngram.counts import MISSING, Ints, NgramCounts, NgramLevel, check_ids, find_unique

BYTES_PER_POSITION = 100
"""Memory that counting takes for each position of a block, and merging for each key: about ten integers."""


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
    positions = max(memory // BYTES_PER_POSITION, 2)
    text = _Text(folder, vocabulary_size, positions)
    files = {"count.1": text.write(sentences, joined)}
    for n in range(2, order + 1):
        files |= text.count_level(n, last=n == order)
    for left in folder.glob("text.*"):
        left.unlink()
    return DiskCounts(files, order, vocabulary_size, tuple(sorted(set(never))))


class _Text:
    """The ids of a text in a file, and for each position the node of the n-gram that ends there."""

    def __init__(self, folder: Path, vocabulary_size: int, positions: int) -> None:
        self.folder, self.vocabulary_size, self.positions = folder, vocabulary_size, positions
        self.ids, self.nodes, self.within = (folder / f"text.{name}" for name in ("ids", "nodes", "within"))
        self.length = 0

    def write(self, sentences: Iterable[Sequence[int]], joined: bool) -> Path:
        """Write the ids, and count single words; the first id of a sentence is stored as -1 - id."""
        once = np.zeros(self.vocabulary_size, np.int64)
        with self.ids.open("wb") as file:
            for ids, starts in _blocks(sentences, self.positions):
                ids = check_ids(ids, self.vocabulary_size)
                if joined:
                    starts = starts[: not self.length]
                once += np.bincount(ids, minlength=self.vocabulary_size)
                ids[starts] = -1 - ids[starts]
                _append(file, ids.astype(np.int32))
                self.length += len(ids)
        if not self.length:
            raise InputError("the training text", "has no tokens to count")
        return _write(self.folder / "count.1", once)

    def count_level(self, n: int, *, last: bool) -> dict[str, Path]:
        """Count the n-grams of length n; unless they are the last, keep their nodes for the next length."""
        runs: list[_Run] = []
        with self.within.open("wb") as within:
            for first in range(0, self.length, self.positions):
                keys = self._keys(first, n)
                runs.append(_Run(self.folder, len(runs)))
                places = runs[-1].write(keys, keep=not last)
                if places is not None:
                    _append(within, places)
        files = merge(runs, self.folder, n, self.positions, number=not last)
        if not last:
            self._write_nodes(runs)
        for run in runs:
            run.remove()
        return files

    def _keys(self, first: int, n: int) -> Ints:
        """The keys of a block of positions; MISSING where no n-gram of this length ends."""
        ids = _read(self.ids, first, self.positions, np.int32).astype(np.int64)
        begins = ids < 0
        ids[begins] = -1 - ids[begins]
        keys = np.full(len(ids), MISSING)
        before = max(first - 1, 0)  # the context of the first position is in the block before
        if n == 2:
            node = _read(self.ids, before, self.positions, np.int32).astype(np.int64)
            node = np.where(node < 0, -1 - node, node)
        else:
            node = _read(self.nodes, before, self.positions, np.int64)
        keys[first == 0 :] = node[: len(ids) - (first == 0)]
        keys[begins] = MISSING
        counted = keys >= 0
        keys *= self.vocabulary_size
        keys += ids
        keys[~counted] = MISSING
        return keys

    def _write_nodes(self, runs: Sequence[_Run]) -> None:
        new = self.folder / "text.new"
        with new.open("wb") as file:
            for number, run in enumerate(runs):
                places = _read(self.within, number * self.positions, self.positions, np.int32)
                nodes = np.append(_read(run.numbers, 0, -1, np.int64), MISSING)  # MISSING is the last place
                _append(file, nodes[places])
        new.replace(self.nodes)


class _Run:
    """The distinct keys of a block in order, their counts and, after merging, their numbers among all."""

    def __init__(self, folder: Path, number: int) -> None:
        names = ("keys", "count", "numbers")
        self.keys, self.count, self.numbers = (folder / f"run.{number}.{name}" for name in names)
        self.size = 0

    def write(self, keys: Ints, *, keep: bool) -> npt.NDArray[np.int32] | None:
        """Sort and write a block; with `keep`, return the place of each position's key among the distinct."""
        seen = keys >= 0
        places = None
        if keep:
            unique, inverse, count = find_unique(keys[seen])
            places = np.full(len(keys), MISSING, np.int32)
            places[seen] = inverse
        else:
            unique, count = np.unique(keys[seen], return_counts=True)
        self.size = len(unique)
        _write(self.keys, unique)
        _write(self.count, count)
        self.numbers.touch()
        return places

    def remove(self) -> None:
        """Remove the files."""
        for file in (self.keys, self.count, self.numbers):
            file.unlink()


def merge(runs: Sequence[_Run], folder: Path, n: int, positions: int, *, number: bool) -> dict[str, Path]:
    """Merge sorted runs: each distinct key once, with the sum of its counts.

    Up to a bound, the smallest of the last keys that each unfinished run has in memory, all keys are in
    memory, so they can be sorted and written.
    """
    files = {f"keys.{n}": folder / f"keys.{n}", f"count.{n}": folder / f"count.{n}"}
    share = max(positions // max(len(runs), 1), 2)
    readers = [_RunReader(run, share) for run in runs]
    total = 0
    with files[f"keys.{n}"].open("wb") as keys_file, files[f"count.{n}"].open("wb") as count_file:
        while readers := [reader for reader in readers if reader.fill()]:
            bounds = [reader.keys[-1] for reader in readers if not reader.complete]
            bound = min(bounds) if bounds else np.iinfo(np.int64).max
            taken = [reader.take(bound) for reader in readers]
            unique, inverse, _ = find_unique(np.concatenate([keys for keys, _ in taken]))
            # Sums of floats are exact up to 2^53, far above the number of words in any text.
            counts = np.bincount(inverse, np.concatenate([count for _, count in taken])).astype(np.int64)
            _append(keys_file, unique)
            _append(count_file, counts)
            if number:
                ends = np.cumsum([len(keys) for keys, _ in taken])[:-1]
                for reader, numbers in zip(readers, np.split(inverse + total, ends), strict=True):
                    reader.append_numbers(numbers)
            total += len(unique)
    return files


class _RunReader:
    """Reads a run part by part."""

    def __init__(self, run: _Run, share: int) -> None:
        self.run, self.share, self.read = run, share, 0
        self.keys, self.count = np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def complete(self) -> bool:
        """Whether all that is left of the run is in memory."""
        return self.read >= self.run.size

    def fill(self) -> bool:
        """Read on if little is left in memory; return whether anything is left."""
        wanted = self.share - len(self.keys)
        if not self.complete and wanted > 0:
            parts = (_read(file, self.read, wanted, np.int64) for file in (self.run.keys, self.run.count))
            keys, count = parts
            self.keys, self.count = np.append(self.keys, keys), np.append(self.count, count)
            self.read += len(keys)
        return len(self.keys) > 0

    def take(self, bound: int) -> tuple[Ints, Ints]:
        """Take the keys up to a bound out of memory, with their counts."""
        end = int(np.searchsorted(self.keys, bound, side="right"))
        taken = self.keys[:end], self.count[:end]
        self.keys, self.count = self.keys[end:], self.count[end:]
        return taken

    def append_numbers(self, numbers: Ints) -> None:
        """Write the numbers of the keys that were taken last."""
        with self.run.numbers.open("ab") as file:
            _append(file, numbers)


def _blocks(sentences: Iterable[Sequence[int]], positions: int) -> Iterator[tuple[Ints, Ints]]:
    """Join sentences to arrays of about `positions` ids, with the places at which sentences begin."""
    # A list of Python's integers takes many times the memory of an array.
    most = max(positions // 8, 1)
    ids: list[int] = []
    starts: list[int] = []
    for sentence in sentences:
        if len(sentence):
            starts.append(len(ids))
            ids.extend(sentence)
        if len(ids) >= most:
            yield np.array(ids), np.array(starts)
            ids, starts = [], []
    if ids:
        yield np.array(ids), np.array(starts)


def _read(path: Path, first: int, number: int, kind: Any) -> npt.NDArray[Any]:
    """Read some numbers of a file, from the place `first` on; all if `number` is -1."""
    return np.fromfile(path, kind, number, offset=first * np.dtype(kind).itemsize)


def _write(path: Path, values: Ints) -> Path:
    with path.open("wb") as file:
        _append(file, values)
    return path


def _append(file: IO[bytes], values: npt.NDArray[Any]) -> None:
    # An error of `tofile` would not say that the disk is full.
    file.write(values.data)


def _map(path: Path) -> Ints:
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.empty(0, np.int64)
