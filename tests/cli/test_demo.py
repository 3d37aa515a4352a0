"""The demo: what a newcomer sees first."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.refusals import lacks

import throughtime as tt
from throughtime.cli.demo import NEW, SETTINGS, run_demo


@pytest.fixture
def few(tmp_path):
    """The demo's settings, on few pairs and with a small model."""
    pairs = itertools.islice(tt.open_dataset("embedded/en-fr").pairs("train"), 240)
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    small = {"embedding_size": 16, "hidden_size": 16, "epochs": 2, "valid_sentences": 4, "max_size": 400}
    return {**SETTINGS, **small, "data": str(data), "precision": "float32"}


def test_the_demo_trains_judges_translates_and_draws(few, tmp_path, capsys):
    outcome = run_demo(tmp_path / "demo", few)
    values = outcome.values
    assert values["run"] == str(tmp_path / "demo" / "en-fr")
    assert 0 <= values["bleu"] <= 100
    assert [one["source"] for one in values["translations"]] == list(NEW)
    assert (tmp_path / "demo" / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert "Training a translator" in capsys.readouterr().err
    again = run_demo(tmp_path / "demo", few)
    assert again.values == values
    assert "Using the translator in" in capsys.readouterr().err


@pytest.mark.slow
def test_what_it_suggests_works_when_pasted(few, tmp_path, monkeypatch):
    """R106: the environment is not activated, as after `make demo`."""
    environment = str(Path(sys.executable).parent)
    outside = [place for place in os.environ["PATH"].split(os.pathsep) if place != environment]
    monkeypatch.setenv("PATH", os.pathsep.join(outside))
    monkeypatch.chdir(tmp_path)
    shown = [part for part in run_demo(Path("demo"), few).shown if isinstance(part, str)]
    suggested = [line.strip() for line in shown if line.startswith("  ")]
    assert len(suggested) == 4
    translated = subprocess.run(suggested[0], shell=True, capture_output=True, text=True)
    assert translated.returncode == 0, translated.stderr
    assert len(translated.stdout.splitlines()) == 3  # a translation and two alternatives
    judged = subprocess.run(suggested[1], shell=True, capture_output=True, text=True)
    assert (judged.returncode, "BLEU" in judged.stdout) == (0, True), judged.stderr
    activate = shown[-1].rpartition(": ")[2]
    version = subprocess.run(f"{activate} && throughtime --version", shell=True, capture_output=True)
    assert version.returncode == 0


def test_a_file_in_its_place_is_said_first(tmp_path, throughtime):
    (tmp_path / "demo").write_text("")
    ran = throughtime("demo", "--out", tmp_path / "demo")
    assert (ran.code, lacks(ran.err, "error:", f"{tmp_path / 'demo'}:")) == (2, [])
