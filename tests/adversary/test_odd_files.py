"""Pipes and devices in place of files, and names of any length: refused at once, in one short sentence."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.refusals import lacks, refuses

import throughtime as tt
from throughtime.data.readers.tables import parquet_rows

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")

LINES = ("train", "language", "--data", "lines.txt", "--out", "new")
COMMANDS = {
    "stats": ("stats", "pipe.txt"),
    "stats of a series": ("stats", "pipe.csv"),
    "tokens of stats": ("stats", "lines.txt", "--tokens", "pipe.json"),
    "references": ("bleu", "lines.txt", "pipe.txt"),
    "hypotheses": ("bleu", "pipe.txt", "lines.txt"),
    "show": ("data", "show", "pipe.txt"),
    "convert": ("data", "convert", "pipe.tsv", "--out", "new.tsv"),
    "convert a packed file": ("data", "convert", "pipe.tsv.gz", "--out", "new.tsv"),
    "convert two files": ("data", "convert", "lines.txt,pipe.txt", "--out", "new.tsv"),
    "batches": ("data", "batches", "pipe.txt"),
    "arpa": ("import", "pipe.arpa", "--out", "new"),
    "config": (*LINES, "--config", "pipe.yaml"),
    "tokens": (*LINES, "--set", "tokens=pipe.json"),
    "weights": (*LINES, "--init-from", "pipe.txt"),
    "keys": ("serve", "RUN", "--key-file", "pipe.txt"),
    "certificate": ("serve", "RUN", "--tls-cert", "pipe.txt"),
    "run": ("score", "pipe.txt", "one two"),
    "texts": ("score", "RUN", "--file", "pipe.txt"),
    "evaluate": ("evaluate", "RUN", "--data", "pipe.txt"),
    "interpolate": ("score", "RUN", "one", "--with", "pipe.txt", "--weights", "0.5,0.5"),
    "ngram": ("train", "ngram", "--data", "pipe.txt", "--out", "new"),
    "language": ("train", "language", "--data", "pipe.txt", "--out", "new"),
    "fill": ("train", "fill", "--data", "pipe.txt", "--out", "new"),
    "translate": ("train", "translate", "--data", "pipe.tsv", "--out", "new"),
    "classify": ("train", "classify", "--data", "pipe.csv", "--out", "new"),
    "tag": ("train", "tag", "--data", "pipe.conllu", "--out", "new"),
    "compose": ("train", "compose", "--data", "pipe.jsonl", "--out", "new"),
    "forecast": ("train", "forecast", "--data", "pipe.csv", "--out", "new"),
    "folder": ("train", "language", "--data", "folder", "--out", "new"),
}
SECONDS = 20


@contextlib.contextmanager
def at_once():
    """Raise an error if the block waits; it takes no time of the processor, so that is not measured."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with some pipes that nobody writes to, or links to an endless device, and lines of text."""
    (tmp_path / "lines.txt").write_text("one two three\n" * 60)
    (tmp_path / "folder").mkdir()
    for name in ("folder/train.txt", *(f"pipe.{suffix}" for suffix in SUFFIXES)):
        os.mkfifo(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SUFFIXES = "txt csv tsv tsv.gz conllu jsonl json yaml arpa".split()


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_is_refused_by_every_command(name, kind, place, model_folder, throughtime):
    if kind == "device":
        for path in [*place.glob("pipe.*"), *place.glob("folder/*")]:
            path.unlink()
            path.symlink_to("/dev/zero")
    run = model_folder("language")
    with at_once():
        ran = throughtime(*(run if word == "RUN" else word for word in COMMANDS[name]))
    assert ran.code == 2, ran.err
    assert ran.err.count("error:") == 1
    assert "--debug" not in ran.err
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["metrics.jsonl", "data.json", "notes.log"])
def test_a_pipe_in_a_model_folder_is_refused(name, model_folder):
    folder = model_folder("language")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with at_once(), refuses(name):
        tt.load(folder, device="cpu", trust_changed=True)


LONG = "x" * 60_000
NAMED = {
    "run": ("score", LONG, "one"),
    "data": ("stats", LONG),
    "folders": ("stats", f"{LONG}/{LONG}"),
    "file": ("stats", "a/" * 2_000 + "b.txt"),
    "out": (*LINES[:4], "--out", LONG),
    "config": (*LINES, "--config", f"{LONG}.yaml"),
    "config of another kind": (*LINES, "--config", LONG),
    "setting": (*LINES, "--set", f"{LONG}=1"),
    "value": (*LINES, "--set", f"cell={LONG}"),
    "word": (*LINES, "--set", LONG),
    "cell": ("inspect", "gradients", "--cell", LONG),
    "command": (LONG,),
    "option": ("stats", f"--{LONG}"),
    "tokens": ("stats", "lines.txt", "--tokens", LONG),
    "device": ("score", "RUN", "one", "--device", LONG),
    "split": ("evaluate", "RUN", "--data", "lines.txt", "--split", LONG),
    "converted": ("data", "convert", "lines.txt", "--out", LONG),
    "corpus": ("data", "fetch", LONG),
    "export": ("export", "RUN", "--out", LONG),
    "figure": ("stats", "lines.txt", "--plot", f"{LONG}.png"),
    "address": ("serve", "RUN", "--host", LONG),
    "socket": ("serve", "RUN", "--unix-socket", LONG),
}


@pytest.mark.parametrize("name", NAMED)
def test_errors_about_long_names_are_short(name, place, model_folder, throughtime):
    run = model_folder("language")
    with at_once():
        ran = throughtime(*(run if word == "RUN" else word for word in NAMED[name]))
    assert ran.code in (1, 2), ran.err
    assert len(ran.err) < 5_000, (len(ran.err), ran.err[:200])
    assert not lacks(ran.err, "...")
    assert "--debug" not in ran.err


def test_a_time_beyond_the_calendar_in_parquet_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "far.parquet"
    parquet.write_table(pyarrow.table({"ds": pyarrow.array([2**62], pyarrow.timestamp("us"))}), path)
    with refuses("far.parquet"):
        list(parquet_rows(path))
