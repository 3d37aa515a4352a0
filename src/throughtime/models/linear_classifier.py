"""A linear softmax classifier, P = softmax(W x + b), fitted by L-BFGS with a penalty chosen by held-out rows.

Features are rows of numbers, dense or sparse. What is minimised is -sum ln P + penalty / 2 |W|^2, as in
scikit-learn's `LogisticRegression(C=1 / penalty)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

ITERATIONS = 30
"""Maximum number of iterations for one penalty, from the weights of the one before."""
LAST = 60
"""Maximum number of those on all rows."""
FEW_ROWS = 2_000
"""Number of rows below which the penalty is chosen by cross-validation; above, on one part of them."""
FOLDS = 5
OPERATIONS = 3e10
"""Products of numbers that a fit may take: about half a minute of one core."""
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
    def of(
        cls,
        rows: Sequence[tuple[Sequence[int] | NDArray[np.int64], Sequence[float] | NDArray[np.float32]]],
        width: int,
    ) -> SparseRows:
        """Join rows, each the numbers of its columns and the values there."""
        columns = [np.asarray(one, dtype=np.int32) for one, _ in rows]
        values = [np.asarray(one, dtype=np.float32) for _, one in rows]
        starts = np.cumsum([0, *map(len, columns)], dtype=np.int32)
        none = np.zeros(0)
        return cls(
            torch.from_numpy(np.concatenate([none.astype(np.int32), *columns])),
            torch.from_numpy(np.concatenate([none.astype(np.float32), *values])),
            torch.from_numpy(starts),
            width,
        )

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


class LinearMap(NamedTuple):
    """The weights of a linear classifier, and the penalty with which they were fitted."""

    weight: Tensor  # [width, classes]
    bias: Tensor  # [classes]
    penalty: float

    def log_probs(self, rows: SparseRows | Tensor) -> Tensor:
        """ln P of every class, [N, classes]."""
        return torch.log_softmax(_times(rows, self.weight) + self.bias, 1)


def fit_chosen(
    rows: SparseRows | Tensor,
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
    rows: SparseRows | Tensor,
    labels: Tensor,
    classes: int,
    penalties: Sequence[float],
    seed: int,
    operations: float,
) -> LinearMap:
    """The penalty whose held-out loss is the lowest, with weights that were fitted to a part of the rows."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    folds = FOLDS if len(labels) <= FEW_ROWS else 1
    affordable = operations / (_cost(rows, classes) * folds * len(penalties) * ITERATIONS)
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
    rows: SparseRows | Tensor,
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
    rows: SparseRows | Tensor,
    transposed: SparseRows | Tensor,
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

    search = torch.optim.LBFGS(
        [weights],
        max_iter=iterations,
        history_size=8,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-7,
        tolerance_change=1e-7,
    )
    search.step(measure)
    weights.grad = None


def _times(rows: SparseRows | Tensor, matrix: Tensor) -> Tensor:
    return rows.times(matrix) if isinstance(rows, SparseRows) else rows @ matrix


def _take(rows: SparseRows | Tensor, some: Tensor) -> SparseRows | Tensor:
    return rows.take(some) if isinstance(rows, SparseRows) else rows[some]


def _cost(rows: SparseRows | Tensor, classes: int) -> float:
    """Products of numbers in one iteration."""
    size = len(rows.values) if isinstance(rows, SparseRows) else rows.numel()
    return max(1.0, 2.0 * size * classes)
