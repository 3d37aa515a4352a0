"""README.md of an export: what it is, how far it is off, and how to run it without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def card(name: str, values: Mapping[str, Any], usage: str) -> str:
    """The model card."""
    precision = values["precision"]
    checks = values["verified"][precision]
    worst = max(check["off"] for check in checks)
    sizes = "\n".join(
        f"| {values['parts'][part]} | {size / 1e6:.2f} MB |" for part, size in values["bytes"].items()
    )
    return f"""# {name}, exported to ONNX

A model of the task `{values["task"]}` in {precision}, exported by throughtime {values["throughtime"]}.

| | |
|---|---|
{sizes}
| checked against torch | {len(checks)} outputs at several shapes, off by {worst:.2g} at most |

It runs on onnxruntime, numpy and tokenizers; torch is not needed:

    pip install onnxruntime numpy tokenizers
    pip install --no-deps PATH_TO_THE_THROUGHTIME_REPOSITORY

    import throughtime as tt
    model = tt.runtime.load("FOLDER")
    model.{usage}

{_elsewhere(precision)} All numbers of the check are in export.json.
"""


def _elsewhere(precision: str) -> str:
    """Who else can run the graphs."""
    if precision == "int8":
        return "Products in int8 are operators of onnxruntime's own, which other runtimes may lack."
    return "Inputs and outputs have names, and the graphs are plain ONNX: other runtimes can run them too."
