"""Checkpoints: safetensors and JSON with a manifest, written completely or not at all.

RUN/checkpoints/step-00001234/tensors.safetensors   all tensors
RUN/checkpoints/step-00001234/state.json            all other values
RUN/checkpoints/step-00001234/manifest.json         the checksums of both
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from throughtime.errors import InputError, ThroughtimeError
from throughtime.files import sweep_parts, whole_folder
from throughtime.manifest import check_files, find_change, write_manifest

FORMAT = "throughtime checkpoint"
VERSION = 5
TENSORS, STATE = "tensors.safetensors", "state.json"

_NAME = re.compile(r"step-(\d{8,})")
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True)
class Checkpoint:
    """The state of training after `step` updates."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run; the newest `keep` are kept. Only one process may save."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> Path:
        """Write a checkpoint and delete those that are too old.

        `values` are stored as JSON; floats are restored exactly, infinities and NaN too. A step that is saved
        already is written again only if it is damaged.
        """
        path = self.folder / f"step-{step:08d}"
        if path.exists():
            if _is_intact(path):
                return path
            self._drop(path)
        with whole_folder(path) as temporary:
            _write_tensors(_separate(tensors), temporary / TENSORS)
            _flush(temporary / TENSORS)
            state = {"format": FORMAT, "version": VERSION, "step": step, "values": dict(values)}
            (temporary / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
            _flush(temporary / STATE)
            write_manifest(temporary)
            _flush(temporary)
        _flush(self.folder)
        others = [name for name in self.names() if name != path.name]
        for name in others[: max(0, len(others) - (self.keep - 1))]:
            self._drop(self.folder / name)
        return path

    def sweep(self) -> None:
        """Remove what a killed process left half written or half deleted; for the saving process only."""
        sweep_parts(self.folder)

    def names(self) -> list[str]:
        """Return the names of the checkpoints, oldest first; half-written ones are not listed."""
        if not self.folder.is_dir():
            return []
        found = [entry.name for entry in self.folder.iterdir() if _NAME.fullmatch(entry.name)]
        return sorted(found, key=_step)

    def latest(self, name: str | None = None) -> Checkpoint | None:
        """Read the newest checkpoint, or the one of this name; None if there are none.

        The error for a checkpoint that cannot be read suggests the newest one before it that can.
        """
        names = self.names()
        if name is None and not names:
            return None
        if name is not None and name not in names:
            known = ", ".join(names) or "none"
            raise InputError("checkpoint", f"{self.folder} holds no {name!r}; there are: {known}")
        chosen = name or names[-1]
        try:
            step, values = _read_state(self.folder / chosen)
            tensors = _read_tensors(self.folder / chosen / TENSORS)
        except _DamageError as damage:
            earlier = reversed(names[: names.index(chosen)])
            intact = next((one for one in earlier if _is_intact(self.folder / one)), None)
            advice = (
                f"remove {self.folder.parent} and train again"
                if intact is None
                else f"resume from an earlier one: checkpoint {intact}"
            )
            raise InputError(str(damage.path), f"{damage.problem}; {advice}") from None
        return Checkpoint(self.folder / chosen, step, tensors, values)

    def _drop(self, path: Path) -> None:
        # Renamed first: a process killed while deleting must not leave half a checkpoint under this name.
        old_folder = path.with_name(f".{path.name}.old.part")
        path.rename(old_folder)
        shutil.rmtree(old_folder)


class _DamageError(Exception):
    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem


def _read_state(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the step and the values of a checkpoint, after checking all of its files."""
    try:
        check_files(path)
        state = _read_json(path / STATE)
        change = find_change(path)
    except InputError as error:
        raise _DamageError(Path(error.where), str(error.problem)) from None
    if state.get("format") != FORMAT:
        raise _DamageError(path / STATE, f"is of another format ({state.get('format')!r})")
    version = state.get("version")
    if version != VERSION:
        raise _DamageError(path / STATE, f"has version {version!r}, but this release reads {VERSION}")
    if change is not None:
        raise _DamageError(*change)
    if state.get("step") != _step(path.name):
        raise _DamageError(path / STATE, f"is of step {state.get('step')}, not of {path.name}")
    if not isinstance(state.get("values"), dict):
        raise _DamageError(path / STATE, "holds no values")
    return state["step"], state["values"]


def _is_intact(path: Path) -> bool:
    try:
        _read_state(path)
    except _DamageError:
        return False
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise _DamageError(path, "is missing") from None
    except (ValueError, RecursionError) as error:
        raise _DamageError(path, f"is not JSON ({error})") from None
    if not isinstance(state, dict):
        raise _DamageError(path, "holds no JSON object")
    return state


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        # The error number is in the message only: "... No space left on device (os error 28)".
        number = _SYSTEM_ERROR.search(str(error))
        if number is None:
            raise ThroughtimeError(f"the tensors of a checkpoint cannot be written ({error})") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise _DamageError(path, f"is not a safetensors file ({error})") from None


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, contiguous and without shared memory, as safetensors needs them."""
    apart: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in places:
            own = own.clone()
        places.add(own.untyped_storage().data_ptr())
        apart[name] = own
    return apart


def _flush(path: Path) -> None:
    """Flush a file or a folder to the disk, so that it survives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _step(name: str) -> int:
    return int(name.removeprefix("step-"))
