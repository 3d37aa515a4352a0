"""Small untrained models of several tasks, and a server of them in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from tests.adversary.serve.probing import server
from tests.serve.conftest import LINES, PAIRS, SMALL

from throughtime.data.datasets import open_dataset
from throughtime.serve.models import Models
from throughtime.tasks import TASKS


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    """The folder of each model, by its name."""
    data, out = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("runs")
    (data / "lines.txt").write_text("\n".join(LINES) + "\n")
    (data / "pairs.tsv").write_text("".join(f"{en}\t{fr}\n" for en, fr in PAIRS))
    days = (f"{date(2024, 1, 1) + timedelta(t)},{math.sin(t):.4f}\n" for t in range(80))
    (data / "days.csv").write_text("ds,y\n" + "".join(days))
    (data / "labelled.csv").write_text("text,label\n" + "the cat,animal\nsome jazz,music\n" * 20)
    (data / "slots").mkdir()
    (data / "slots" / "seq.in").write_text("bring tea\nis there milk\n" * 20)
    (data / "slots" / "label").write_text("order\nask\n" * 20)
    (data / "slots" / "seq.out").write_text("O B-drink\nO O B-drink\n" * 20)
    small = {"hidden_size": 8, "device": "cpu", "precision": "float32"}
    chosen = {
        "letters": ("language", "lines.txt", {**SMALL, "tokens": "char", "layout": "stream"}),
        "blanks": ("fill", "lines.txt", {**SMALL, "tokens": "space"}),
        "en-fr": ("translate", "pairs.tsv", {**SMALL, "tokens": "space", "source": "en", "target": "fr"}),
        "topics": ("classify", "labelled.csv", SMALL),
        "tags": ("tag", "slots", {**small, "word_size": 8}),
        "days": ("forecast", "days.csv", {**small, "lookback": 1, "horizon": 4, "strategy": "recursive"}),
    }
    for name, (task, file, settings) in chosen.items():
        predictor = TASKS[task].part("predictor")
        config = predictor.config_type(data=str(data / file), **settings)
        predictor.create(config, open_dataset(str(data / file), **config.data_options)).save(out / name)
    return {name: out / name for name in chosen}


@pytest.fixture(scope="session")
def models(folders) -> Models:
    """All of them, opened."""
    return Models.open(list(folders.values()), "cpu")


@pytest.fixture(scope="session")
def host(folders) -> Iterator[str]:
    """Where a server of all of them listens, in a process of its own."""
    with server(list(folders.values()), timeout=4.0) as found:
        yield found
