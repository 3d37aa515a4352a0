"""A graph that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from throughtime.errors import import_optional

Array = NDArray[Any]
SEVERE = 3  # onnxruntime warns of much that concerns nobody; errors are raised besides


def import_onnxruntime() -> Any:
    """Import onnxruntime, with its telemetry turned off.

    Since 1.29 it reports every loaded model to its vendor, unless a variable is set before the import.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return import_optional("onnxruntime", feature="running an exported model", extra="onnx")


class Session:
    """A graph of an export on the processor. Results are the same whatever is computed beside them."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = SEVERE
        options.inter_op_num_threads = 1
        # Between products so small, threads gain where they wait busily, but on a machine that has other work
        # they then stall: a sentence was seen to take four times as long. Who says how many threads there
        # are has so many cores for them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads is None else "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if threads is not None:
            options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        self.inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [one.name for one in self._session.get_outputs()]

    def run(self, outputs: Sequence[str], given: Mapping[str, Array]) -> list[Array]:
        """These outputs of the graph for these inputs."""
        found: list[Array] = self._session.run(outputs, given)
        return found

    def beginning(self, stem: str, names: Sequence[str]) -> list[str]:
        """The names that begin so, in the order of their numbers."""
        return sorted(
            (name for name in names if name.startswith(f"{stem}_")),
            key=lambda name: int(name[len(stem) + 1 :]),
        )
