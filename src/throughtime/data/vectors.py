"""Sequences of vectors: frames of sensors, video or audio, with one label or a label for each step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from throughtime.errors import InputError

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Values = NDArray[float64]


class VectorSequence(NamedTuple):
    """The vectors of a sequence, [steps, features], and its labels: one, one for each step, or none.

    `key` is the same for the same vectors. A number that is missing is NaN.
    """

    key: str
    name: str
    values: Values
    labels: tuple[str, ...]
    features: tuple[str, ...]

    @classmethod
    def of(
        cls, values: Any, labels: Sequence[str] = (), name: str = "", features: Sequence[str] = ()
    ) -> VectorSequence:
        """Check the vectors of a sequence; raise a ValueError that says what is wrong with them.

        >>> VectorSequence.of([[1, 2], [3, 4]], ["up"]).features
        ('x1', 'x2')
        """
        import numpy as np

        try:
            array = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("holds something that is not a number, or rows of different lengths") from None
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or not array.size:
            raise ValueError(f"has the shape {[*array.shape]}, expected [steps, features], at least 1 each")
        if np.isinf(array).any():
            raise ValueError("holds an infinite number; write NaN where a number is missing")
        if len(labels) not in (0, 1, len(array)):
            raise ValueError(f"has {len(labels)} labels for {len(array)} steps; give one, or one for each")
        names = tuple(features) or tuple(f"x{number}" for number in range(1, array.shape[1] + 1))
        key = hashlib.sha256(repr(array.shape).encode() + array.tobytes()).hexdigest()[:16]
        return cls(key, name, array, tuple(labels), names)

    @property
    def label(self) -> str:
        """The one label of the sequence, empty if it has none."""
        if len(names := sorted(set(self.labels))) > 1:
            problem = f"has the labels {names[0]!r} and {names[1]!r}; `train tag` learns one for each step"
            raise InputError(f"sequence {self.name}", problem)
        return self.labels[0] if self.labels else ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The label of each step."""
        if len(self.labels) != len(self.values):
            problem = (
                f"has {len(self.labels)} labels for {len(self.values)} steps; `train classify` learns one"
            )
            raise InputError(f"sequence {self.name}", f"{problem} for all")
        return self.labels

    @property
    def words(self) -> Values:
        """The vectors, as a tagger reads them in place of words."""
        return self.values


def divide_arrays(arrays: Mapping[str, Any], where: str) -> list[VectorSequence]:
    """Return the sequences of arrays X and y, as files of the format .npz hold them.

    X is [sequences, steps, features], or [sequences, steps] of single numbers. With `lengths`, X has the
    steps of all sequences, one after another: [steps, features] or [steps]. y has a label for each sequence,
    or one for each step in the same order.

    >>> given = {"X": [1, 2, 3], "lengths": [2, 1], "y": ["up", "down"]}
    >>> [(one.values.ravel().tolist(), one.label) for one in divide_arrays(given, "data")]
    [([1.0, 2.0], 'up'), ([3.0], 'down')]
    """
    import numpy as np

    if strange := set(arrays) - {"X", "y", "lengths"} or {"X"} - set(arrays):
        problem = f"has the arrays {', '.join(arrays)}; expected X, y and perhaps lengths"
        raise InputError(where, f"{problem}, not {min(strange)!r}")
    vectors = np.asarray(arrays["X"])
    y, lengths = (None if arrays.get(name) is None else np.asarray(arrays[name]) for name in ("y", "lengths"))
    shape = f"has an X of the type {vectors.dtype} and the shape {list(vectors.shape)}"
    if vectors.dtype.kind not in "biuf" or not vectors.size:
        raise InputError(where, f"{shape}, expected numbers")
    if lengths is None:
        if vectors.ndim not in (2, 3):
            raise InputError(where, f"{shape}, expected [sequences, steps, features]")
        sizes = np.full(len(vectors), vectors.shape[1])
        vectors = vectors.reshape(-1, vectors.shape[2] if vectors.ndim == 3 else 1)
    else:
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.min(initial=1) < 1:
            raise InputError(where, "has lengths that are not whole numbers from 1")
        if lengths.sum() != len(vectors):
            raise InputError(where, f"has lengths of {lengths.sum():,} steps together, but {shape[4:]}")
        sizes = lengths
    ends = np.cumsum(sizes)
    labels = [] if y is None else [str(label) for label in y.ravel().tolist()]
    if labels and len(labels) not in (len(sizes), len(vectors)):
        problem = f"has {len(labels):,} labels in y, expected {len(sizes):,} (one for each sequence)"
        raise InputError(where, f"{problem} or {len(vectors):,} (one for each step)")
    each = len(labels) == len(sizes)
    sequences = []
    for number, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
        names = labels[number : number + 1] if each else labels[end - size : end]
        try:
            sequences.append(VectorSequence.of(vectors[end - size : end], names, str(number + 1)))
        except ValueError as fault:
            raise InputError(f"{where}, sequence {number + 1}", str(fault)) from None
    return sequences
