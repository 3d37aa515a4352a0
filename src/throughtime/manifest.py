"""What the folder of a model may hold, checked before anything in it is read: kinds, sizes and sums of files.

`manifest.json` holds the SHA-256 sum of every file that a model is loaded from. It is written with the model,
so it detects damage and mixed-up files, but no forgery: whoever changes a file can change the manifest too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.files import read_json, sha256_of, whole_file

MANIFEST = "manifest.json"
FORMAT = "throughtime manifest"
FREE = frozenset(
    {MANIFEST, "README.md", "generation_config.json", "metrics.jsonl", "training.json", "data.json"}
)
"""Files that may change: notes about a model, and its default options for generation."""
APART = frozenset({"checkpoints", "first"})
"""Folders inside a run that are checked when they are read."""
DRAWN = frozenset({"learning-curve.png", "tensorboard"})
"""Pictures of a training."""
LOADED = frozenset({".json", ".txt", ".safetensors", ".onnx"})
"""The kinds of files that a model is loaded from."""
ROOM = 200_000_000
"""Bytes of memory that vocabularies and tables may take beyond the size of all files together."""
BYTES_PER_ITEM = {".txt": (b"\n", 200), "tokenizer.json": (b",", 520), ".json": (b",[{", 80)}
"""Measured memory of one item of a parsed file, and the characters that each item needs at least one of."""
MAX_FILES = 10_000
NONE = ""
"""In place of a sum: the file may be missing."""
_PART = ".model.replaced.part"


def write_manifest(folder: Path) -> None:
    """Write the sums of all files in a new folder."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    _write(folder, {name: [sha256_of(folder / name)] for name in names if _is_covered(name)})


