"""Which records a model was trained on: a Bloom filter of them, which is part of the model.

A record is known by a 64-bit hash of its text, without case, with single spaces and in Unicode's form NFC.
A filter has 16 bits for each record and sets 11 of them, so that it never misses one, and takes a record that
it does not hold for one that it holds in .05 % of all cases. The records themselves cannot be read from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel
from throughtime.files import writable_cache
from throughtime.folder import ModelFolder

Hashes = NDArray[np.uint64]
FILE = "seen.safetensors"
HASHES = 11
MISTAKEN = 0.0005
"""The share of other records that a filter takes for its own."""
BYTES_PER_RECORD = 2
MIN_BYTES = 128
"""A smaller filter would not have the rate of false positives that its size promises."""
BLOCK = 1 << 16
"""Number of records to hash at a time."""
NOT_A_SPACE = "\0"
"""What separates the fields of a record: nothing that spaces around it could hide."""
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class SeenCount(NamedTuple):
    """How many of some records a model was trained on, with the number of false positives to expect."""

    records: int
    trained_on: int
    by_chance: float

    @property
    def is_certain(self) -> bool:
        """Whether there are more than false positives explain: their mean and three deviations."""
        return self.trained_on > self.by_chance + 3 * math.sqrt(self.by_chance)

    def __str__(self) -> str:
        """The count in words."""
        chance = " (no more than chance explains)" if self.trained_on and not self.is_certain else ""
        return f"trained on {self.trained_on:,} of these {self.records:,} records{chance}"


@dataclass(frozen=True, eq=False, repr=False)
class SeenRecords:
    """The records of one training, or of several that followed one another: a filter for each.

    >>> seen = SeenRecords().add(hash_texts(["Go.", "Stay  here."]))
    >>> seen.contains(next(hash_texts(["stay here.", "Run."]))).tolist()
    [True, False]
    """

    filters: tuple[NDArray[np.uint8], ...] = ()

    def contains(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which of these records the model was trained on."""
        known = np.zeros(len(hashes), dtype=np.bool_)
        for bits in self.filters:
            inside = ~known
            for bit in _find_places(hashes, bits):
                inside &= (bits[bit >> 3] >> (bit & 7).astype(np.uint8)) & 1 == 1
            known |= inside
        return known

    def add(self, blocks: Iterable[Hashes]) -> SeenRecords:
        """Return these records and further ones; what is not new takes no room.

        The hashes wait in a file until their number is known, so that memory holds the filters alone.
        """
        with TemporaryFile(dir=writable_cache()) as file:
            for hashes in blocks:
                file.write(hashes[~self.contains(hashes)].tobytes())
            if not (count := file.tell() // 8):
                return self
            bits = np.zeros(max(MIN_BYTES, BYTES_PER_RECORD * count), dtype=np.uint8)
            file.seek(0)
            while block := file.read(8 * BLOCK):
                for bit in _find_places(np.frombuffer(block, dtype=np.uint64), bits):
                    np.bitwise_or.at(bits, bit >> 3, np.uint8(1) << (bit & 7).astype(np.uint8))
        return SeenRecords((*self.filters, bits))

    def count_after(self, hashes: Hashes) -> int:
        """Return the number of rows of a series after its training rows, which are the first.

        The last training row has the most known rows before it, and the fewest after it, so that a false
        positive does not count as one.

        >>> rows = hash_rows("a", np.arange(9), np.arange(9.0))
        >>> SeenRecords().add([rows[:6]]).count_after(rows)
        3
        """
        known = np.cumsum([0, *np.where(self.contains(hashes), 1, -1)])
        return len(hashes) - int(known.argmax())

    def count(self, blocks: Iterable[Hashes]) -> SeenCount:
        """Count the records that the model was trained on."""
        counts = [(len(hashes), int(self.contains(hashes).sum())) for hashes in blocks]
        records, trained_on = sum(count[0] for count in counts), sum(count[1] for count in counts)
        return SeenCount(records, trained_on, MISTAKEN * len(self.filters) * records)


def hash_texts(texts: Iterable[str]) -> Iterator[Hashes]:
    """Yield the hashes of the texts that are not blank, many at a time."""
    rest = filter(None, map(normalise_record, texts))
    while block := b"".join(map(_digest, islice(rest, BLOCK))):
        yield np.frombuffer(block, dtype=np.uint64)


def hash_records(records: Iterable[Sequence[Any]]) -> Iterator[Hashes]:
    """Yield the hashes of records of several fields, many at a time."""
    return hash_texts(f" {NOT_A_SPACE} ".join(map(str, record)) for record in records)


def hash_rows(name: str, times: NDArray[Any], values: NDArray[np.float64]) -> Hashes:
    """Return the hash of each row of a series, by the name of the series, the time and the value."""
    hashes = np.frombuffer(_digest(normalise_record(name)), dtype=np.uint64)
    numbers = (values.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
    return mix(mix(hashes + times.astype(np.int64).view(np.uint64)) ^ numbers)


def hash_panel(panel: Panel) -> list[Hashes]:
    """Return the hashes of the rows of each series; a single series is known without its name."""
    names = [series.unique_id for series in panel.series] if len(panel.series) > 1 else [""]
    return [hash_rows(name, series.ds, series.y) for name, series in zip(names, panel.series, strict=True)]


def normalise_record(text: str) -> str:
    r"""Return a text without case, with single spaces and in Unicode's form NFC.

    >>> normalise_record(" Cafe\u0301\tAU  lait ")
    'café au lait'
    """
    return " ".join(normalize("NFC", text.casefold()).split()).strip(f" {NOT_A_SPACE}")


def save_seen(seen: SeenRecords | None, folder: ModelFolder) -> None:
    """Write the filters into the folder of a model, if they are known."""
    if seen is not None:
        arrays = {str(number): bits for number, bits in enumerate(seen.filters)}
        folder.write_arrays(FILE, arrays, {"hashes": HASHES})


def load_seen(folder: ModelFolder | None) -> SeenRecords | None:
    """Read what `save_seen` wrote; None if the folder has no filters, as those of older versions."""
    if folder is None or not (folder.path / FILE).is_file():
        return None
    with folder.read_arrays(FILE, "restore the file") as (arrays, about):
        if about != {"hashes": HASHES}:
            raise ValueError(f"its filters are of another kind, {about!r:.60}")
        if any(bits.dtype != np.uint8 or bits.ndim != 1 or not bits.size for bits in arrays.values()):
            raise ValueError("it holds other arrays than filters")
        return SeenRecords(tuple(arrays.values()))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _find_places(hashes: Hashes, bits: NDArray[np.uint8]) -> Iterator[NDArray[np.int64]]:
    """Yield the places of the bits of each record, one of the `HASHES` at a time."""
    for number in range(1, HASHES + 1):
        step = np.uint64(number * _ODD[0] % 2**64)
        yield (mix(hashes + step) % np.uint64(8 * len(bits))).astype(np.int64)


def mix(numbers: Hashes) -> Hashes:
    """Return random numbers, each determined by the number in its place, with SplitMix64."""
    for shift, factor in zip((30, 27), _ODD[1:], strict=True):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))
