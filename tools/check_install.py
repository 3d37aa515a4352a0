"""Install the wheel without extras in a fresh environment, use every task, and run exports without torch.

    python tools/check_install.py            build, install, check
    python tools/check_install.py --inside   the checks alone, in the environment that runs this file

Nothing of the checkout is importable during the checks: they run in an empty folder, on an installed wheel.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEED_AN_EXTRA = ("throughtime.serve",)
USES: dict[str, list[list[str]]] = {
    "ngram": [["score", "RUN", "one two"], ["generate", "RUN", "--seed", "1"]],
    "language": [["score", "RUN", "one two"], ["generate", "RUN", "--seed", "1", "--max-new-tokens", "4"]],
    "translate": [["translate", "RUN", "one two"], ["inspect", "RUN", "one two", "--attention", "--json"]],
    "tag": [["tag", "RUN", "one two"]],
    "fill": [["fill", "RUN", "one ___ three"]],
    "classify": [["classify", "RUN", "one two"]],
    "compose": [["compose", "RUN", "--label", "even", "--seed", "1"]],
    "forecast": [["forecast", "RUN", "--h", "4"], ["backtest", "RUN", "--n-windows", "2"]],
}
"""What a user does with a model of each task; every one is evaluated besides."""

TRAIN_IN_PYTHON = """
import json, sys
import throughtime as tt
task, settings, out = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
tt.train(task, out=out, **settings)
"""
USE_IN_PYTHON = """
import sys
import throughtime as tt
model = tt.load(sys.argv[2])
uses = {
    "ngram": lambda: model.score(["one two"])[0].total,
    "language": lambda: model.generate("one two", max_new_tokens=4)[0].text,
    "translate": lambda: model.translate(["one two"])[0].text,
    "tag": lambda: model.tag(["one two"])[0].tags,
    "fill": lambda: model.fill("one ___ three")[0].text,
    "classify": lambda: model.classify(["one two"])[0].label,
    "compose": lambda: model.compose("even", seed=1)[0].text,
    "forecast": lambda: model.forecast(h=4),
}
assert uses[sys.argv[1]]() is not None
"""
EXPORTED = ("translate", "classify")
RUN_EXPORTS = """
import sys, time
import throughtime_runtime
folder = sys.argv[1]
translator = throughtime_runtime.load(f"{folder}/translate", threads=1)
assert translator.translate(["one two"])[0].text is not None
assert throughtime_runtime.load(f"{folder}/classify").classify(["one two"])[0].label
began = time.perf_counter()
for _ in range(20):
    translator.translate(["one two"])
taken = (time.perf_counter() - began) / 20
print(f"ok: exports run without torch, a tiny translator in {1000 * taken:.1f} ms a sentence")
heavy = {"torch", "pydantic", "onnx", "rich", "typer", "throughtime"} & set(sys.modules)
assert not heavy, heavy
"""


def main() -> None:
    """Build the wheels, install them outside the checkout, and run the checks there."""
    if sys.argv[1:] == ["--inside"]:
        check_inside(Path.cwd())
        return
    with tempfile.TemporaryDirectory(prefix="throughtime-install-") as place:
        folder = Path(place)
        wheel, runtime = build(ROOT, folder / "wheel"), build(ROOT / "runtime", folder / "runtime")
        python = install(folder / "environment", str(wheel))
        (folder / "empty").mkdir()
        call([str(python), str(Path(__file__).resolve()), "--inside"], **outside(python, folder / "empty"))
        check_runtime(folder, python, wheel, runtime)


def check_runtime(folder: Path, python: Path, wheel: Path, runtime: Path) -> None:
    """Export two models, and run them in an environment that holds the small distribution alone."""
    shared = set(zipfile.ZipFile(wheel).namelist()) & set(zipfile.ZipFile(runtime).namelist())
    assert not shared, f"both distributions own {sorted(shared)}"
    install(python.parents[1], f"{wheel}[onnx]")
    (folder / "exported").mkdir()
    for task in EXPORTED:
        words = ["export", f"runs/{task}", "--out", str(folder / "exported" / task)]
        call([str(python), "-m", "throughtime", *words], **outside(python, folder / "empty"))
    alone = install(folder / "small", str(runtime))
    installed = subprocess.run([str(alone), "-c", "import torch"], capture_output=True, check=False)
    assert installed.returncode != 0, "torch came along with throughtime-runtime"
    program = ["-c", RUN_EXPORTS, str(folder / "exported")]
    call([str(alone), *program], **outside(alone, folder / "empty"))
    install(python.parents[1], str(runtime))  # beside the whole
    call([str(python), *program], **outside(python, folder / "empty"))
    call([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "throughtime-runtime"])
    call([str(python), "-m", "throughtime", "--version"], **outside(python, folder / "empty"))
    report("throughtime-runtime installs beside throughtime, and leaves it whole")


def build(project: Path, out: Path) -> Path:
    """The wheel of a project."""
    call(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(project)]
    )
    return next(out.glob("*.whl"))


def install(environment: Path, what: str) -> Path:
    """Install into an environment, which is made where there is none; its Python."""
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
    constraints = str(ROOT / "constraints.txt")
    words = [str(python), "-m", "pip", "install", "--quiet", "--constraint", constraints, what]
    for pause in (5, 30):  # a package index may fail for a moment
        if subprocess.run(words, check=False).returncode == 0:
            break
        print(f"pip failed; it is tried again in {pause} s", flush=True)
        time.sleep(pause)
    else:
        call(words)
    call([str(python), "-m", "pip", "check"])
    return python


def outside(python: Path, folder: Path) -> dict[str, Any]:
    """Options of a command that sees nothing of the checkout and finds its own environment first."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = os.pathsep.join([str(python.parent), environment["PATH"]])
    return {"cwd": folder, "env": environment}


