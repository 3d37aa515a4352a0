"""Convolution, recurrence, parallel recurrence and self-attention against the length of the sequence.

One layer of each, the same width throughout, trained for one step (forward and backward) on one thread. Time
is the best of several interleaved repetitions. Memory is what the layer keeps for its backward pass, each
piece of storage counted once: a figure that no other process can disturb.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from throughtime.cells import RNN, MinGRU
from throughtime.errors import ThroughtimeError
from throughtime.plots.backpropagation import complexity
from throughtime.plots.style import check_format
from throughtime.recurrence import scan
from throughtime.recurrence.associative import CHUNK, Associative

WIDTH, KERNEL = 64, 3
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
FITTED = 4  # the exponents are fitted to this many of the longest


class Theory(NamedTuple):
    """What a layer costs in theory, for n steps of width d and a kernel of k."""

    operations: int  # multiplications, to leading order
    sequential: int  # steps that must wait for each other
    path: int  # layers or steps between the first input and the last output


ORDERS = {
    "convolution": ("k n d²", "1", "n/k"),
    "recurrence": ("n d²", "n", "n"),
    "parallel recurrence": ("n d²", "log n", "log n"),
    "self-attention": ("n² d", "1", "1"),
}
"""Operations, sequential steps and longest path, as they are usually written."""


def theory(name: str, n: int, d: int = WIDTH, k: int = KERNEL) -> Theory:
    """The orders as numbers.

    A convolution needs (n - 1) / (k - 1) layers to bring the first input to the last output, which is n/k for
    large n and k.
    """
    if name == "convolution":
        return Theory(k * n * d * d, 1, math.ceil((n - 1) / (k - 1)))
    if name == "recurrence":
        return Theory(n * d * d, n, n)
    if name == "parallel recurrence":
        steps = parallel_steps(n)
        return Theory(n * d * d, steps, steps)
    return Theory(n * n * d, 1, 1)


def parallel_steps(n: int) -> int:
    """Calls that wait for each other: chunks are summed up, scanned in the same way, and run through."""
    if n < 4 * CHUNK:
        return n
    return (CHUNK - 1) + parallel_steps(n // CHUNK - 1) + CHUNK + n % CHUNK


class Convolution(nn.Module):
    """A causal convolution: step t sees t-k+1 to t."""

    def __init__(self, width: int = WIDTH, kernel: int = KERNEL) -> None:
        super().__init__()
        self.kernel, self.filters = kernel, nn.Conv1d(width, width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 1, d] -> [n, 1, d]"""
        return self.filters(pad(x.permute(1, 2, 0), (self.kernel - 1, 0))).permute(2, 0, 1)


class Attention(nn.Module):
    """Causal self-attention with one head, its n x n weights written out as in the theory."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.projection = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """[n, 1, d] -> [n, 1, d]"""
        query, key, value = self.projection(x.transpose(0, 1)).chunk(3, dim=-1)
        with sdpa_kernel(SDPBackend.MATH):
            return scaled_dot_product_attention(query, key, value, is_causal=True).transpose(0, 1)


def layers(width: int = WIDTH) -> dict[str, tuple[nn.Module, Callable[[Tensor], Tensor]]]:
    """By name: the layer's weights, and the layer."""
    plain, minimal = RNN(width, width), MinGRU(width, width)
    convolution, attention = Convolution(width), Attention(width)
    return {
        "convolution": (convolution, convolution),
        "recurrence": (plain, lambda x: scan(plain, x).outputs),
        "parallel recurrence": (
            minimal,
            lambda x: Associative().run(minimal, x, minimal.initial_state(1), None, None).outputs,
        ),
        "self-attention": (attention, attention),
    }


def run(lengths: tuple[int, ...] = LENGTHS, repetitions: int = 5) -> dict[str, Any]:
    torch.manual_seed(0)
    results: dict[str, Any] = {"width": WIDTH, "kernel": KERNEL, "lengths": list(lengths), "layers": {}}
    results["mingru"] = minimal_speed()
    print(f"minGRU: {results['mingru']}", file=sys.stderr)
    torch.set_num_threads(1)
    built = layers()
    for name, (weights, layer) in built.items():
        results["layers"][name] = {"milliseconds": [], "megabytes": []}
        trained(weights, layer, lengths[0])
    for n in lengths:
        best = dict.fromkeys(built, math.inf)
        for _ in range(repetitions):
            for name, (weights, layer) in built.items():
                best[name] = min(best[name], trained(weights, layer, n))
        for name, (_, layer) in built.items():
            results["layers"][name]["milliseconds"].append(round(best[name] * 1e3, 3))
            results["layers"][name]["megabytes"].append(round(kept_bytes(layer, n) / 1e6, 3))
    for measured in results["layers"].values():
        for kind in ("milliseconds", "megabytes"):
            measured[f"{kind}_exponent"] = round(exponent(lengths, measured[kind]), 2)
    for line in table(results):
        print(line, file=sys.stderr)
    return results


