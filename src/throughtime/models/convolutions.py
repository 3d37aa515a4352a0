"""A linear softmax over pooled convolutions of vectors, after MiniRocket (Dempster et al., 2021).

Each of the 84 kernels has nine weights, three of them 2 and the others -1, so that a constant adds nothing.
They are stretched by several dilations, over some features each, and of each sequence it is counted how often
a result lies above thresholds, which are quantiles of the results for training sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops
from throughtime.models.linear_classifier import OPERATIONS, Partner, fit_chosen

WIDTH, TWOS = 9, tuple(combinations(range(9), 3))
MAX_DILATIONS, MAX_FEATURES = 32, 9
MAX_PLACES = 2_048
"""Places at which a sequence of usual length is looked at: of longer ones, every other place, or fewer."""
SLOPE = 10.0
"""How fast a count rises from 0 to 1 around a threshold, so that rounding changes it little."""
GOLDEN = 0.618034
MEASURED = 64
"""Training sequences whose results give the thresholds."""
ROWS = 32
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


class ConvolutionClassifier(Partner):
    """P(label given vectors) = softmax(W c + b), where c are the pooled convolutions.

    It reads frames [T, B, stride * features] that hold `stride` steps each; sequences of `steps` are usual.

    >>> partner = ConvolutionClassifier(2, 1, 40, labels=3, size=252)
    >>> partner.log_probs(torch.zeros(40, 5, 2), torch.full((5,), 40)).shape
    torch.Size([5, 3])
    """

    name, title = "convolutions", "pooled convolutions"
    splits, min_gain = ("train", "valid"), 1.0  # of few sequences they learn most, and a mixture seems good
    kernels: Tensor
    thresholds: Tensor

    def __init__(self, features: int, stride: int, steps: int, labels: int, size: int) -> None:
        each = max(1, size // len(TWOS))
        longest = max(1.0, (steps - 1) / (WIDTH - 1))
        most = min(MAX_DILATIONS, each)
        dilations = sorted({int(longest ** (power / max(1, most - 1)) + 1e-9) for power in range(most)})
        shape, count = (len(dilations), len(TWOS)), max(1, each // len(dilations))
        super().__init__(shape[0] * shape[1] * count, labels)
        self.features, self.stride, self.apart = features, stride, max(1, steps // MAX_PLACES)
        self.dilations = dilations
        self.register_buffer("kernels", torch.zeros(*shape, features, WIDTH))
        self.register_buffer("thresholds", torch.zeros(*shape, count))

    @property
    def inputs(self) -> Mapping[str, tuple[str, list[str | int]]]:
        """Frames and the lengths of their sequences."""
        shape: list[str | int] = ["time", "batch", self.stride * self.features]
        return {"frames": ("float32", shape), "lengths": ("int64", ["batch"])}

    @torch.no_grad()
    def learn(self, sequences: Sequence[Any], labels: Sequence[int], seed: int, effort: float) -> None:
        """Draw kernels, measure thresholds and fit the weights to sequences of frames."""
        frames = [torch.as_tensor(one) for one in sequences]
        draws = torch.Generator().manual_seed(seed)
        base = torch.full((len(TWOS), 1, WIDTH), -1.0)
        for number, twos in enumerate(TWOS):
            base[number, :, list(twos)] = 2.0
        most = min(self.features, MAX_FEATURES)
        sizes = ((most + 1) ** torch.rand(self.kernels.shape[:2], generator=draws)).long().clamp(1, most)
        ranks = torch.rand(self.kernels.shape[:3], generator=draws).argsort(-1).argsort(-1)
        self.kernels[:] = base * (ranks < sizes[..., None])[..., None]
        some = torch.randperm(len(frames), generator=draws)[:MEASURED].tolist()
        count = self.thresholds.shape[2]
        for number in range(len(self.dilations)):
            found = [self._convolve(frames[one][:, None], number)[0] for one in some]
            results = torch.cat(found, 1)
            results = results[:, torch.randint(results.shape[1], (10_000,), generator=draws)]
            scale = results.std(1).clamp(min=1e-6)
            self.kernels[number] /= scale[:, None, None]
            shares = torch.arange(1, len(TWOS) * count + 1).view(len(TWOS), count) * GOLDEN % 1
            ordered = (results / scale[:, None]).sort(1).values
            self.thresholds[number] = ordered.gather(1, (shares * ordered.shape[1]).long())
        rows = torch.cat([self._pool_alike(frames[at : at + ROWS]) for at in range(0, len(frames), ROWS)])
        mean, spread = rows.mean(0), rows.std(0, unbiased=False)
        factor = torch.where(spread > 1e-6, spread, torch.inf).reciprocal() * len(mean) ** -0.5
        fitted = fit_chosen(
            (rows - mean) * factor,
            torch.tensor(labels),
            len(self.bias),
            penalties=PENALTIES,
            seed=seed,
            operations=effort * OPERATIONS,
        )
        self.weight[:] = fitted.weight * factor[:, None]
        self.bias[:] = fitted.bias - mean @ self.weight

    def score(self, *given: Tensor) -> Tensor:
        """See `Partner`."""
        return self._pool(*given) @ self.weight

    def draw(self, size: int, batch: int, draws: torch.Generator) -> list[Tensor]:
        """See `Partner`."""
        frames = torch.randn(size, batch, self.stride * self.features, generator=draws)
        return [frames, torch.randint(1, size + 1, (batch,), generator=draws)]

    def _pool_alike(self, frames: Sequence[Tensor]) -> Tensor:
        lengths = torch.tensor([len(one) for one in frames])
        return self._pool(nn.utils.rnn.pad_sequence(list(frames)), lengths)

    def _pool(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """The share of the places at which each kernel is above each threshold, [B, size]."""
        pooled = []
        for number, thresholds in enumerate(self.thresholds):
            results = self._convolve(frames, number)
            places = torch.arange(results.shape[2], device=frames.device) * self.apart
            inside = (places < self.stride * lengths.to(frames.device)[:, None])[:, None].to(frames.dtype)
            count = inside.sum(-1).clamp(min=1)
            shares = [
                (((results - threshold[:, None]) * SLOPE + 0.5).clamp(0, 1) * inside).sum(-1) / count
                for threshold in thresholds.T
            ]
            pooled.append(torch.stack(shares, -1).flatten(1))
        return torch.cat(pooled, 1)

    def _convolve(self, frames: Tensor, number: int) -> Tensor:
        """The results of the kernels with a dilation, [B, kernels, places]."""
        steps = frames.view(*frames.shape[:2], self.stride, self.features).permute(1, 3, 0, 2).flatten(2)
        dilation = self.dilations[number]
        return functional.conv1d(
            steps, self.kernels[number], stride=self.apart, padding=WIDTH // 2 * dilation, dilation=dilation
        )

    def graph(self, ops: Ops, *given: str) -> str:
        """See `Partner`."""
        frames, lengths = given
        shape = ops.sizes(ops.size(frames, 0), ops.size(frames, 1), self.stride, self.features)
        turned = ops.op("Transpose", ops.op("Reshape", frames, shape), perm=[1, 3, 0, 2])
        steps = ops.op("Reshape", turned, ops.sizes(ops.size(frames, 1), self.features, -1))
        sizes = ops.op("Mul", lengths, ops.constant(self.stride, "int64"))
        pooled = [self._pool_in_graph(ops, steps, sizes, number) for number in range(len(self.dilations))]
        return ops.op("MatMul", ops.concat(pooled), ops.weight(self.weight))

    def _pool_in_graph(self, ops: Ops, steps: str, sizes: str, number: int) -> str:
        dilation, count = self.dilations[number], self.thresholds.shape[2]
        side = WIDTH // 2 * dilation
        spaced = {"strides": [self.apart], "dilations": [dilation], "pads": [side, side]}
        results = ops.op("Conv", steps, ops.weight(self.kernels[number]), kernel_shape=[WIDTH], **spaced)
        places = ops.op("Mul", ops.steps(results, 2), ops.constant(self.apart, "int64"))
        inside = ops.op("Less", places, ops.op("Unsqueeze", sizes, ops.axes(1, 2, 3)))
        inside = ops.op("Cast", inside, to="float32")  # [B, 1, 1, places]
        above = ops.op(
            "Sub",
            ops.op("Unsqueeze", results, ops.axes(2)),
            ops.weight(self.thresholds[number][..., None]),
        )
        risen = ops.op("Add", ops.op("Mul", above, ops.constant(SLOPE)), ops.constant(0.5))
        counted = ops.op("Max", ops.op("Min", risen, ops.constant(1.0)), ops.constant(0.0))
        total = ops.op("ReduceSum", ops.op("Mul", counted, inside), ops.axes(3), keepdims=0)
        whole = ops.op("ReduceSum", inside, ops.axes(3), keepdims=0)
        shares = ops.op("Div", total, ops.op("Max", whole, ops.constant(1.0)))
        return ops.op("Reshape", shares, ops.sizes(ops.size(steps, 0), len(TWOS) * count))
