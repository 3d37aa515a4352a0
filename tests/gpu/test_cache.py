"""The cache of compiled kernels, with several processes that use it at once."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from throughtime.errors import ThroughtimeWarning
from throughtime.gpu.driver import load_or_build

SIZE = 200_000
WORKER = f"""
import os, sys
from throughtime.gpu.driver import load_or_build

def build(key):
    built.append(key)
    return key.encode() * ({SIZE} // len(key))

built, children = [], []
for number in range(5):
    child = os.fork()
    if not child:
        children = []
        break
    children.append(child)
for round in range(20):
    for key in ("one", "two", "three"):
        assert load_or_build(key, lambda: build(key)) == build(key), key
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def forbidden():
    raise AssertionError("it is in the cache")


def test_processes_that_start_at_once_each_get_whole_kernels(folder):
    """One process imports the package, and five more begin as its copies."""
    first = subprocess.Popen([sys.executable, "-c", WORKER], stderr=subprocess.PIPE, text=True)
    # A reader beside them never sees a part of a file.
    while first.poll() is None:
        for key in ("one", "two", "three"):
            assert (
                load_or_build(f"{key}", lambda key=key: key.encode() * (SIZE // len(key)))[:3]
                == key.encode()[:3]
            )
        time.sleep(0.02)
    assert (first.communicate()[1], first.returncode) == ("", 0)
    assert sorted(path.name for path in folder.iterdir()) == ["one.kernel", "three.kernel", "two.kernel"]
    assert load_or_build("one", forbidden) == b"one" * (SIZE // 3)


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "without its checksum"])
def test_a_damaged_file_is_built_again(folder, damage):
    load_or_build("kernel", lambda: b"machine code")
    path = folder / "kernel.kernel"
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[:-1],
            "emptied": b"",
            "changed": whole[:-1] + b"?",
            "without its checksum": b"machine code",
        }[damage]
    )
    assert load_or_build("kernel", lambda: b"machine code") == b"machine code"
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "file"))
    with pytest.warns(ThroughtimeWarning, match="THROUGHTIME_CACHE"):
        assert load_or_build("kernel", lambda: b"machine code") == b"machine code"
    assert load_or_build("kernel", forbidden) == b"machine code"  # kept as long as this process lives