def trained(weights: nn.Module, layer: Callable[[Tensor], Tensor], n: int) -> float:
    """Seconds for one forward and backward pass over n steps."""
    x = torch.randn(n, 1, WIDTH, requires_grad=True)
    weights.zero_grad()
    began = time.perf_counter()
    layer(x).sum().backward()
    return time.perf_counter() - began


def kept_bytes(layer: Callable[[Tensor], Tensor], n: int) -> int:
    """What stays in memory between the forward and the backward pass, the output with it."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        keep(layer(torch.randn(n, 1, WIDTH, requires_grad=True)))
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def exponent(lengths: tuple[int, ...], measured: list[float]) -> float:
    """p of the best fit measured ~ n^p over the longest lengths: a straight line of logarithms."""
    xs, ys = ([math.log(value) for value in values[-FITTED:]] for values in (lengths, measured))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - x_mean) ** 2 for x in xs)


def minimal_speed(
    steps: int = 4096, batch: int = 8, width: int = 256, repetitions: int = 5
) -> dict[str, Any]:
    """A training step of minGRU in parallel and in a loop, and of nn.GRU: interleaved, the medians."""
    cell, gru, x = MinGRU(width, width), nn.GRU(width, width), torch.randn(steps, batch, width)
    ways: dict[str, Callable[[], Tensor]] = {
        "nn.GRU": lambda: gru(x)[0],
        "parallel": lambda: scan(cell, x, backend="associative").outputs,
        "loop": lambda: scan(cell, x, backend="reference").outputs,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repetitions + 1):  # the first warms up
        for name, way in ways.items():
            began = time.perf_counter()
            way().sum().backward()
            taken[name].append((time.perf_counter() - began) * 1e3)
    middle = {name: statistics.median(times[1:]) for name, times in taken.items()}
    return {
        **{f"{name}_milliseconds": round(value) for name, value in middle.items()},
        "times_nn.GRU": round(middle["nn.GRU"] / middle["parallel"], 2),
        "times_loop": round(middle["loop"] / middle["parallel"], 2),
    }


def table(results: dict[str, Any]) -> list[str]:
    """Theory and measurement side by side, as Markdown."""
    longest = results["lengths"][-1]
    lines = [
        "| layer | operations | sequential steps | longest path "
        f"| ms at n = {longest:,} | time grows as | MB at n = {longest:,} | memory grows as |",
        "|---|---|---|---|--:|---|--:|---|",
    ]
    for name, measured in results["layers"].items():
        lines.append(
            f"| {name} | {' | '.join(ORDERS[name])} "
            f"| {measured['milliseconds'][-1]:,.1f} | n^{measured['milliseconds_exponent']:.2f} "
            f"| {measured['megabytes'][-1]:,.1f} | n^{measured['megabytes_exponent']:.2f} |"
        )
    return lines


def main(words: Sequence[str] | None = None) -> int:
    about, _, how = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.complexity", description=about, epilog=how)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as .png, .svg or .pdf")
    parser.add_argument(
        "--longest",
        type=int,
        default=LENGTHS[-1],
        metavar="N",
        help=f"the longest sequence; lengths are {', '.join(map(str, LENGTHS))}",
    )
    told = parser.parse_args(words)
    lengths = tuple(n for n in LENGTHS if n <= told.longest)
    if len(lengths) < 2:
        parser.error(
            f"--longest: is {told.longest}, expected at least {LENGTHS[1]}: growth needs two lengths"
        )
    try:
        if told.plot is not None:
            check_format(told.plot)  # before the long work, not after it
        found = run(lengths)
        if told.plot is not None:
            complexity(found["lengths"], found["layers"], path=told.plot)
    except ThroughtimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
