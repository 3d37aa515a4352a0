"""Run commands on a disk that fails or fills up, in a process of its own: see `test_failing_disks.py`."""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

CALLS = ("write", "fsync", "rename", "mkdir")


def attempt(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed on stderr."""
    from throughtime.cli.main import main

    sys.modules["tensorboard"] = None  # type: ignore[assignment] # its own thread prints a traceback
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(words)
    return code, err.getvalue()


def list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def main() -> None:
    """Read attempts from stdin: the folder, words, and a call that fails from a number on, or kilobytes."""
    for one in json.load(sys.stdin):
        folder = Path(one["folder"])
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if "kilobytes" in one:
            options = ["-t", "tmpfs", "-o", f"size={one['kilobytes']}k", "none", str(folder)]
            subprocess.run(["mount", *options], check=True)
            (folder / "filler").write_bytes(bytes(4096))
        else:
            library = ctypes.CDLL(os.environ["LD_PRELOAD"])
            library.fail_from(os.fsencode(folder.resolve()), CALLS.index(one["call"]), one["first"])
        code, err = attempt(one["words"])
        (folder / "filler").unlink(missing_ok=True)
        left = list_files(folder)
        if "kilobytes" in one:
            with contextlib.suppress(OSError):
                subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        else:
            library.fail_from(b"/nowhere", 0, 0)
        again = attempt(one["again"]) if code else (0, "")
        print(json.dumps({"code": code, "err": err, "left": left, "again": again}), flush=True)
        if "kilobytes" in one:
            subprocess.run(["umount", "-l", str(folder)], check=True)


if __name__ == "__main__":
    main()
