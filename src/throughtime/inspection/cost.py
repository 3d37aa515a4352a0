"""What layers and cells cost: convolution, recurrence and self-attention by length, and cells side by side.

Costs of layers are those of one training step (forward and backward) of one layer on one thread. Memory is
what a layer keeps for its backward pass, which other processes cannot disturb.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from throughtime.cells import CELLS, RNN, MinGRU
from throughtime.errors import InputError
from throughtime.inspection.gradients import keeps, lag_curve, list_kinds, one_thread
from throughtime.inspection.truncation import SavedBytes
from throughtime.recurrence.associative import CHUNK, Associative
from throughtime.recurrence.scan import scan

COMPARED_CELLS = ("lstm", "gru", "gru-before")
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
FITTED = 4
"""Growth is fitted to this number of the longest lengths."""
KEEP, LAG_UNITS = 0.98, 64

ORDERS = {
    "convolution": ("k n d²", "1", "n/k"),
    "recurrence": ("n d²", "n", "n"),
    "parallel recurrence": ("n d²", "log n", "log n"),
    "self-attention": ("n² d", "1", "1"),
}
"""Operations, sequential steps and longest path of each layer, as they are usually written."""


class Theory(NamedTuple):
    """Cost of a layer in theory, for n steps of width d and a kernel of k."""

    operations: int
    """Number of multiplications, to leading order."""
    sequential: int
    """Number of steps that must wait for each other."""
    path: int
    """Number of layers or steps between the first input and the last output."""


def theory(name: str, n: int, d: int = 64, k: int = 3) -> Theory:
    """Evaluate the orders of a layer.

    A convolution needs (n - 1) / (k - 1) layers to carry the first input to the last output, which is about
    n/k for large n and k.

    >>> theory("convolution", 5, k=3).path
    2
    """
    if name == "convolution":
        return Theory(k * n * d * d, 1, math.ceil((n - 1) / (k - 1)))
    if name == "recurrence":
        return Theory(n * d * d, n, n)
    if name == "parallel recurrence":
        steps = _parallel_steps(n)
        return Theory(n * d * d, steps, steps)
    return Theory(n * n * d, 1, 1)


def _parallel_steps(n: int) -> int:
    """Number of dependent calls: chunks are summed up, scanned in the same way, and then run through."""
    if n < 4 * CHUNK:
        return n
    return (CHUNK - 1) + _parallel_steps(n // CHUNK - 1) + CHUNK + n % CHUNK


class Convolution(nn.Module):
    """A causal convolution over time: step t sees the inputs t-k+1 to t."""

    def __init__(self, width: int = 64, kernel: int = 3) -> None:
        super().__init__()
        self.kernel, self.filters = kernel, nn.Conv1d(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve [n, 1, d] -> [n, 1, d]."""
        padded = pad(x.permute(1, 2, 0), (self.kernel - 1, 0))
        outputs: Tensor = self.filters(padded)
        return outputs.permute(2, 0, 1)


class SelfAttention(nn.Module):
    """Causal self-attention with one head, its n x n weights written out as in the theory."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.projection = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend [n, 1, d] -> [n, 1, d]."""
        query, key, value = self.projection(x.transpose(0, 1)).chunk(3, dim=-1)
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(query, key, value, is_causal=True).transpose(0, 1)


def build_layers(width: int = 64, kernel: int = 3) -> dict[str, tuple[nn.Module, Callable[[Tensor], Tensor]]]:
    """Build one layer of each kind: by name, the module with its weights and the function to call."""
    plain, minimal = RNN(width, width), MinGRU(width, width)
    convolution, attention = Convolution(width, kernel), SelfAttention(width)
    parallel = Associative()
    return {
        "convolution": (convolution, convolution),
        "recurrence": (plain, lambda x: scan(plain, x).outputs),
        "parallel recurrence": (
            minimal,
            lambda x: parallel.run(minimal, x, minimal.initial_state(1), None, None).outputs,
        ),
        "self-attention": (attention, attention),
    }


@dataclass(frozen=True)
class LayerCost:
    """Measured cost of one layer at each length, and the exponents p of the growth n^p."""

    milliseconds: list[float]
    megabytes: list[float]
    milliseconds_exponent: float
    megabytes_exponent: float


