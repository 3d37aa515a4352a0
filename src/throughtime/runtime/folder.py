"""The folder of an export: its graphs, and what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, ThroughtimeError
from throughtime.files import read_json
from throughtime.runtime.session import Session

FORMAT, VERSION = "throughtime-onnx", 1


@dataclass(frozen=True)
class ExportFolder:
    """Where an export lies and what its export.json says."""

    path: Path
    values: dict[str, Any]
    threads: int | None

    @classmethod
    def at(cls, path: Path | str, threads: int | None = None) -> ExportFolder:
        """The export at this path, or one sentence that says why it is none."""
        folder, where = Path(path), Path(path) / "export.json"
        if not folder.is_dir():
            raise InputError(str(path), "no such folder; `throughtime export RUN --out` makes one")
        if not where.is_file():
            raise InputError(
                str(path), "holds no export.json; `throughtime export` makes such a folder of a run"
            )
        values = read_json(where, "export the run again")
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InputError(str(where), "was not written by `throughtime export`")
        version = values.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise InputError(str(where), f"has version {version!r}, this release reads up to {VERSION}")
        if threads is not None and threads < 1:
            raise InputError("threads", f"is {threads}, expected 1 or more")
        return cls(folder, values, threads)

    @property
    def task(self) -> str:
        """What the model does."""
        return str(self.values["task"])

    @property
    def settings(self) -> dict[str, Any]:
        """What its runner must know."""
        settings: dict[str, Any] = self.values["settings"]
        return settings

    def session(self, part: str) -> Session:
        """One of its graphs, ready to run."""
        path = self.path / self.values["parts"][part]
        if not path.is_file():
            raise InputError(str(path), "is missing; the folder is not whole, export the run again")
        try:
            return Session(path, self.threads)
        except ThroughtimeError:
            raise
        except Exception as error:  # onnxruntime's errors share no public base
            raise ThroughtimeError(f"{path}: onnxruntime cannot open it ({error})") from None
