"""What stands on stdin while a command is run."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put this on stdin."""

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return put


@pytest.fixture
def given_nothing(
    throughtime: Callable[..., Any], typed: Callable[[bytes], None]
) -> Callable[..., dict[str, Any]]:
    """A filter without a line to read says so and gives nothing, which is no error; its JSON comes back."""

    def run(*words: object) -> dict[str, Any]:
        typed(b"")
        plain = throughtime(*words)
        assert (plain.code, plain.out) == (0, "")
        assert plain.err.startswith("stdin ")
        assert plain.err.count("\n") == 1
        typed(b"")
        return throughtime(*words, "--json").json  # type: ignore[no-any-return]

    return run
