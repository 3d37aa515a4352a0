"""Where the time of our training and of our search goes, as shares of it."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

from torch.profiler import ProfilerActivity, profile

from throughtime.models.seq2seq import EncoderDecoder

SOFTMAX = ("SummedSurprisal",)
OPTIMISER = ("Optimizer.step", "linalg_vector_norm", "_foreach")
ENCODER = ("ResetAfter", "ResetBefore", "gru", "mkldnn_rnn")
LOOP = "_FusedLoop"
PRODUCTS = ("mm", "addmm", "addmm_")
COMPARISONS = ("bmm", "mv", "_softmax", "softmax")


def training_shares(train: Callable[[], Any], rows: int) -> dict[str, float]:
    """The share of each part in the processor time of some updates, by torch's profiler.

    What is inside the decoder's loop is told apart by its shapes: attention works on [rows, source, width].
    """
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        train()
    times: dict[str, float] = defaultdict(float)
    for event in recorded.events():
        times[_part(event, rows)] += event.self_cpu_time_total
    return _shares(times)


def _part(event: Any, rows: int) -> str:
    """The part that an operation belongs to, by its own name and the names of those that called it."""
    names = []
    caller = event
    while caller is not None:
        names.append(caller.name)
        caller = caller.cpu_parent
    path = " ".join(names)
    if LOOP in path:
        return _part_of_loop(event, rows)
    for part, marks in (("softmax", SOFTMAX), ("optimiser", OPTIMISER), ("encoder's recurrence", ENCODER)):
        if any(mark in path for mark in marks):
            return part
    return "embeddings and the rest"


def _part_of_loop(event: Any, rows: int) -> str:
    name, shapes = event.name.removeprefix("aten::"), [shape for shape in event.input_shapes if shape]
    compares = name in COMPARISONS or any(len(shape) == 3 and shape[0] == rows for shape in shapes)
    # The gradient of the energy: one row times all that was compared.
    if compares or (name in PRODUCTS and shapes and shapes[0][0] == 1):
        return "attention"
    return "decoder's products" if name in PRODUCTS else "decoder's gates"


def search_shares(model: EncoderDecoder, translate: Callable[[], Any]) -> dict[str, float]:
    """The share of each part in the time of a search; what is no part of the model is search itself."""
    times: dict[str, float] = defaultdict(float)
    parts = (
        ("encoder", model, "encode"),
        ("decoder", model.decoder, "step"),
        ("softmax", model.head, "log_probs"),
    )
    with contextlib.ExitStack() as stack:
        for part, owner, method in parts:
            # On the classes: a search in bf16 runs on a copy of the model.
            timed = _timed(getattr(type(owner), method), part, times)
            stack.enter_context(mock.patch.object(type(owner), method, timed))
        began = time.perf_counter()
        translate()
        times["search"] = time.perf_counter() - began - sum(times.values())
    return _shares(times)


def _timed(function: Callable[..., Any], part: str, times: dict[str, float]) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        found = function(*arguments)
        times[part] += time.perf_counter() - began
        return found

    return timed


def _shares(times: dict[str, float]) -> dict[str, float]:
    total = sum(times.values())
    return {part: round(taken / total, 3) for part, taken in sorted(times.items(), key=lambda one: -one[1])}
