"""Type checkers know what `train` and `load` return."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SNIPPET = Path(__file__).with_name("typed_use.py")


@pytest.mark.slow
def test_a_type_checker_knows_models_by_their_tasks():
    pytest.importorskip("mypy")
    words = ["--strict", "--config-file", "pyproject.toml", str(SNIPPET)]  # with the cache of `make lint`
    root = SNIPPET.parent.parent
    done = subprocess.run([sys.executable, "-m", "mypy", *words], cwd=root, capture_output=True, text=True)
    wrong = [n for n, line in enumerate(SNIPPET.read_text().splitlines(), 1) if "# wrong" in line]
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [int(line.split(":")[1]) for line in found] == wrong, done.stdout + done.stderr
    assert all(SNIPPET.name in line for line in found)
