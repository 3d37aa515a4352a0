"""Build a kernel for the CPU with the machine's C++ compiler, and run it as the GPU's driver would."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from throughtime.gpu import driver
from throughtime.gpu.persistent_plan import Plan

COMPILER = shutil.which("g++")
HERE = Path(__file__).parent
MULTIPROCESSORS, SHARED = 132, 227 * 1024
SMALL = Plan(units=16, rows=8, warps=2, held=1, staged=1, held_n=1, ring=2, batch=1)
"""Few threads, and weights in all three places: registers, shared memory, and streaming through the ring."""


FOLDER = HERE.parents[1] / "build" / "emulated"
"""What was compiled stays here for the other processes of the tests and for their next run."""
COMMAND = (COMPILER, "-std=c++17", "-O0", "-w", "-fPIC")


def compile_once(source: Path, into: Path, *options: str) -> Path:
    """Compile a file, unless that was done before."""
    if not into.exists():
        part = into.with_name(f"{into.name}.{os.getpid()}.part")
        done = subprocess.run([*COMMAND, *options, "-o", part, source], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        part.replace(into)
    return into


@functools.cache
def folder() -> Path:
    """The folder of this compiler, in which the system's headers are compiled."""
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
    headers = (HERE / "system.h").read_text()
    key = hashlib.sha256("\n".join([version, *COMMAND, headers]).encode()).hexdigest()[:12]
    path = FOLDER / key
    path.mkdir(parents=True, exist_ok=True)
    (path / "system.h").write_text(headers)
    compile_once(path / "system.h", path / "system.h.gch", "-x", "c++-header")
    return path


def build(name, files, constants, device, *, together=False):
    """What `driver.build` does, without a GPU."""
    library = _library(
        name, tuple(file for file in files if file != "primitives.cuh"), tuple(sorted(constants.items()))
    )
    shared = constants.get("SHARED_BYTES", 0)

    def launch(blocks: int, arguments: ctypes.Structure, stream: int | None = None) -> None:
        library.launch(blocks, shared, ctypes.byref(arguments))

    launch.bind = lambda *given: functools.partial(launch, *given)
    return launch


@functools.cache
def _library(name, files, constants) -> ctypes.CDLL:
    given = "".join(f"#define {key} {value}\n" for key, value in constants)
    arguments = name.split("_")[0].capitalize()
    source = "\n".join(
        [
            '#include "system.h"',
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
    library = compile_once(path.with_suffix(".cpp"), path.with_suffix(".so"), "-shared")
    return ctypes.CDLL(str(library))
