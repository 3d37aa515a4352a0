"""R106: a core install runs every task, and each extra adds its own feature and nothing else.

The packages of all other extras are hidden from a process of its own, as if they were not installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.forked import run_forked
from tests.graphs import untrained
from tests.tiny import tiny_data, training

from throughtime.errors import install_command

HIDE = """
import json, sys
hidden = set(json.loads(sys.argv.pop(1)))

class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
"""
COMMAND = HIDE + "from throughtime.cli.main import run; run()"
IMPORT_ALL = (
    HIDE
    + """
import importlib, pkgutil, throughtime
names = [found.name for found in pkgutil.walk_packages(throughtime.__path__, "throughtime.")
         if not found.name.startswith(("throughtime.serve", "throughtime.__main__"))]
assert len(names) > 200, names
for name in names:
    importlib.import_module(name)
"""
)
OPEN_EXPORT = HIDE + "import throughtime; throughtime.runtime.load(sys.argv[1])"

REFUSED = {
    "plot": ["stats", "embedded/ramp", "--plot", "OUT.png"],
    "onnx": ["export", "RUN", "--out", "OUT"],
    "serve": ["serve", "RUN", "--port", "0"],
}
"""A command of each extra that has one."""


def packages_of(extra: str = "") -> set[str]:
    """The distributions that `pip install throughtime[EXTRA]` brings along."""
    found: set[tuple[str, str]] = set()
    open_ = [("throughtime", extra)]
    while open_:
        name, wanted = open_.pop()
        if (name, wanted) in found:
            continue
        found.add((name, wanted))
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another platform or Python
            continue
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": wanted}):
                open_ += [(canonicalize_name(need.name), each) for each in ("", *need.extras)]
    return {name for name, _ in found}


def hidden_beside(extra: str = "") -> str:
    """The modules of all packages that this extra does not bring, as JSON."""
    kept = packages_of(extra)
    homes = metadata.packages_distributions()
    return json.dumps(
        sorted(
            module
            for module, distributions in homes.items()
            if not kept & {canonicalize_name(name) for name in distributions}
        )
    )


def start(program: str, extra: str, *words: object, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, hidden_beside(extra), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(program: str, extra: str, *words: object) -> tuple[int, str]:
    done = run_forked(program, hidden_beside(extra), *words)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def language_run(tmp_path_factory) -> Path:
    return untrained.language(tmp_path_factory.mktemp("extras"))


def command(extra: str, language_run: Path, out: Path) -> list[str]:
    return [word.replace("RUN", str(language_run)).replace("OUT", str(out)) for word in REFUSED[extra]]


def test_every_extra_is_tested_here():
    extras = set(metadata.metadata("throughtime").get_all("Provides-Extra") or [])
    assert extras - {"dev", "bench", "parquet"} == {
        *REFUSED,
        "tensorboard",
    }  # parquet: tests/data/test_columns
    hidden = set(json.loads(hidden_beside()))
    optional = {"matplotlib", "onnx", "onnxruntime", "fastapi", "prometheus_client", "uvicorn", "tensorboard"}
    assert {*optional, "scipy"} <= hidden
    assert not {"torch", "numpy", "typer", "throughtime", "tokenizers"} & hidden


def test_no_module_needs_an_optional_package_to_be_imported():
    assert run(IMPORT_ALL, "") == (0, "")


@pytest.mark.parametrize("extra", REFUSED)
def test_without_its_extra_a_feature_names_it(extra, language_run, tmp_path):
    code, said = run(COMMAND, "", *command(extra, language_run, tmp_path / "out"))
    assert code == 2
    assert said.startswith("error: ")
    assert install_command("nothing", extra) in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_export_without_onnxruntime_names_the_extra(language_run, tmp_path):
    from throughtime.api import export

    export(language_run, tmp_path / "exported")
    code, said = run(OPEN_EXPORT, "", tmp_path / "exported")
    assert (code, install_command("onnxruntime", "onnx") in said) == (1, True)
    assert run(OPEN_EXPORT, "onnx", tmp_path / "exported") == (0, "")


ORIGINS = {
    "an index": (None, ["throughtime[plot]"]),
    "a checkout": (
        {"url": "file:///home/me/my%20code", "dir_info": {"editable": True}},
        ["--editable", "/home/me/my code[plot]"],
    ),
    "a folder": ({"url": "file:///home/me/code", "dir_info": {}}, ["/home/me/code[plot]"]),
    "a wheel": (
        {"url": "file:///tmp/throughtime-1-py3-none-any.whl", "archive_info": {}},
        ["throughtime[plot] @ file:///tmp/throughtime-1-py3-none-any.whl"],
    ),
    "a repository": (
        {"url": "https://example.org/it.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
        ["throughtime[plot] @ git+https://example.org/it.git@c0ffee"],
    ),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_extra_is_installed_from_where_throughtime_came(origin, monkeypatch):
    recorded, words = ORIGINS[origin]

    class Distribution:
        def read_text(self, name):
            assert name == "direct_url.json"
            return recorded and json.dumps(recorded)

    monkeypatch.setattr(metadata, "distribution", lambda name: {"throughtime": Distribution()}[name])
    monkeypatch.setenv("PATH", "")
    assert shlex.split(install_command("matplotlib", "plot")) == [
        *[sys.executable, "-m", "pip", "install"],
        *words,
    ]


def test_in_its_folder_and_its_environment_the_command_is_short(monkeypatch, tmp_path):
    class Distribution:
        def read_text(self, name):
            return json.dumps({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})

    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution())
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.chdir(tmp_path)
    assert install_command("matplotlib", "plot") == "pip install --editable '.[plot]'"


def test_without_an_installation_only_the_package_is_named(monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.Distribution.from_name("absent-name"))
    assert install_command("matplotlib", "plot").endswith("pip install matplotlib")


@pytest.mark.parametrize("extra", ["plot", "onnx"])
def test_an_extra_alone_is_enough(extra, language_run, tmp_path):
    code, said = run(COMMAND, extra, *command(extra, language_run, tmp_path / "out"))
    assert code == 0, said
    made = {"plot": "out.png", "onnx": "out/export.json"}[extra]
    assert (tmp_path / made).stat().st_size > 0


def test_the_serve_extra_alone_serves(language_run):
    process = start(COMMAND, "serve", *command("serve", language_run, Path()))
    try:
        first = process.stderr.readline()
        address = re.search(r"http://[\d.]+:\d+", first)
        assert address, first + process.stderr.read()
        with urllib.request.urlopen(f"{address[0]}/health", timeout=30) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", "tensorboard"])
def test_tensorboard_is_written_where_it_is_installed(extra, tmp_path):
    data = tiny_data(tmp_path)["forecast"]
    code, said = run(COMMAND, extra, *training("forecast", data, tmp_path / "run", epochs=1))
    assert code == 0, said
    assert (tmp_path / "run" / "tensorboard").is_dir() == bool(extra)
    assert not os.path.lexists(tmp_path / "run" / "learning-curve.png")