@contextlib.contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; if the block succeeds, its files replace those of `folder`.

    While a file is replaced, the manifest has both sums, or says that a new file may be missing. So it is
    right at every moment, for a process that reads meanwhile and after a power cut.
    """
    new = folder / _PART
    shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
    new.mkdir()
    try:
        yield new
        names = [path.relative_to(new).as_posix() for path in sorted(new.rglob("*")) if path.is_file()]
        before = _read(folder)
        after = {name: [sha256_of(new / name)] for name in names if _is_covered(name)}
        if before is not None:
            _write(
                folder, before | {name: [*before.get(name, [NONE]), *sums] for name, sums in after.items()}
            )
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).replace(folder / name)
        if before is not None:
            _write(folder, before | after)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def find_foreign(folder: Path) -> str | None:
    """Return the name of something in the folder of a run that no command of this package has written."""
    names = {Path(name).parts[0] for name in _read(folder) or ()} | FREE | APART | DRAWN
    others = (path.name for path in folder.iterdir() if path.name not in names)
    return next((name for name in others if not name.endswith(".part")), None)


def check_sums(folder: Path, *, trust_changed: bool = False) -> None:
    """Refuse a folder with a file that is missing or not the one that was saved; warn without a manifest.

    With `trust_changed`, nothing is compared.
    """
    if trust_changed:
        return
    if not (folder / MANIFEST).is_file():
        warnings.warn(
            f"{folder}: has no {MANIFEST}, so changes to its files cannot be noticed; "
            "save the model again to add one",
            ThroughtimeWarning,
            stacklevel=3,
        )
    elif (change := find_change(folder)) is not None:
        path, problem = change
        raise InputError(
            str(path), f"{problem}; restore the file, or set trust_changed if you trust what is there"
        )


def find_change(folder: Path) -> tuple[Path, str] | None:
    """Return the first file that is missing or not the one that was saved, and what is wrong with it."""
    sums = _read(folder)
    while sums is not None:
        changes = (_compare(folder / name, each) for name, each in sums.items())
        change = next(filter(None, changes), None)
        before, sums = sums, sums if change is None else _read(folder)
        if before == sums:  # else a training has replaced the file meanwhile
            return change
    return folder / MANIFEST, "is missing"


def _compare(path: Path, sums: Sequence[str]) -> tuple[Path, str] | None:
    if not path.is_file():
        return None if NONE in sums else (path, "is missing")
    if sha256_of(path) in sums:
        return None
    return path, f"was changed after it was saved: its SHA-256 sum is not the one in {MANIFEST}"


def check_files(folder: Path) -> None:
    """Refuse a folder with links out of it, other things than plain files, or files too large to be true."""
    sizes = _list_files(folder)
    needed, total = 0, sum(sizes.values())
    for name in sizes:
        path = folder / name
        kind = path.name if path.name in BYTES_PER_ITEM else path.suffix
        if kind in BYTES_PER_ITEM:
            marks, cost = BYTES_PER_ITEM[kind]
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    needed += cost * sum(block.count(mark) for mark in marks)
            if needed > total + ROOM:
                raise InputError(
                    str(path),
                    f"has too many entries for a model of {total / 1e6:,.1f} MB; the file is damaged",
                )


def _list_files(folder: Path) -> dict[str, int]:
    """Return the sizes of all files that a model may be loaded from."""
    root, sizes, seen = folder.resolve(), {}, 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in APART and not name.startswith(".")]
        seen += len(folders) + len(files)
        if seen > MAX_FILES:
            raise InputError(
                str(folder), f"holds more than {MAX_FILES:,} files, too many for a model; name its folder"
            )
        for name in (*folders, *files):
            path = Path(parent, name)
            is_link = path.is_symlink()
            if is_link and not path.resolve().is_relative_to(root):
                raise InputError(str(path), "is a link that leads out of the model folder; copy the file")
            if is_link and name in folders:  # it may lead to a folder that is not walked through
                raise InputError(str(path), "is a link to a folder, in which nothing is checked; copy it")
            if name in folders or not (path.suffix in LOADED or path.exists()):
                continue
            status = path.stat() if path.exists() else path.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise InputError(str(path), "is not a plain file, which a model folder needs")
            if path.suffix not in LOADED:
                continue
            if status.st_size > ROOM and (holes := _size_of_holes(path, status.st_size)) > ROOM:
                raise InputError(
                    str(path),
                    f"is a sparse file: {holes:,} or more of its {status.st_size:,} bytes are holes, which "
                    "no model has",
                )
            sizes[path.relative_to(folder).as_posix()] = status.st_size
    return sizes


def _size_of_holes(path: Path, size: int) -> int:
    """Return the number of bytes that a sparse file claims but does not store, or a number above `ROOM`."""
    if not hasattr(os, "SEEK_DATA"):
        return 0
    holes, reached = 0, 0
    with path.open("rb") as file:
        while reached < size and holes <= ROOM:
            try:
                data = os.lseek(file.fileno(), reached, os.SEEK_DATA)
            except OSError:  # there are no data behind this place
                data = size
            holes += data - reached
            reached = os.lseek(file.fileno(), data, os.SEEK_HOLE) if data < size else size
    return holes


def _is_covered(name: str) -> bool:
    parts = Path(name).parts
    # What is in a hidden folder is not checked, so no sum of it is computed either.
    apart = APART.intersection(parts) or any(part.startswith(".") for part in parts[:-1])
    return parts[-1] not in FREE and not apart and Path(name).suffix in LOADED


def _read(folder: Path) -> dict[str, list[str]] | None:
    """Return the sums that each file may have, or None without a manifest."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    cure = "restore it, or remove it to load the model with a warning"
    values: Any = read_json(path, cure)
    sums: Any = values.get("sha256") if isinstance(values, dict) and values.get("format") == FORMAT else None
    if not isinstance(sums, dict) or len(sums) > MAX_FILES or not all(map(_is_entry, sums.items())):
        raise InputError(str(path), f"is damaged; {cure}")
    return sums


def _is_entry(entry: tuple[str, Any]) -> bool:
    name, sums = Path(entry[0]), entry[1]
    inside = not name.is_absolute() and ".." not in name.parts and name.as_posix() == entry[0]
    return (
        inside and _is_covered(entry[0]) and isinstance(sums, list) and all(isinstance(s, str) for s in sums)
    )


def _write(folder: Path, sums: Mapping[str, list[str]]) -> None:
    with whole_file(folder / MANIFEST) as file:
        json.dump({"format": FORMAT, "sha256": dict(sorted(sums.items()))}, file, indent=2)
        file.write("\n")
