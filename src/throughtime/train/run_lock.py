"""A claim on the folder of a run, in which one training at a time may write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch

from throughtime.errors import InputError
from throughtime.files import whole_folder
from throughtime.train.processes import Processes

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where a folder cannot be locked
    fcntl = None  # type: ignore[assignment]

_FREE, _TAKEN, _BUSY = range(3)


class Claim:
    """Holds a run's folder for all processes of one training, until the block ends or they do.

    The folder itself is locked: no file is left behind, and the lock of a killed process is gone with it.
    """

    def __init__(self, out: Path, processes: Processes, device: torch.device) -> None:
        self._out, self._processes, self._device = out, processes, device
        self._goes_on = False
        self._handle: int | None = None

    def __enter__(self) -> Claim:
        """Nothing is claimed yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others have the folder."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def go_on(self) -> None:
        """Take the run that is there, if there is one."""
        self._goes_on = self._processes.first and begun(self._out)
        self._together(self._lock() if self._goes_on else _FREE)

    def begin(self, fill: Callable[[Path], None]) -> None:
        """Make the folder, unless its run goes on: `fill` is given the place where it is made."""
        makes = self._processes.first and not self._goes_on
        self._together(self._make(fill) if makes else _FREE)

    def _make(self, fill: Callable[[Path], None]) -> int:
        try:
            with whole_folder(self._out) as temporary:
                fill(temporary)
        except OSError as error:
            # Nobody was here a while ago, when the command began; somebody has come since.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return _TAKEN
            raise
        return self._lock()

    def _lock(self) -> int:
        if fcntl is None:
            return _FREE
        self._handle = os.open(self._out, os.O_RDONLY)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _BUSY
        except OSError:  # some network file systems lock no folders; training there is better than none
            return _FREE
        return _FREE

    def _together(self, found: int) -> None:
        """Refuse in all processes what the first has found; the others would wait for it in vain."""
        (code,) = self._processes.summed([float(found)], self._device)
        if code == _TAKEN:
            raise InputError(
                "--out",
                f"{self._out} exists already; choose another folder, or give --resume to go on with it",
            )
        if code == _BUSY:
            raise InputError(
                "--out", f"another process trains in {self._out}; wait for it or choose another folder"
            )


def begun(out: Path) -> bool:
    """Whether there is anything at this path; an empty folder is as good as none."""
    return out.exists() and not (out.is_dir() and not any(out.iterdir()))
