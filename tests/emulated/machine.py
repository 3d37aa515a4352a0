"""Build a kernel for the CPU with the machine's C++ compiler, and run it as the GPU's driver would."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from throughtime.kernels import driver
from throughtime.recurrence.persistent_plan import Plan

COMPILER = shutil.which("g++")
HERE = Path(__file__).parent
MULTIPROCESSORS, SHARED = 132, 227 * 1024
SMALL = Plan(units=16, rows=8, warps=2, held=1, staged=1, held_n=1, ring=2, batch=1)
"""Few threads, and weights in all three places: registers, shared memory, and streaming through the ring."""


@functools.cache
def folder() -> Path:
    path = tempfile.mkdtemp(prefix="throughtime-emulated-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def build(name, files, constants, device, *, together=False):
    """What `driver.build` does, without a GPU."""
    library = _library(
        name, tuple(file for file in files if file != "primitives.cuh"), tuple(sorted(constants.items()))
    )
    shared = constants.get("SHARED_BYTES", 0)

    def launch(blocks: int, arguments: ctypes.Structure) -> None:
        library.launch(blocks, shared, ctypes.byref(arguments))

    return launch


@functools.cache
def _library(name, files, constants) -> ctypes.CDLL:
    given = "".join(f"#define {key} {value}\n" for key, value in constants)
    arguments = name.split("_")[0].capitalize()
    source = "\n".join(
        [
            given,
            (HERE / "cpu.h").read_text(),
            driver.text(files),
            f"static void enter_kernel(const void* given) {{ {name}(*(const {arguments}*)given); }}",
            'extern "C" void launch(int blocks, int shared, const void* given) {',
            "    run_blocks(blocks, shared, enter_kernel, given);",
            "}",
        ]
    )
    path = folder() / hashlib.sha256(source.encode()).hexdigest()[:24]
    path.with_suffix(".cpp").write_text(source)
    command = [COMPILER, "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-o", path.with_suffix(".so")]
    done = subprocess.run([*command, path.with_suffix(".cpp")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(path.with_suffix(".so")))
