"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from throughtime.errors import InputError


def check_place(path: Path | str) -> None:
    """Refuse a path that would lie inside a file; call it before long work that ends in writing there."""
    for above in Path(path).parents:
        if above.exists() and not above.is_dir():
            raise InputError(str(above), "is a file, expected a folder")


@contextlib.contextmanager
def whole_file(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary neighbour of `path` for writing; it takes the name only when the block succeeds.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "poem.txt"
    >>> try:
    ...     with whole_file(target) as file:
    ...         _ = file.write("half a li")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     target.exists()
    False
    """
    path = Path(path)
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(path: Path | str) -> Iterator[Path]:
    """Fill a temporary neighbour of the folder `path`; it takes the name only when the block succeeds."""
    path = Path(path)
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
