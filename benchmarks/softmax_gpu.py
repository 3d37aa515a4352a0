"""The loss of a softmax over many words on a GPU, trained, beside torch's own operations, in one run.

    python -m benchmarks softmax_gpu

Milliseconds forward and backward, called and replayed from a CUDA graph. A mixture's peer is the same
equation in torch. The floor is three products at their peak and each logit written, read and written again,
and read twice more, at the bandwidth of a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.gpu_timing import call_microseconds, microseconds, record_graph
from benchmarks.linear_scan_gpu import BANDWIDTH
from benchmarks.recurrence_gpu import PEAK, TF32_PEAK
from throughtime.models.heads import Head, SoftmaxHead, log_softmax
from throughtime.models.other_heads import MixtureHead


@dataclass(frozen=True)
class Shape:
    """Of one update's loss."""

    name: str
    rows: int
    words: int
    width: int
    experts: int = 1

    @property
    def logits(self) -> int:
        """Of all softmaxes."""
        return self.rows * self.experts * self.words

    def head(self) -> SoftmaxHead | MixtureHead:
        """Ours."""
        if self.experts == 1:
            return SoftmaxHead(self.width, self.words).cuda()
        return MixtureHead(self.width, self.words, experts=self.experts, width=self.width).cuda()

    def floor(self, dtype: torch.dtype) -> float:
        """Microseconds that no version can beat."""
        rate = PEAK if dtype is torch.bfloat16 else TF32_PEAK
        return 1e6 * self.logits * (6 * self.width / rate + 5 * dtype.itemsize / BANDWIDTH)


SHAPES = (
    Shape("Penn Treebank, T35 B20", 700, 10_000, 650),
    Shape("AWD-LSTM, Penn Treebank", 1400, 10_000, 400),
    Shape("AWD-LSTM, WikiText-2", 1400, 33_278, 400),
    Shape("AWD-LSTM, WikiText-2, B80", 5600, 33_278, 400),
    Shape("15 softmaxes, Penn Treebank", 1400, 10_000, 280, experts=15),
)
TOLERANCES = {torch.bfloat16: 2e-2, torch.float32: 2e-3}
"""Of the largest number of a gradient; both sides round their products, to bf16 or to tf32."""


def plain(head: SoftmaxHead | MixtureHead, hidden: Tensor, labels: Tensor) -> Tensor:
    """The loss as torch has it."""
    if isinstance(head, SoftmaxHead):
        scores = functional.linear(hidden, head.weight, head.bias)
        return functional.cross_entropy(scores, labels, reduction="sum")
    states = head.states(hidden).tanh().unflatten(1, (head.experts, -1))
    each = log_softmax(functional.linear(states.flatten(0, 1), head.softmax.weight, head.softmax.bias))
    there = each.view(len(hidden), head.experts, -1).gather(
        2, labels[:, None, None].expand(-1, head.experts, 1)
    )
    return -(there[..., 0] + log_softmax(head.shares(hidden))).logsumexp(1).sum()


def clock(shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    """Ours and torch's, and how far their gradients are apart."""
    torch.manual_seed(0)
    head: SoftmaxHead | MixtureHead = shape.head()
    hidden = torch.randn(shape.rows, shape.width, device="cuda", requires_grad=True)
    labels = torch.randint(shape.words, (shape.rows,), device="cuda")
    wanted = [hidden, *head.parameters()]

    def step(loss: Callable[[Head, Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype is torch.bfloat16):
            total = loss(head, hidden, labels)
        return torch.autograd.grad(total, wanted)

    def ours() -> Any:
        return step(lambda head, *given: head.loss(*given))

    def theirs() -> Any:
        return step(plain)  # type: ignore[arg-type]

    apart = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours(), theirs(), strict=True))
    return {
        "name": shape.name,
        "dtype": str(dtype).removeprefix("torch."),
        "apart": apart,
        "agrees": apart < TOLERANCES[dtype],
        "ours": call_microseconds(ours) / 1e3,
        "ours_replayed": microseconds(record_graph(ours)) / 1e3,
        "theirs": call_microseconds(theirs) / 1e3,
        "theirs_replayed": microseconds(record_graph(theirs)) / 1e3,
        "floor": shape.floor(dtype) / 1e3,
    }


def run() -> dict[str, Any]:
    """The whole benchmark, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing to clock", file=sys.stderr)
        return {"skipped": "no GPU"}
    torch.set_float32_matmul_precision("high")
    rows = []
    print(
        f"{'':38}{'ours':>8}{'replayed':>9}{'torch':>8}{'replayed':>9}{'floor':>8}  milliseconds",
        file=sys.stderr,
    )
    for dtype in TOLERANCES:
        for shape in SHAPES:
            row = clock(shape, dtype)
            rows.append(row)
            torch.cuda.empty_cache()
            print(
                f"{row['name']:28} {row['dtype']:9}{row['ours']:8.2f}{row['ours_replayed']:9.2f}"
                f"{row['theirs']:8.2f}{row['theirs_replayed']:9.2f}{row['floor']:8.2f}"
                f"  {row['theirs_replayed'] / row['ours_replayed']:.2f} times as fast replayed"
                + ("" if row["agrees"] else f"  GRADIENTS DIFFER by {row['apart']:.1e}"),
                file=sys.stderr,
            )
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
