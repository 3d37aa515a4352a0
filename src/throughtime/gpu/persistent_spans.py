"""How the layers of a stack run on the persistent kernels: one after the other, or side by side in spans.

A layer needs only what the layer below has reached. Each launch therefore runs a span of steps, and while a
layer runs one span, the layer above runs the span before it. Layers then share the multiprocessors; a step is
limited by latency, so that with fewer of them it takes little longer, as long as the weights fit.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from throughtime.gpu.persistent_choice import best, estimate_start, microseconds
from throughtime.gpu.persistent_plan import KernelTask, Plan

SPANS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The numbers of spans that are compared."""
MIN_STEPS, MIN_MICROSECONDS_OF_LARGE = 4, 60.0
"""Minimum number of steps of a span; and its minimum time, in microseconds on an H200, in a call that is not
replayed when it is called: there the host launches each span."""
MAX_REPLAYED_BYTES = 128 << 20
"""Bytes of memory of a call that is replayed: those that need more keep the GPU busy for longer."""
FOR_PRODUCTS = 8
"""One multiprocessor in this number is left to the products between the layers."""
BESIDE = 1.1
"""How many times as long steps take if directions or layers run side by side and share the cache."""
NEXT_SPAN = 6.0
"""Microseconds of the product of a span, and until a launch on another stream sees it, on an H200."""


class Arrangement(NamedTuple):
    """How all layers of a pass run."""

    plan: Plan
    spans: int = 1  # of a layer
    beside: int = 1  # directions of a layer that one launch runs side by side

    def estimate(self, task: KernelTask, layers: int, steps: int) -> float:
        """Return the expected microseconds on an H200."""
        each = -(-steps // self.spans) * microseconds(task, self.plan)
        each *= BESIDE if self.spans > 1 or self.beside > 1 else 1.0
        each += estimate_start(task, self.plan)
        if self.spans > 1:
            return (self.spans + layers - 1) * (each + NEXT_SPAN)
        return layers * (task.directions // self.beside) * each


@functools.cache
def arrange(
    task: KernelTask, layers: int, steps: int, multiprocessors: int, shared: int
) -> Arrangement | None:
    """Return the arrangement that is expected to be fastest; None if no plan fits the GPU.

    Both directions of a layer can run side by side. The layers of a stack can only if it has one direction:
    otherwise a layer begins where the one below ends.
    """
    found = []
    for beside in range(1, 1 + task.directions):
        plan = best(task, multiprocessors // beside, shared)
        if plan is not None:
            found.append(Arrangement(plan, beside=beside))
    if layers > 1 and task.directions == 1:
        plan = best(task, multiprocessors * (FOR_PRODUCTS - 1) // FOR_PRODUCTS // layers, shared)
        if plan is not None:
            time = steps * microseconds(task, plan)
            large = 2 * _count_bytes(task, layers, steps) > MAX_REPLAYED_BYTES
            most = time / MIN_MICROSECONDS_OF_LARGE if large else steps / MIN_STEPS
            found += [Arrangement(plan, spans) for spans in SPANS if 1 < spans <= most]
    return min(found, key=lambda one: one.estimate(task, layers, steps), default=None)


def _count_bytes(task: KernelTask, layers: int, steps: int) -> int:
    """Return the memory of a training call, roughly: what it keeps of each step, weights and gradients."""
    kept, copies = task.form.gates + task.form.slots + 3, 8 * task.form.gates
    return layers * task.width * task.kind.size * (steps * task.batch * kept + copies * task.width)