def check_inside(folder: Path) -> None:
    """All checks, in the environment that runs them."""
    import throughtime

    installed = Path(throughtime.__file__)
    assert ROOT not in installed.parents, f"{installed} is the checkout, not an installed wheel"
    passed = 0
    for name in module_names():
        importlib.import_module(name)
    passed += report(f"{len(module_names())} modules imported without an optional package")
    run("throughtime", "--help")
    run("throughtime", "--version")
    passed += report("throughtime --help")
    for task, data in tiny().tiny_data(folder).items():
        passed += check_task(task, data, folder)
    everything = [str(one) for one in sorted((folder / "runs").iterdir()) if not one.name.endswith("-python")]
    run("throughtime", "export", *everything, "--format", "html", "--out", str(folder / "all.html"))
    assert (folder / "all.html").stat().st_size > 100_000
    passed += report("all models exported to one HTML file")
    passed += check_refusals(folder)
    print(f"{passed} passed, 0 failed")


def check_task(task: str, data: Path, folder: Path) -> int:
    """Train, evaluate and use a tiny model from the command line and from Python."""
    out = folder / "runs" / task
    command = tiny().training(task, data, out, epochs=1)
    run("throughtime", *command)
    split = "valid" if task == "forecast" else "test"
    run("throughtime", "evaluate", str(out), "--split", split)
    for words in USES[task]:
        run("throughtime", *(word.replace("RUN", str(out)) for word in words))
    run(sys.executable, "-c", USE_IN_PYTHON, task, str(out))
    if task != "ngram":
        pairs = [word.partition("=") for word in command if "=" in word]
        settings = {key: json.loads(value) for key, _, value in pairs} | {"data": str(data)}
        again = out.with_name(f"{task}-python")
        run(sys.executable, "-c", TRAIN_IN_PYTHON, task, json.dumps(settings), str(again))
        same = (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
        assert same, f"{task}: the command line and Python give different weights"
    return report(f"{task}: trained, evaluated and used")


def check_refusals(folder: Path) -> int:
    """Without its extra, a feature answers with one sentence that names it, and writes nothing."""
    model, out = str(folder / "runs" / "language"), folder / "refused"
    commands = {
        "plot": ["stats", "embedded/ramp", "--plot", f"{out}.png"],
        "onnx": ["export", model, "--out", str(out)],
        "serve": ["serve", model, "--port", "0"],
    }
    for extra, words in commands.items():
        done = subprocess.run(["throughtime", *words], capture_output=True, text=True, check=False)
        sentence = f"throughtime[{extra}] @ file:"
        assert done.returncode == 2, done
        assert sentence in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not list(folder.glob("refused*"))
    return report("features of missing extras name the extra")


def module_names() -> list[str]:
    """Every module but those of the features that need an extra."""
    import throughtime

    found = (module.name for module in pkgutil.walk_packages(throughtime.__path__, "throughtime."))
    return [name for name in found if not name.startswith((*NEED_AN_EXTRA, "throughtime.__main__"))]


def tiny() -> object:
    """The tests' module with data and settings of tiny models; it needs the standard library alone."""
    place = str(ROOT / "tests")
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module("tiny")


def run(*words: str) -> None:
    """Run a command; what it printed is shown if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")


def call(words: Sequence[str], **options: Any) -> None:
    """Run a command that prints for itself, and stop here if it fails."""
    done = subprocess.run(words, check=False, **options)
    if done.returncode != 0:
        sys.exit(done.returncode)


def report(sentence: str) -> int:
    """Say that a check passed, and count it."""
    print(f"ok: {sentence}", flush=True)
    return 1


if __name__ == "__main__":
    main()
