"""Using a model folder opens nothing outside of it: all opened paths are watched."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import mimetypes
import os
import shutil
import site
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from tests.adversary.conftest import change_config
from tests.refusals import refuses

import throughtime as tt
from throughtime.errors import InputError
from throughtime.tasks.description import EXAMPLES, FILE, MAX_LENGTH

OPENED = {"open", "os.listdir", "os.scandir"}
NEVER = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.getaddrinfo"}
WATCHES: list[list[tuple[str, str]]] = []
"""The events of each block that is being watched."""


def _watch(event, arguments):
    if WATCHES and (event in OPENED or event in NEVER):
        WATCHES[-1].append((event, str(arguments[0] if event in OPENED and arguments else arguments)))


@functools.cache
def _install():
    sys.addaudithook(_watch)  # for good: there is no way to remove it


@contextlib.contextmanager
def watched(*allowed):
    """Fail if the block starts a process, or opens a path outside of these folders and the system's own."""
    _install()
    WATCHES.append([])
    try:
        yield
    finally:
        seen = WATCHES.pop()
    own = [sys.prefix, sys.base_prefix, *site.getsitepackages(), *sysconfig.get_paths().values()]
    own += [str(Path(tt.__file__).parents[2]), "/proc", "/sys", os.devnull, tempfile.gettempdir()]
    own += mimetypes.knownfiles
    roots = [Path(root).resolve() for root in (*allowed, *own)]
    strange = []
    for event, text in seen:
        path = Path(text).resolve()
        inside = any(path.is_relative_to(root) for root in roots)
        if event in NEVER or not (text.isdigit() or inside):
            strange.append((event, text))
    assert not strange


SENTENCE = "one two three"
COMMANDS = {
    "ngram": [
        ("generate", "RUN", "--seed", 1),
        ("score", "RUN", SENTENCE),
        ("inspect", "RUN", SENTENCE, "--searches"),
        ("inspect", "markov", "RUN", "--steps", 2),
    ],
    "language": [
        ("generate", "RUN", "--seed", 1),
        ("score", "RUN", SENTENCE),
        ("generate", "RUN", "--with", "RUN", "--weights", "0.5,0.5"),
        ("inspect", "RUN", SENTENCE, "--gates"),
        ("inspect", "RUN", SENTENCE, "--embedding"),
        ("inspect", "RUN", SENTENCE, "--searches"),
        ("inspect", "RUN", "--help"),
    ],
    "translate": [
        ("translate", "RUN", SENTENCE),
        ("inspect", "RUN", SENTENCE, "--attention"),
        ("inspect", "RUN", SENTENCE, "--beam"),
    ],
    "tag": [("tag", "RUN", SENTENCE)],
    "fill": [("fill", "RUN", "one ___ two")],
    "classify": [("classify", "RUN", SENTENCE)],
    "compose": [("compose", "RUN", "--label", "even", "--seed", 1)],
    "forecast": [("forecast", "RUN"), ("backtest", "RUN", "--n-windows", 2), ("evaluate", "RUN")],
}


