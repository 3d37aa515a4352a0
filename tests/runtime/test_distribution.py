"""`throughtime-runtime`: what its build writes runs exports; `make test-install` installs it for real."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tests.graphs import untrained

import throughtime as tt
from throughtime.api import export

SCRIPT = Path(__file__).parents[2] / "runtime" / "hatch_build.py"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules["throughtime"] = None  # whoever imports it fails
import throughtime_runtime
translator, classifier = (throughtime_runtime.load(folder, threads=1) for folder in sys.argv[2:])
print(translator.translate(["the cat"], max_length=5)[0].text)
print(classifier.classify(["the cat"])[0].label, throughtime_runtime.__version__)
assert not {"torch", "pydantic", "onnx", "rich", "typer"} & set(sys.modules)
"""


@pytest.fixture
def build(monkeypatch):
    """The module that builds the distribution; hatchling is there only when it runs for real."""
    name = "hatchling.builders.hooks.plugin.interface"
    stub = types.ModuleType(name)
    stub.BuildHookInterface = object
    parts = name.split(".")
    for place in range(1, len(parts)):
        parent = ".".join(parts[:place])
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, stub)
    spec = importlib.util.spec_from_file_location("hatch_build", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_built_runs_exports_without_throughtime(build, tmp_path):
    build.write_package(tmp_path / "site" / "throughtime_runtime")
    runs = [untrained.translator(tmp_path), untrained.classifier(tmp_path)]
    folders = [str(tmp_path / f"exported-{number}") for number in range(2)]
    for run, folder in zip(runs, folders, strict=True):
        export(run, folder)
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "site"), *folders]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    translator, classifier = (tt.load(run, device="cpu") for run in runs)
    assert done.stdout.splitlines() == [
        translator.translate(["the cat"], max_length=5)[0].text,
        f"{classifier.classify(['the cat'])[0].label} {tt.__version__}",
    ]
    assert build.read_version() == tt.__version__


def test_a_module_that_needs_another_package_stops_the_build(build, tmp_path):
    (tmp_path / "heavy.py").write_text("import json\nfrom torch import nn\n")
    with pytest.raises(AssertionError, match=r"throughtime\.heavy .*torch"):
        build.check_imports("throughtime.heavy", tmp_path / "heavy.py")


def test_registries_are_followed_and_names_changed(build, tmp_path):
    (tmp_path / "table.py").write_text(
        'NAMES = {"a": "throughtime.text.tokenizer:Some", "b": "no.module:x"}\n'
    )
    assert build.imported(tmp_path / "table.py") == ["throughtime.text.tokenizer"]
    text = "from throughtime.errors import InputError  # pip install 'throughtime[onnx]'"
    assert build.rename(text) == text.replace("throughtime.errors", "throughtime_runtime.errors")
