"""Sequences of vectors as networks read them: scaled, without gaps, several steps of a long one as one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.files import read_json
from throughtime.runtime.checks import Size, check_values
from throughtime.text.codec import Codec
from throughtime.text.texts import format_count

FILE = "vectors.json"
MAX_STEPS = 256
"""Steps of most training sequences as a classifier reads them: of longer ones it reads several as one."""
MAX_FRAMES = 4_096
"""Steps of any sequence as a classifier reads them: neighbours of a longer one are averaged."""
LARGEST = 10.0
"""The largest scaled number: one outlier must not outweigh all else."""
Frames = NDArray[np.float32]


class VectorSettings(TypedDict):
    """What `vectors.json` holds."""

    features: list[str]
    mean: list[float]
    scale: list[float]
    stride: Size
    steps: Size


class VectorCodec:
    """Turns a sequence of vectors [steps, features] into the frames that a network reads.

    Each feature is scaled by its mean and deviation in the training data; gaps (NaN) are interpolated. A
    frame holds `stride` steps, the last of which are repeated where the sequence ends.

    >>> codec = VectorCodec({"features": ["x"], "mean": [1.0], "scale": [2.0], "stride": 2, "steps": 3})
    >>> codec.encode([[1.0], [float("nan")], [5.0]]).tolist()
    [[0.0, 1.0], [2.0, 2.0]]
    """

    notes: tuple[str, ...] = ()

    def __init__(self, settings: VectorSettings) -> None:
        self.settings, self.features = settings, settings["features"]
        self.stride, self.steps = settings["stride"], settings["steps"]
        self.size = len(self.features) * self.stride

    @classmethod
    def of(cls, sequences: Sequence[Any], features: Iterable[str], *, whole: bool = True) -> VectorCodec:
        """Measure the training sequences; where they are read as a `whole`, long ones in longer strides."""
        steps = np.concatenate(sequences)
        count = np.maximum((~np.isnan(steps)).sum(0), 1)
        mean = np.nansum(steps, 0) / count
        scale = np.sqrt(np.nansum((steps - mean) ** 2, 0) / count)
        usual = int(np.quantile([len(sequence) for sequence in sequences], 0.9))
        stride = -(-usual // MAX_STEPS) if whole else 1
        means, scales = mean.tolist(), np.where(scale > 1e-12 * np.abs(mean), scale, 1.0).tolist()
        names = [*features]
        return cls({"features": names, "mean": means, "scale": scales, "stride": stride, "steps": usual})

    def encode(self, sequence: Any) -> Frames:
        """Return the frames of a sequence, [frames, features * stride]."""
        scaled = self.scale(sequence)
        while len(scaled) > MAX_FRAMES * self.stride:
            even = np.concatenate([scaled, scaled[len(scaled) - len(scaled) % 2 :]])
            scaled = even.reshape(-1, 2, len(self.features)).mean(1)
        rest = scaled[-1:].repeat(-len(scaled) % self.stride, 0)
        frames: Frames = np.concatenate([scaled, rest]).reshape(-1, self.size)
        return frames

    def scale(self, sequence: Any) -> Frames:
        """Return the vectors of a sequence, scaled and without gaps, [steps, features]."""
        mean, deviation = np.array(self.settings["mean"]), np.array(self.settings["scale"])
        scaled = np.clip((self.read(sequence) - mean) / deviation, -LARGEST, LARGEST)
        places = np.arange(len(scaled))
        for column in scaled.T:
            if (known := ~np.isnan(column)).any() and not known.all():
                column[~known] = np.interp(places[~known], places[known], column[known])
        return np.asarray(np.nan_to_num(scaled), dtype=np.float32)

    def read(self, sequence: Any) -> NDArray[np.float64]:
        """Return the vectors of a sequence: an array, lists of numbers, or rows of numbers as text."""
        values = parse_rows(sequence, self.features) if isinstance(sequence, str) else sequence
        try:
            array = np.array(getattr(values, "values", values), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("sequences", "hold something else than rows of numbers of one size") from None
        array = array[:, None] if array.ndim == 1 else array
        width = len(self.features)
        if array.ndim != 2 or not len(array) or array.shape[1] != width or np.isinf(array).any():
            shown = ", ".join(self.features[:8]) + ", ..." * (width > 8)
            problem = f"have one of the shape {[*array.shape]}, expected [steps, {width}] of finite numbers"
            raise InputError("sequences", f"{problem} ({shown})")
        return array

    def list_sequences(self, given: Any) -> list[Any]:
        """Return what was given as a list of sequences; one sequence alone as a list of one."""
        if isinstance(given, str) or hasattr(given, "key"):
            return [given]
        depth = count_axes(given)
        alone = depth < 2 or (depth == 2 and (len(self.features) > 1 or len(given[0]) == 1))
        return [given] if alone and len(given) else list(given)

    @cached_property
    def hash(self) -> str:
        """A digest of everything that decides how a sequence is read."""
        return hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """What is read, in words."""
        strides = f", {self.stride} steps as one" if self.stride > 1 else ""
        return f"vectors of {format_count(len(self.features), 'number')}{strides}"

    def save(self, folder: Path) -> None:
        """Write `vectors.json` into a folder."""
        (folder / FILE).write_text(json.dumps(self.settings), encoding="utf-8")


def count_axes(value: Any) -> int:
    """Count the axes of an array or of nested lists; a text or a record is a whole sequence, of two."""
    if isinstance(value, str) or hasattr(value, "key"):
        return 2
    if isinstance(value, list | tuple):
        return 1 + (count_axes(value[0]) if value else 0)
    return int(getattr(value, "ndim", 0))


def open_codec(folder: Path) -> Codec | VectorCodec:
    """Open the codec of a model, of texts or of vectors."""
    return open_vectors(folder) or Codec.load(folder)


def open_vectors(folder: Path) -> VectorCodec | None:
    """Open the codec of vectors in a folder; None if there is none."""
    if not (folder / FILE).is_file():
        return None
    settings = read_json(folder / FILE, "restore the file")
    check_values(settings, VectorSettings, str(folder / FILE))
    return VectorCodec(settings)


def parse_rows(text: str, features: Sequence[str]) -> list[list[float]]:
    """Read the vectors of a sequence as text: a line, or what ends with a semicolon, for each step.

    >>> parse_rows("x,y\\n1,2\\n3,", ["x", "y"]), parse_rows("1 2; 3 4", ["x", "y"])
    ([[1.0, 2.0], [3.0, nan]], [[1.0, 2.0], [3.0, 4.0]])
    """
    rows: list[list[float]] = []
    for line in re.split(r"[\n;]", text.strip(" \r\n;")):
        cells = [cell.strip() for cell in re.split(r"[,\t]|(?<=[^,\s]) +(?=[^,\s])", line.strip(" \r"))]
        if not rows and cells == [*features]:
            continue
        try:
            rows.append([float(cell or "nan") for cell in cells])
        except ValueError:
            problem = f"have the row {line.strip()[:40]!r}, expected {len(features)} numbers"
            raise InputError("sequences", f"{problem} separated by commas") from None
    return rows
