"""The runner needs no torch, and says in a sentence what is wrong with a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.export import untrained

import throughtime as tt
from throughtime.errors import InputError, ThroughtimeError
from throughtime.tasks.exporting import export

PROGRAM = """
import sys
sys.modules["torch"] = sys.modules["pydantic"] = sys.modules["typer"] = None  # whoever imports them fails
import throughtime as tt
translator, language = (tt.runtime.load(folder, threads=1) for folder in sys.argv[1:])
print(translator.translate(["the cat"], num_beams=2, max_length=5)[0][0].text)
print(language.generate("the", max_new_tokens=4, greedy=True)[0].text)
allowed = {"onnxruntime", "numpy", "tokenizers", "throughtime"}
heavy = {"onnx", "sacrebleu", "safetensors", "rich", "yaml", "matplotlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


@pytest.fixture
def exported(tmp_path):
    export(untrained.language(tmp_path), tmp_path / "exported")
    return tmp_path / "exported"


def test_it_runs_where_there_is_no_torch(tmp_path):
    runs = [untrained.translator(tmp_path, tokens="bpe", max_size=300), untrained.language(tmp_path)]
    folders = [str(tmp_path / f"exported-{number}") for number in range(2)]
    for run, folder in zip(runs, folders, strict=True):
        export(run, folder)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    translation, text = done.stdout.splitlines()
    model = tt.load(runs[0], device="cpu")
    assert translation == model.translate(["the cat"], num_beams=2, max_length=5)[0][0].text
    assert text.startswith("the")


def test_nobody_is_told_of_what_runs(tmp_path):
    """onnxruntime would keep what it tells its makers in the user's cache until it is sent."""
    silent = {"CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
    own = {name: value for name, value in os.environ.items() if name not in silent}
    own |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = "from throughtime.runtime.session import import_onnxruntime; import_onnxruntime()"
    subprocess.run([sys.executable, "-c", program], env=own, check=True)
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder; `throughtime export RUN --out` makes one"):
        tt.runtime.load(tmp_path / "none")
    with pytest.raises(InputError, match="holds no export"):
        tt.runtime.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "another"}, "was not written by `throughtime export`"),
        ({"version": 99}, "has version 99, this release reads up to 1"),
        ({"task": "dance"}, "unknown task 'dance'"),
        ({"parts": {"model": "gone.onnx"}}, "is missing; the folder is not whole"),
    ],
)
def test_a_foreign_or_torn_folder_is_refused(exported, change, sentence):
    values = json.loads((exported / "export.json").read_text())
    (exported / "export.json").write_text(json.dumps(values | change))
    with pytest.raises(InputError, match=sentence):
        tt.runtime.load(exported)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000], ids=["deep", "long"])
def test_json_past_all_bounds_is_refused(exported, text):
    (exported / "export.json").write_text(text)
    with pytest.raises(InputError, match=r"export\.json: nests too deeply, or holds a number of too many"):
        tt.runtime.load(exported)


def test_a_torn_graph_is_refused(exported):
    (exported / "model.onnx").write_bytes(b"half a gra")
    with pytest.raises(ThroughtimeError, match="onnxruntime cannot open it"):
        tt.runtime.load(exported)


def test_threads_are_counted_from_one(exported):
    with pytest.raises(InputError, match="threads: is 0, expected 1 or more"):
        tt.runtime.load(exported, threads=0)
