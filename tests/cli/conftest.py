"""What stands on stdin while a command is run."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put this on stdin."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return put
