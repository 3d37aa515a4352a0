"""The wing for NVIDIA GPUs: kernels, persistent recurrences, recorded searches and updates.

Only `throughtime.accelerate` imports it, and only on a machine with such a GPU. `ANSWERS` lists what it
computes instead of plain torch; each of its modules is imported at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from throughtime.accelerate import (
    Operation,
    adopt_times,
    attend_rows,
    chain_surprisals,
    choose_gpu_backend,
    describe_gpus,
    export_times,
    find_attention_kernels,
    find_gate_kernels,
    find_learner,
    find_second_biases,
    find_softmax_kernel,
    lay_out_weights,
    run_search,
    step_cell,
)

ANSWERS: dict[Operation[..., Any], str] = {
    step_cell: "cell:step_cell",
    attend_rows: "decoder_steps:attend_rows",
    chain_surprisals: "chain:chain_surprisals",
    choose_gpu_backend: "choice:choose_backend",
    adopt_times: "choice:adopt_times",
    describe_gpus: "choice:describe",
    export_times: "timing:export_times",
    find_attention_kernels: "decoder_steps:find_attention",
    find_learner: "learner:find_learner",
    find_gate_kernels: "decoder_steps:find_gates",
    find_second_biases: "flat_weights:find_second_biases",
    lay_out_weights: "flat_weights:flatten",
    find_softmax_kernel: "softmax:find_softmax",
    run_search: "search:replay_search",
}
"""The function for each operation, as `module:name`."""


def _import_late(address: str) -> Callable[..., Any]:
    """Return a function that imports the one at this address when it is first called."""
    module, _, name = address.partition(":")
    functions: list[Callable[..., Any]] = []

    def answer(*arguments: Any, **options: Any) -> Any:
        if not functions:
            functions.append(getattr(import_module(f"{__name__}.{module}"), name))
        return functions[0](*arguments, **options)

    return answer


for operation, address in ANSWERS.items():
    operation.register(_import_late(address))