@pytest.fixture
def hostile(model_folder, tmp_path, monkeypatch):
    """A folder whose configuration names data elsewhere that are there and can be read."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "temporary" / "cache"))

    def build(task):
        folder = model_folder(task)
        data = Path(json.loads((folder / "config.json").read_text())["config"]["data"])
        assert data.exists()
        assert not data.is_relative_to(folder)
        return folder

    return build


@pytest.mark.parametrize("task", COMMANDS)
def test_no_command_that_uses_a_model_opens_its_data(task, hostile, tmp_path, throughtime):
    folder, out = hostile(task), tmp_path / "out"
    out.mkdir()
    exports = [("export", "RUN", "--out", out / "page.html")]
    exports += [("export", "RUN", "--format", "arpa", "--out", out / "m.arpa")] if task == "ngram" else []
    for words in (*COMMANDS[task], *exports):
        with watched(folder, out):
            ran = throughtime(*(folder if word == "RUN" else word for word in words))
        assert ran.code == 0, ran.err


@pytest.mark.parametrize("task", [task for task in COMMANDS if task != "ngram"])
def test_an_onnx_export_opens_no_data(task, hostile, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = hostile(task)
    with watched(folder, tmp_path / "export"):
        _export(folder, tmp_path / "export")


def _export(folder, out):
    out.mkdir()
    tt.load(folder, device="cpu").export(out / "model")
    tt.runtime.load(out / "model")


BODIES = {
    "ngram": [("/v1/completions", {"prompt": "one", "max_tokens": 2}), ("/inspect/next", {"q": "one"})],
    "language": [("/v1/completions", {"prompt": "one", "max_tokens": 2}), ("/inspect/gates", {"q": "one"})],
    "translate": [
        ("/translate", {"q": "one", "source": "en", "target": "fr"}),
        ("/translate", {"q": "<p>one <b>two</b>", "source": "auto", "target": "fr", "format": "html"}),
        ("/inspect/attention", {"q": "one"}),
        ("/inspect/beam", {"q": "one"}),
        ("/detect", {"q": "one"}),
    ],
    "tag": [("/tag", {"q": "one"})],
    "fill": [("/fill", {"q": "one ___"})],
    "classify": [("/classify", {"q": "one"})],
    "compose": [("/compose", {"label": "even", "max_new_tokens": 2})],
    "forecast": [("/inspect/history", {"rows": 3}), ("/forecast", {"series": [{"y": [1.0] * 9}], "h": 2})],
}


def test_no_endpoint_opens_the_data_of_a_model(hostile, tmp_path):
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from throughtime.serve.app import create_app
    from throughtime.serve.models import Models
    from throughtime.serve.requests import Options

    folders = {task: hostile(task) for task in BODIES}
    with watched(*folders.values()):
        models = Models.open(list(folders.values()), "cpu")
        assert not models.left_out
        with TestClient(create_app(models, Options(), log=io.StringIO())) as client:
            paths = client.get("/openapi.json").json()["paths"]
            asked = {path for requests in BODIES.values() for path, _ in requests}
            assert {path for path, kinds in paths.items() if "post" in kinds} == asked
            for path in ("/", "/docs", *(path for path, kinds in paths.items() if "get" in kinds)):
                assert client.get(path.format(name=folders["tag"].name)).status_code == 200, path
            for task, requests in BODIES.items():
                for path, body in requests:
                    model = {} if path == "/detect" else {"model": folders[task].name}
                    answer = client.post(path, json={**body, **model})
                    assert answer.status_code == 200, answer.text


def test_a_file_that_a_configuration_names_is_not_published(model_folder, tmp_path):
    """A stranger's folder names a file with credentials, or a pipe, as its data."""
    pytest.importorskip("fastapi")
    from throughtime.serve.models import Models

    secret, pipe = tmp_path / "credentials.txt", tmp_path / "pipe"
    secret.write_text("password = hunter2 and more\n" * 50)
    os.mkfifo(pipe)
    for data in (secret, pipe):
        folder = change_config(model_folder("language"), data=str(data))
        (folder / FILE).unlink()
        (served,) = Models.open([folder], "cpu", trust_changed=True)
        assert "hunter2" not in json.dumps(served.values())
        page = tmp_path / f"{data.name}.html"
        tt.load(folder, device="cpu", trust_changed=True).export(page)
        assert "hunter2" not in page.read_text()
        tt.load(folder, device="cpu", trust_changed=True).save(tmp_path / f"{data.name}-copy")
        assert "hunter2" not in (tmp_path / f"{data.name}-copy" / "README.md").read_text()
        shutil.rmtree(folder)


@pytest.mark.parametrize("task", COMMANDS)
def test_no_setting_of_a_folder_names_a_file_that_is_opened(task, hostile, tmp_path):
    """Every text among the settings becomes the path of a file elsewhere, or of a pipe."""
    folder, elsewhere = hostile(task), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.json").write_text('{"password": "hunter2"}')
    os.mkfifo(elsewhere / "pipe.json")
    text = (folder / "config.json").read_text()
    config = json.loads(text)["config"]
    loaded = set()
    for name in [name for name, value in config.items() if value is None or isinstance(value, str)]:
        for path in elsewhere.iterdir():
            (folder / "config.json").write_text(text)
            change_config(folder, **{name: str(path)})
            with watched(folder, tmp_path / "copies"), contextlib.suppress(InputError):
                model = tt.load(folder, device="cpu", trust_changed=True)
                model.save(tmp_path / "copies" / "copy")
                shutil.rmtree(tmp_path / "copies")
                loaded.add(name)
    assert "data" in loaded


def test_examples_are_saved_with_the_model_and_shown_as_text(model_folder, tmp_path):
    folder = model_folder("translate")
    examples = tt.load(folder, device="cpu").examples
    assert 0 < len(examples) <= EXAMPLES
    data = Path(json.loads((folder / "config.json").read_text())["config"]["data"]).read_text()
    assert all(f"{text}\t" in data for text in examples)
    hostile = ["<img src=x onerror=alert(1)>", "\x1b[31mred", "two\n\n# lines", "</script><script>alert(2)"]
    (folder / FILE).write_text(json.dumps({"examples": hostile}))
    model = tt.load(folder, device="cpu", trust_changed=True)
    model.save(tmp_path / "copy")
    card = (tmp_path / "copy" / "README.md").read_text()
    assert "\x1b" not in card
    assert all(line.startswith("    ") for line in card.splitlines() if "<" in line or "lines" in line)
    model.export(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<img src=x onerror" not in page
    assert "<script>alert(2)" not in page
    assert tt.load(tmp_path / "copy", device="cpu").examples == model.examples


@pytest.mark.parametrize(
    "content",
    [
        '{"examples": ["a", "a", "a", "a", "a"]}',
        json.dumps({"examples": ["a" * (MAX_LENGTH + 1)]}),
        '{"examples": [1]}',
        '{"examples": "abc"}',
        "{}",
    ],
)
def test_odd_examples_are_refused(content, model_folder):
    folder = model_folder("classify")
    (folder / FILE).write_text(content)
    with refuses(FILE, EXAMPLES, MAX_LENGTH):
        tt.load(folder, device="cpu", trust_changed=True)
