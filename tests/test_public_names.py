"""`import throughtime as tt` is light, and its names are there."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.forked import run_forked

import throughtime as tt


@pytest.mark.parametrize("name", tt.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(tt, name) is not None
    assert name in dir(tt)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = tt.lode


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, throughtime; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "numpy", "pydantic", "tokenizers", "rich"}


def test_a_translator_imports_no_counted_models_and_no_scores():
    program = "import sys, throughtime.tasks.translate.model; print(*sys.modules)"
    done = run_forked(program)
    loaded = {name for name in done.stdout.split() if name.startswith("throughtime.")}
    assert "throughtime.tasks.translate.network" in loaded
    parts = ("ngram.", "metrics.bleu", "metrics.classification", "metrics.likelihood", "text.languages")
    assert not [name for name in loaded if name.removeprefix("throughtime.").startswith(parts)]


def test_train_and_export_can_be_called_beside_the_subpackages_of_their_names():
    program = """
import throughtime as tt, throughtime.fit.config, throughtime.graphs.graph
for call in (tt.train, tt.export):
    try:
        call("nothing", "nowhere")
    except tt.InputError:
        print("called")
"""
    done = run_forked(program)
    assert done.stdout.split() == ["called", "called"]
