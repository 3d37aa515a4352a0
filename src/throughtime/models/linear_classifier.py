"""A linear softmax classifier, P = softmax(W x + b), fitted by L-BFGS with a penalty chosen by held-out rows.

Features are rows of numbers, dense or sparse. What is minimised is -sum ln P + penalty / 2 |W|^2, as in
scikit-learn's `LogisticRegression(C=1 / penalty)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops

ITERATIONS = 30
"""Maximum number of iterations for one penalty, from the weights of the one before."""
LAST = 60
"""Maximum number of those on all rows."""
FEW_ROWS = 2_000
"""Number of rows below which the penalty is chosen by cross-validation; else on one part of them."""
FOLDS = 5
OPERATIONS = 1e10
"""Products of numbers that a fit may take: some ten seconds of one core."""
PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class SparseRows:
    """A matrix [N, width] with few numbers in each row: row n has `values[starts[n]:starts[n + 1]]`.

    >>> rows = SparseRows.of([([0, 2], [1.0, 2.0]), ([], []), ([1], [3.0])], width=3)
    >>> rows.times(torch.eye(3)).tolist()
    [[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]
    >>> rows.transpose().times(torch.eye(3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [2.0, 0.0, 0.0]]
    >>> rows.take(torch.tensor([2, 0])).times(torch.eye(3)).tolist()
    [[0.0, 3.0, 0.0], [1.0, 0.0, 2.0]]
    """

    columns: Tensor
    values: Tensor
    starts: Tensor
    width: int

    @classmethod
    def of(cls, rows: Iterable[tuple[ArrayLike, ArrayLike]], width: int) -> SparseRows:
        """Join rows, each the numbers of its columns and the values there."""
        pairs: list[tuple[ArrayLike, ArrayLike]] = [([], []), *rows]
        columns, values = (
            np.concatenate([np.asarray(one) for one in side]) for side in zip(*pairs, strict=True)
        )
        starts = np.cumsum([np.size(one) for one, _ in pairs], dtype=np.int32)
        numbers = torch.from_numpy(columns.astype(np.int32))
        return cls(numbers, torch.from_numpy(values.astype(np.float32)), torch.from_numpy(starts), width)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    def times(self, matrix: Tensor) -> Tensor:
        """The product with a matrix [width, C]: [N, C]."""
        return functional.embedding_bag(
            self.columns, matrix, self.starts[:-1], mode="sum", per_sample_weights=self.values
        )

    def transpose(self) -> SparseRows:
        """The matrix [width, N]."""
        order = torch.argsort(self.columns, stable=True)
        rows = torch.repeat_interleave(torch.arange(len(self), dtype=torch.int32), self.starts.diff())
        counts = torch.bincount(self.columns, minlength=self.width)
        starts = functional.pad(counts.cumsum(0), (1, 0)).int()
        return SparseRows(rows[order], self.values[order], starts, len(self))

    def take(self, rows: Tensor) -> SparseRows:
        """The matrix of some rows."""
        counts = self.starts.diff()[rows]
        starts = functional.pad(counts.cumsum(0), (1, 0)).int()
        shift = torch.repeat_interleave(self.starts[rows].int() - starts[:-1], counts)
        places = torch.arange(int(starts[-1])) + shift
        return SparseRows(self.columns[places], self.values[places], starts, self.width)


Rows = SparseRows | Tensor


class LinearMap(NamedTuple):
    """The weights of a linear classifier, and the penalty with which they were fitted."""

    weight: Tensor  # [width, classes]
    bias: Tensor  # [classes]
    penalty: float

    def log_probs(self, rows: Rows) -> Tensor:
        """ln P of every class, [N, classes]."""
        return torch.log_softmax(_times(rows, self.weight) + self.bias, 1)


class Partner(nn.Module):
    """P = softmax(W f + b) over features f of a sequence; its answers are mixed with those of a network."""

    name: ClassVar[str]
    """The name of its graph, and of what it reads."""
    title: ClassVar[str]
    splits: ClassVar[tuple[str, ...]] = ("train",)
    """The splits to which it is fitted; a mixture is chosen by what it learns from the first alone."""
    min_gain: ClassVar[float] = 0.0
    """Nats by which a mixture must be better than its answers alone."""
    constants: ClassVar[tuple[str, ...]] = ("mixture",)
    """Buffers that its graph gives too."""
    weight: Tensor
    bias: Tensor
    mixture: Tensor

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(width, labels))
        self.register_buffer("bias", torch.zeros(labels))
        self.register_buffer("mixture", torch.tensor([1.0, 0.0]))

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, tuple[str, list[str | int]]]:
        """The types and shapes of what it reads."""

    @abstractmethod
    def learn(self, sequences: Sequence[Any], labels: Sequence[int], seed: int, effort: float) -> None:
        """Fit the weights to sequences; `effort` is a share of the usual products."""

    @abstractmethod
    def score(self, *given: Tensor) -> Tensor:
        """W f for its inputs, [B, labels]."""

    @abstractmethod
    def graph(self, ops: Ops, *given: str) -> str:
        """`score` in a graph."""

    @abstractmethod
    def draw(self, size: int, batch: int, draws: torch.Generator) -> list[Tensor]:
        """Draw inputs, for tests of its graph."""

    def log_probs(self, *given: Tensor) -> Tensor:
        """ln P of every label, [B, labels]."""
        return torch.log_softmax(self.score(*given) + self.bias, -1)


def fit_chosen(
    rows: Rows,
    labels: Tensor,
    classes: int,
    *,
    penalties: Sequence[float] = PENALTIES,
    seed: int = 0,
    operations: float = OPERATIONS,
) -> LinearMap:
    """Fit with the penalty of the lowest held-out loss, the highest among equal ones, on all rows.

    `penalties` fall. If there are too many rows for `operations`, the penalty is chosen on a part of them.

    >>> draws = torch.Generator().manual_seed(0)
    >>> labels = torch.arange(60) % 2
    >>> rows = torch.randn(60, 5, generator=draws) + 3 * labels[:, None]
    >>> found = fit_chosen(rows, labels, 2)
    >>> found.log_probs(rows).argmax(1).eq(labels).float().mean().item()
    1.0
    """
    start = _choose(rows, labels, classes, penalties, seed, operations)
    iterations = max(5, min(LAST, int(operations / _cost(rows, classes))))
    return _fit_path(rows, labels, classes, [start.penalty], iterations, start)[-1]


def _choose(
    rows: Rows, labels: Tensor, classes: int, penalties: Sequence[float], seed: int, operations: float
) -> LinearMap:
    """The penalty whose held-out loss is the lowest, with weights that were fitted to a part of the rows."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    affordable = operations / (_cost(rows, classes) * len(penalties) * ITERATIONS)
    folds = FOLDS if len(labels) <= FEW_ROWS and affordable >= FOLDS else 1
    order = order[: max(min(len(order), FEW_ROWS), int(len(order) * min(1.0, affordable)))]
    parts, nats = order.chunk(FOLDS), torch.zeros(len(penalties), dtype=torch.float64)
    path: list[LinearMap] = []
    for number in range(min(folds, len(parts))):
        held_out = parts[number]
        kept = torch.cat([part for part in parts if part is not held_out] or [held_out])
        path = _fit_path(_take(rows, kept), labels[kept], classes, penalties, ITERATIONS)
        tested = _take(rows, held_out)
        for place, fitted in enumerate(path):
            nats[place] += functional.nll_loss(fitted.log_probs(tested), labels[held_out], reduction="sum")
    return path[int(nats.argmin())]


def _fit_path(
    rows: Rows,
    labels: Tensor,
    classes: int,
    penalties: Sequence[float],
    iterations: int,
    start: LinearMap | None = None,
) -> list[LinearMap]:
    """Fit for each penalty, from the weights of the one before."""
    width = rows.width if isinstance(rows, SparseRows) else rows.shape[1]
    if start is None:
        frequencies = torch.bincount(labels, minlength=classes).float()
        start = LinearMap(torch.zeros(width, classes), (frequencies + 0.1).log(), 0.0)
    weights = torch.cat([start.weight, start.bias[None]])
    transposed = rows.transpose() if isinstance(rows, SparseRows) else rows.T
    found: list[LinearMap] = []
    for penalty in penalties:
        _minimise(weights, rows, transposed, labels, penalty, iterations)
        found.append(LinearMap(weights[:-1].clone(), weights[-1].clone(), penalty))
    return found


@torch.no_grad()
def _minimise(
    weights: Tensor,
    rows: Rows,
    transposed: Rows,
    labels: Tensor,
    penalty: float,
    iterations: int,
) -> None:
    """Lower the penalised loss, in place; the last row of the weights is the bias, which has no penalty."""
    weights.grad = torch.zeros_like(weights)
    count = len(labels)

    def measure() -> Tensor:
        weight, gradient = weights[:-1], weights.grad
        assert gradient is not None
        log_probs = torch.log_softmax(_times(rows, weight) + weights[-1], 1)
        errors = log_probs.exp()
        errors[torch.arange(count), labels] -= 1
        gradient[:-1] = _times(transposed, errors).add_(weight, alpha=penalty).div_(count)
        gradient[-1] = errors.sum(0) / count
        return functional.nll_loss(log_probs, labels) + penalty / (2 * count) * weight.square().sum()

    torch.optim.LBFGS(
        [weights], max_iter=iterations, tolerance_change=1e-7, history_size=8, line_search_fn="strong_wolfe"
    ).step(measure)
    weights.grad = None


def _times(rows: Rows, matrix: Tensor) -> Tensor:
    return rows.times(matrix) if isinstance(rows, SparseRows) else rows @ matrix


def _take(rows: Rows, some: Tensor) -> Rows:
    return rows.take(some) if isinstance(rows, SparseRows) else rows[some]


def _cost(rows: Rows, classes: int) -> float:
    """Products of numbers in one iteration."""
    size = len(rows.values) if isinstance(rows, SparseRows) else rows.numel()
    return max(1.0, 2.0 * size * classes)
