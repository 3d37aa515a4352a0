"""Chunks of rows under a softmax over many words: how large they are, and their logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.errors import InputError, ThroughtimeError

# Logits of one chunk. A CPU wants few enough to be small beside the model, many enough that adding to the
# gradient of all weights at each chunk is cheap; a GPU wants few launches.
CPU_LOGITS, GPU_LOGITS = 2**22, 2**26
# Words of one product on a CPU: in such pieces the logits of 33,278 words take 0.7 of one product's time.
CPU_WORDS = 2048
# Logits in 64 bytes: a CPU multiplies 1.5 times as fast into rows that begin at a multiple of that.
ALIGNED = 16


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden weight' + bias, [N, V]; gradients of any order flow."""
    if torch.is_grad_enabled() or weight.device.type != "cpu" or precision(weight) != weight.dtype:
        return functional.linear(hidden, weight, bias)
    width = -(-len(weight) // ALIGNED) * ALIGNED
    out = weight.new_empty(len(hidden), width)[:, : len(weight)]
    logits_into(hidden, weight, bias, out=out)
    return out


def widened(dtype: torch.dtype) -> torch.dtype:
    """What sums and softmax are computed in: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


def logits_into(states: Tensor, words: Tensor, bias: Tensor | None, *, out: Tensor) -> None:
    """states words' + bias, the product in its inputs' precision, the rest in that of `out`."""
    for some in pieces(words):
        if states.dtype != out.dtype:
            product = states @ words[some].t()
            out[:, some] = product if bias is None else product + bias[some].to(out.dtype)
        elif bias is None:
            torch.mm(states, words[some].t(), out=out[:, some])
        else:
            torch.addmm(bias[some], states, words[some].t(), out=out[:, some])


def precision(weight: Tensor) -> torch.dtype:
    """What products are computed in: autocast's choice where it is on, and it leaves float64 alone."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def pieces(words: Tensor) -> Iterator[slice]:
    """The words of one product after the other, where one for all would be slower."""
    size = CPU_WORDS if words.device.type == "cpu" else len(words)
    return (slice(start, start + size) for start in range(0, len(words), size))


def default_chunk(weight: Tensor) -> int:
    """The most rows of a chunk, for a softmax with these weights."""
    logits = CPU_LOGITS if weight.device.type == "cpu" else GPU_LOGITS
    return max(32, logits // len(weight))


def handed_on(ctx: Any, outer: Tensor, head: str) -> tuple[Tensor | None, ...]:
    """The gradients of a loss that its forward pass has left in `ctx`, times what came back for it; once.

    `head` is the name of the class whose loss it is.
    """
    if torch.is_grad_enabled():
        raise ThroughtimeError(
            f"the loss of a {head} gives first derivatives only; "
            "for create_graph=True sum its log_probs at the labels"
        )
    if ctx.gradients is None:
        raise ThroughtimeError(f"backward was called twice on one loss of a {head}; compute the loss again")
    # Let go of here, the tensors belong to nobody else: autograd takes them as .grad without a copy.
    found: tuple[Tensor | None, ...] = tuple(ctx.gradients)
    ctx.gradients = None
    for gradient in found:
        if gradient is not None:
            gradient.mul_(outer)
    return found


def flat(hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of a batch one under another: [T, B, H] and [T, B] as [N, H] and [N], which stay as they are."""
    if hidden.dim() > 2 and labels.shape == hidden.shape[:-1]:
        return hidden.flatten(0, -2), labels.flatten()
    return hidden, labels


def check_labels(labels: Tensor, states: Tensor) -> None:
    """Refuse labels that are not one a row, which torch would stretch over the rows, or lie elsewhere."""
    rows = len(states)
    if labels.shape != (rows,):
        raise InputError("labels", f"have shape {list(labels.shape)}, expected one for each of {rows} rows")
    if labels.device != states.device:
        raise InputError("labels", f"are on {labels.device}, but the states on {states.device}; move them")


def check_states(states: Tensor, weight: Tensor) -> None:
    """Refuse states of another width than that of the words."""
    if states.shape[-1] != weight.shape[1]:
        raise InputError(
            "states", f"are {states.shape[-1]} numbers wide, but the softmax's words {weight.shape[1]}"
        )


def even(rows: int, most: int) -> int:
    """Rows of each chunk, so that the last is not a sliver: 700 rows by at most 420 are 350 and 350."""
    chunks = max(1, -(-rows // most))
    return max(1, -(-rows // chunks))