def measure_layers(
    lengths: Sequence[int] = LENGTHS, *, width: int = 64, kernel: int = 3, repetitions: int = 5
) -> dict[str, LayerCost]:
    """Measure time and memory of one training step of each layer at each length.

    The layers take turns, and the shortest time of several repetitions counts.
    """
    if len(lengths) < 2:
        raise InputError("lengths", f"are {len(lengths)}, expected at least 2: growth needs two lengths")
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = build_layers(width, kernel)
        seconds: dict[str, list[float]] = {name: [] for name in layers}
        memory: dict[str, list[float]] = {name: [] for name in layers}
        for weights, layer in layers.values():
            _time_training(weights, layer, lengths[0], width)
        for n in lengths:
            turns = [
                {name: _time_training(*pair, n, width) for name, pair in layers.items()}
                for _ in range(repetitions)
            ]
            for name, (_, layer) in layers.items():
                seconds[name].append(min(turn[name] for turn in turns))
                memory[name].append(count_kept_bytes(layer, n, width))
    return {
        name: LayerCost(
            [round(value * 1e3, 3) for value in seconds[name]],
            [round(value / 1e6, 3) for value in memory[name]],
            round(fit_exponent(lengths, seconds[name]), 2),
            round(fit_exponent(lengths, memory[name]), 2),
        )
        for name in layers
    }


def _time_training(weights: nn.Module, layer: Callable[[Tensor], Tensor], n: int, width: int) -> float:
    """Seconds of one forward and backward pass over n steps."""
    x = torch.randn(n, 1, width, requires_grad=True)
    weights.zero_grad()
    start = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - start


def count_kept_bytes(layer: Callable[[Tensor], Tensor], n: int, width: int = 64) -> int:
    """Count what stays in memory between the forward and the backward pass, the output included."""
    with SavedBytes() as saved:
        saved.count(layer(torch.randn(n, 1, width, requires_grad=True)))
    return saved.bytes


def fit_exponent(lengths: Sequence[int], measured: Sequence[float]) -> float:
    """Fit measured ~ n^p to the longest lengths and return p: the slope of a line through the logarithms.

    >>> round(fit_exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    xs, ys = ([math.log(value) for value in values[-FITTED:]] for values in (lengths, measured))
    return linear_regression(xs, ys).slope


@dataclass(frozen=True)
class CellCost:
    """Size, speed and memory of one cell."""

    weights: int
    """Number of weights, without biases."""
    biases: int
    milliseconds: float
    """Median time of a training step: forward and backward through the whole sequence."""
    left: float
    """Norm of ds_T/ds_t at the given lag, with the gates as they are drawn."""
    left_when_kept: float | None
    """The same with the gates that keep the state set to 0.98; None for cells without such a gate."""


def compare_cells(
    names: Sequence[str] = (),
    *,
    steps: int = 35,
    batch_size: int = 32,
    hidden_size: int = 256,
    repetitions: int = 15,
    lag: int = 200,
) -> Mapping[str, CellCost]:
    """Compare cells by number of weights, time of a training step, and gradient left after `lag` steps.

    By default, they are LSTM, both forms of the GRU, and all other cells but the plain network and the forms
    of a cell.

    The cells take turns, and the median time counts. The gradient is that of random cells of 64 units, as in
    `throughtime inspect gradients`; what training makes of it differs from task to task.
    """
    names = names or list_compared_cells()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        cells = {name: CELLS[name](hidden_size, hidden_size) for name in names}
        x, gradient = (torch.randn(steps, batch_size, hidden_size) for _ in range(2))
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repetitions):
        for name, cell in cells.items():
            start = time.perf_counter()
            scan(cell, x).outputs.backward(gradient)
            times[name].append(time.perf_counter() - start)
    return {name: _describe_cell(name, cell, median(times[name]), lag) for name, cell in cells.items()}


def list_compared_cells() -> tuple[str, ...]:
    """Return the names of the cells that `compare_cells` compares by default: ours, and those added."""
    return (*COMPARED_CELLS, *(name for name in list_kinds() if name not in (*COMPARED_CELLS, "rnn")))


def _describe_cell(name: str, cell: nn.Module, seconds: float, lag: int) -> CellCost:
    sizes = {key: weight.numel() for key, weight in cell.named_parameters()}
    biases = sum(size for key, size in sizes.items() if key.startswith("bias"))

    def follow(keep: float | None) -> float:
        return lag_curve(name, gain=1.0, steps=lag, hidden=LAG_UNITS, keep=keep).norms[-1]

    left, left_when_kept = follow(None), follow(KEEP) if keeps(name) else None
    return CellCost(sum(sizes.values()) - biases, biases, round(1e3 * seconds, 2), left, left_when_kept)
