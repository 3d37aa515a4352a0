"""Python in a process of its own, forked from one that has imported torch: starting anew takes two seconds.

Nothing of throughtime is imported there before, so a program may look at what it imports.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

PARENT = r"""
import json, os, sys, traceback
import numpy, pydantic, rich.console, safetensors, tokenizers, torch, typer

def run(task):
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(task[name], os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(task["environment"])
    os.chdir(task["cwd"])
    sys.argv, sys.path[:0] = ["-c", *task["words"]], task["path"]
    try:
        exec(compile(task["code"], "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    child = os.fork()
    if not child:
        run(json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def _parent() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    return process


def run_forked(code: str, *words: object, path: tuple[object, ...] = ()) -> CompletedProcess[str]:
    """Run a program with these arguments; the folders of `path` come first where modules are looked for."""
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        task = {
            "code": code,
            "words": [str(word) for word in words],
            "path": [str(place) for place in path],
            "out": str(out),
            "err": str(err),
            "environment": dict(os.environ),
            "cwd": str(Path.cwd()),
        }
        parent.stdin.write(json.dumps(task) + "\n")
        parent.stdin.flush()
        ended = int(parent.stdout.readline())
        return CompletedProcess(code, ended, out.read_text(), err.read_text())
