"""Tiny models of every task, hardly trained but whole, and servers of them on real sockets."""

from __future__ import annotations

import contextlib
import io
import math
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TextIO

import httpx2
import pytest

from throughtime.data.datasets import open_dataset
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options
from throughtime.serve.server import Server, format_address, listen, listen_unix
from throughtime.tasks import TASKS

LINES = ["the cat sleeps .", "the dog sleeps .", "a cat sees the dog .", "the dog sees a bird ."] * 8
PAIRS = [("the cat sleeps", "le chat dort"), ("the dog sees", "le chien voit"), ("a bird", "un oiseau")] * 12
SMALL = {"embedding_size": 8, "hidden_size": 8, "device": "cpu", "precision": "float32"}


def saved(folder: Path, task: str, data: Path, **settings: Any) -> Path:
    """A model of this task with its first weights, as a run would leave it."""
    predictor = TASKS[task].part("predictor")
    config = predictor.config_type(data=str(data), **settings)
    dataset = open_dataset(str(data), **config.data_options)
    model = predictor.create(config, dataset)
    if task == "translate":  # one that has learned nothing says nothing
        model.fit(dataset, folder)
    else:
        (model.count(dataset) if task == "ngram" else model).save(folder)
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[str, Path]:
    """The folders of a model of each kind, by its name."""
    folder = tmp_path_factory.mktemp("served")
    return save_models(folder / "data", folder / "runs")


def save_models(data: Path, out: Path) -> dict[str, Path]:
    """Save a model of each kind, and its data, in two new folders; return the folders by name."""
    data.mkdir()
    out.mkdir()
    (data / "lines.txt").write_text("\n".join(LINES) + "\n")
    (data / "pairs.tsv").write_text("".join(f"{en}\t{fr}\n" for en, fr in PAIRS))
    (data / "labelled.csv").write_text("text,label\n" + "the cat,animal\nsome jazz,music\n" * 20)
    (data / "series.csv").write_text("y\n" + "".join(f"{math.sin(t):.4f}\n" for t in range(80)))
    (data / "days.csv").write_text(
        "ds,y\n" + "".join(f"{date(2024, 1, 1) + timedelta(t)},{math.sin(t):.4f}\n" for t in range(80))
    )
    slots = data / "slots"
    slots.mkdir()
    (slots / "seq.in").write_text("bring tea\nis there milk\n" * 20)
    (slots / "seq.out").write_text("O B-drink\nO O B-drink\n" * 20)
    (slots / "label").write_text("order\nask\n" * 20)
    rows = {"lookback": 8, "horizon": 4, "head": "quantiles"}
    small = {"hidden_size": 8, "device": "cpu", "precision": "float32"}
    words = {
        **SMALL,
        "tokens": "space",
        "source": "en",
        "target": "fr",
        "num_beams": 2,
        "epochs": 8,
        "lr": 0.03,
        "batch_size": 6,
        "output_bias": "zeros",  # from frequencies, so small a model ends sentences at once
    }
    return {
        "counted": saved(
            out / "counted", "ngram", data / "lines.txt", order=3, layout="lines", tokens="space"
        ),
        "letters": saved(
            out / "letters",
            "language",
            data / "lines.txt",
            tokens="char",
            layout="stream",
            **SMALL,
        ),
        "en-fr": saved(out / "en-fr", "translate", data / "pairs.tsv", **words),
        "blanks": saved(out / "blanks", "fill", data / "lines.txt", tokens="space", **SMALL),
        "tags": saved(out / "tags", "tag", slots, word_size=8, **small),
        "topics": saved(out / "topics", "classify", data / "labelled.csv", **SMALL),
        "composer": saved(out / "composer", "compose", data / "labelled.csv", condition_size=4, **SMALL),
        "waves": saved(out / "waves", "forecast", data / "series.csv", **rows, **small),
        "days": saved(
            out / "days",
            "forecast",
            data / "days.csv",
            **{**rows, "lookback": 1},
            **small,
        ),
    }


@pytest.fixture(scope="session")
def models(runs) -> Models:
    """All of them, opened."""
    return Models.open(list(runs.values()), "cpu")


@contextlib.contextmanager
def serving(
    models: Models,
    options: Options | None = None,
    log: TextIO | None = None,
    tls: ssl.SSLContext | None = None,
    unix_socket: Path | None = None,
) -> Iterator[tuple[Any, str]]:
    """uvicorn in a thread on a free port, or on a Unix socket: the server and its address."""
    app = create_app(models, options or Options(), log=log or io.StringIO())
    with listen("127.0.0.1", 0) if unix_socket is None else listen_unix(unix_socket) as listener:
        server = Server(app, 5.0, tls)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield server, format_address(listener, "http" if tls is None else "https")
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def address(models) -> Iterator[str]:
    """Where a server of all models listens."""
    with serving(models) as (_, found):
        yield found


@pytest.fixture
def client(address) -> Iterator[httpx2.Client]:
    """A client of that server."""
    with httpx2.Client(base_url=address, timeout=20) as found:
        yield found
