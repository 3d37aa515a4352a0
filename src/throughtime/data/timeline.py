"""Parts of a series along time: to train on, to validate with, to test on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from throughtime.errors import InputError

Size = int | float
"""A number of rows, or, as a fraction below 1, a share of all rows."""


class Timeline(NamedTuple):
    """The sizes of the parts. Without `train` the others are the last rows, and what is before them trains.

    With `train` the parts follow each other from the first row on, and what is left over is not used: the
    usual split of ETTh1 is `Timeline(8640, 2880, 2880)`.

    >>> Timeline(None, 0.1, 0.2).parts(1000)
    {'train': range(0, 700), 'valid': range(700, 800), 'test': range(800, 1000)}
    >>> Timeline(8640, 2880, 2880).parts(17420)["test"]
    range(11520, 14400)
    """

    train: Size | None
    valid: Size
    test: Size

    def parts(self, rows: int) -> dict[str, range]:
        """The rows of each part of a series of so many rows."""
        valid, test = _rows(self.valid, rows), _rows(self.test, rows)
        train = rows - valid - test if self.train is None else _rows(self.train, rows)
        if train <= 0 or train + valid + test > rows:
            wanted = f"{max(0, train):,} to train, {valid:,} to validate and {test:,} to test"
            raise InputError(
                "train_size, valid_size and test_size", f"leave {wanted} of {rows:,} rows; lower some"
            )
        edges = {"train": (0, train), "valid": (train, train + valid)}
        edges["test"] = (train + valid, train + valid + test)
        return {name: range(*edge) for name, edge in edges.items()}

    def part(self, split: str, rows: int) -> range:
        """One part, or `heldout` (valid and test), or `all` that is used."""
        parts = self.parts(rows)
        if split == "heldout":
            return range(parts["valid"].start, parts["test"].stop)
        if split == "all":
            return range(parts["test"].stop)
        if split not in parts:
            raise InputError("--split", f"is {split!r}; known are train, valid, test, heldout and all")
        return parts[split]

    def part_of_each(self, split: str, lengths: Sequence[int]) -> list[range]:
        """A part of each of several series; where the longest can be cut, those too short to be only train.

        >>> Timeline(None, 5, 5).part_of_each("valid", [30, 8])
        [range(20, 25), range(0, 0)]
        """
        longest = max(lengths)
        return [
            self.part(split, rows)
            if rows == longest or self.cuts(rows)
            else range(rows if split == "train" else 0)
            for rows in lengths
        ]

    def cuts(self, rows: int) -> bool:
        """Whether a series of so many rows is long enough to be cut."""
        try:
            return bool(self.parts(rows))
        except InputError:
            return False


def _rows(size: Size, rows: int) -> int:
    return size if isinstance(size, int) else round(size * rows)
