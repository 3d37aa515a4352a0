"""Run the tests on each Python from 3.11 on that this machine has.

    python tools/matrix.py [3.12 ...]      these versions; by default all that are found

Each version gets an environment in `.matrix/`. Where torch comes without gigabytes of GPU packages, all tests
run; elsewhere torch is left out, and the tests of the packages that do without it run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
WITHOUT_TORCH = [
    *(f"tests/{name}" for name in "text metrics data plots series runtime ngram".split()),
    *(f"tests/test_{name}.py" for name in "config settings files folder".split()),
    *(f"src/throughtime/{name}" for name in "text metrics".split()),
]
"""What is tested without torch; single tests there that need it are skipped by `tests/conftest.py`."""


def main(words: list[str]) -> int:
    """Test on each version, print one line for each, and return 1 if any failed."""
    asked = words or [version for version in VERSIONS if find_python(version) is not None]
    results = {version: test_version(version) for version in asked}
    for version, result in results.items():
        print(f"Python {version}: {result}")
    return 0 if results and all(not result.startswith("FAILED") for result in results.values()) else 1


def find_python(version: str) -> str | None:
    """Return the command of a Python of this version that starts, on the PATH or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    own = shutil.which(f"python{version}")
    for command in [*([own] if own else []), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]:
        shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
        if shown.startswith(f"Python {version}."):
            return command
    return None


def test_version(version: str) -> str:
    """Install into an environment of this version and run the tests; return the outcome in words."""
    command = find_python(version)
    if command is None:
        return "FAILED: not found on this machine"
    place = ROOT / ".matrix" / version
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([command, "-m", "venv", place], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    torch = has_light_torch(python)
    if torch:
        installed = subprocess.run([*pip, "--editable", ".[dev]"], cwd=ROOT, check=False)
    else:
        subprocess.run([*pip, *read_dependencies()], cwd=ROOT, check=True)
        installed = subprocess.run([*pip, "--no-deps", "--editable", "."], cwd=ROOT, check=False)
    if installed.returncode:
        return "FAILED: the installation did not succeed"
    tests = [str(python), "-m", "pytest", "--numprocesses", "logical", "--dist", "worksteal", "-q"]
    tests += [] if torch else WITHOUT_TORCH
    done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
        return "FAILED"
    closing = done.stdout.strip().splitlines()[-1].strip("= ")
    return f"{closing} ({'all tests' if torch else 'without torch: no light build for this version'})"


def has_light_torch(python: Path) -> bool:
    """Tell whether torch installs here without packages for NVIDIA GPUs; only descriptions are fetched."""
    asks = [str(python), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    asks += ["--report", "-", "--constraint", "constraints.txt", "torch"]
    done = subprocess.run(asks, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return False
    names = [one["metadata"]["name"] for one in json.loads(done.stdout)["install"]]
    return not any(name.startswith(("nvidia", "cuda", "triton")) for name in names)


def read_dependencies() -> list[str]:
    """Read what the product, its extras and its tests need, without torch."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    found = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    return [one for one in found if not re.match(r"(torch|throughtime)\b", one)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
