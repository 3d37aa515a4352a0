"""The folder of an export, and sessions that run its graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict, cast

from numpy.typing import NDArray

from throughtime.errors import InputError, ThroughtimeError, check_whole, import_optional
from throughtime.files import read_json
from throughtime.manifest import check_files, check_sums
from throughtime.model import TaskModel
from throughtime.runtime.checks import check_values

FORMAT, VERSION = "throughtime-onnx", 1
Array = NDArray[Any]
SEVERE = 3  # onnxruntime has many irrelevant warnings; errors are raised anyway


def import_onnxruntime() -> Any:
    """Import onnxruntime, with its telemetry turned off.

    Since 1.29 it reports every loaded model to its vendor, unless a variable is set before the import.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return import_optional("onnxruntime", feature="running an exported model", extra="onnx")


class Session:
    """Runs a graph of an export on the CPU."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = SEVERE
        options.inter_op_num_threads = 1
        # The products are so small that threads gain by spinning between them. On a machine with other work
        # they then stall, and a sentence can take four times as long; so they spin only with `threads`.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads is None else "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        if threads is not None:
            options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        self.inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [output.name for output in self._session.get_outputs()]

    def run(self, outputs: Sequence[str], given: Mapping[str, Array]) -> list[Array]:
        """Compute these outputs from these inputs."""
        found: list[Array] = self._session.run(outputs, given)
        return found

    def sort_numbered(self, stem: str, names: Sequence[str]) -> list[str]:
        """Those of the names that are `stem_0`, `stem_1` and so on, in order."""
        return sorted(
            (name for name in names if name.startswith(f"{stem}_")),
            key=lambda name: int(name[len(stem) + 1 :]),
        )


class ExportValues(TypedDict):
    """The contents of export.json."""

    format: str
    version: int
    throughtime: str
    task: str
    precision: str
    parts: dict[str, str]
    bytes: dict[str, int]
    settings: dict[str, Any]
    verified: dict[str, Any]


@dataclass(frozen=True)
class ExportFolder:
    """The folder of an export and the contents of its export.json."""

    path: Path
    values: ExportValues
    threads: int | None

    @classmethod
    def at(cls, path: Path | str, threads: int | None = None, *, trust_changed: bool = False) -> ExportFolder:
        """Open the export at this path; an error says why it is not one."""
        folder, where = Path(path), Path(path) / "export.json"
        if not folder.is_dir():
            raise InputError(str(path), "no such folder; `throughtime export` writes one")
        if not where.is_file():
            raise InputError(str(path), "has no export.json; `throughtime export` writes such a folder")
        check_files(folder)
        check_sums(folder, trust_changed=trust_changed)
        values = read_json(where, "export the run again")
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(str(where), "was not written by `throughtime export`")
        version = values.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise InputError(
                str(where), f"has version {version!r}, this release reads up to {VERSION}; update it"
            )
        check_values(values, ExportValues, str(where))
        for name in values["parts"].values():
            if Path(name).name != name or Path(name).suffix != ".onnx":
                raise InputError(str(where), f"names the part {name!r}, expected an .onnx file of its folder")
        if threads is not None:
            check_whole("threads", threads)
        return cls(folder, cast("ExportValues", values), threads)

    @property
    def task(self) -> str:
        """The name of the model's task."""
        return self.values["task"]

    def settings(self, kind: Any) -> dict[str, Any]:
        """The settings of its runner; an error names what does not fit `kind`, a TypedDict."""
        check_values(self.values["settings"], kind, f"{self.path / 'export.json'}, settings")
        return self.values["settings"]

    @property
    def summary(self) -> str:
        """The folder, the precision of its weights and their size."""
        size = sum(self.values["bytes"].values()) / 1e6
        return f"from {self.path}: {self.values['precision']}, {size:.1f} MB"

    def session(self, part: str) -> Session:
        """One of its graphs, ready to run."""
        path = self.path / self.values["parts"].get(part, f"{part}.onnx")
        if not path.is_file():
            raise InputError(str(path), "is missing; export the run again")
        try:
            return Session(path, self.threads)
        except ThroughtimeError:
            raise
        except Exception as error:  # onnxruntime's errors share no public base
            raise ThroughtimeError(f"{path}: onnxruntime cannot open it ({error})") from None


class ExportedModel(TaskModel):
    """A model that runs from the graphs of its export."""

    settings_type: ClassVar[Any]
    """A TypedDict: the settings that its exporter writes."""

    def __init__(self, folder: ExportFolder) -> None:
        self.task, self._summary = folder.task, folder.summary
        self.settings = folder.settings(self.settings_type)

    def __repr__(self) -> str:
        """Show the folder of the export."""
        return f"<{type(self).__name__} {self._summary}>"
