"""Ctrl-C and a polite kill end a run between two updates, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from throughtime.errors import ThroughtimeError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptedRunError(ThroughtimeError):
    """The run was asked to stop and has saved where it stands."""

    exit_code = 130

    def __init__(self, checkpoint: Path | None) -> None:
        super().__init__("interrupted")
        self.checkpoint = checkpoint


class Interrupts:
    """Inside the block the first signal only sets `asked`; a second one acts at once, as always."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Listen; only the main thread may."""
        if threading.current_thread() is threading.main_thread():
            for one in SIGNALS:
                self._before[one] = signal.signal(one, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Listen no more."""
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        for one, handler in self._before.items():
            signal.signal(one, handler)
