"""The trainings that `tasks_gpu` measures: a task, its data and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from throughtime.config import build_config
from throughtime.data.datasets import open_dataset
from throughtime.data.embedded import english, pairs
from throughtime.errors import ThroughtimeError
from throughtime.tasks import TASKS

SENTENCES = 2000
"""Number of embedded sentences that take the place of a corpus."""


@dataclass(frozen=True)
class Case:
    """A task, its data and its settings; `embedded` builds data that are always here."""

    name: str
    task: str
    data: str
    embedded: Callable[[], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that name a part of `data`, and mean nothing for embedded data."""


def _tagged() -> list[Any]:
    """Sentences whose words are tagged by their lengths."""
    rows = [text.split() for text in english()[:SENTENCES]]
    return [(row, [f"L{min(len(word), 9)}" for word in row]) for row in rows]


def _labelled() -> list[tuple[str, str]]:
    """Sentences with their first letters as labels."""
    return [(text, text[0]) for text in english()[:SENTENCES]]


def _conditioned() -> list[tuple[str, str]]:
    """The same, with the label first."""
    return [(label, text) for text, label in _labelled()]


def _texts() -> list[str]:
    return list(english()[:SENTENCES])


def _pairs() -> list[tuple[str, str]]:
    return [(one.source, one.target) for one in pairs("en-fr")[:SENTENCES]]


TRANSLATOR = {
    "tokens": "space",
    "max_size": 8000,
    "hidden_size": 512,
    "batch_size": 64,
    "embedding_dropout": 0.2,
    "output_dropout": 0.3,
}
ENGLISH_GERMAN = {"source": "en", "target": "de"}
CASES = (
    Case(
        "language",
        "language",
        "ptb",
        _texts,
        {
            "hidden_size": 650,
            "embedding_size": 650,
            "num_layers": 2,
            "batch_size": 20,
            "weight_drop": 0.0,
            "input_dropout": 0.5,
            "hidden_dropout": 0.5,
            "output_dropout": 0.5,
        },
    ),
    *(
        Case(
            f"translate {structure}",
            "translate",
            "multi30k/tok",
            _pairs,
            {**TRANSLATOR, "structure": structure},
            ENGLISH_GERMAN,
        )
        for structure in ("attention", "conditional")
    ),
    Case("tag", "tag", "snips-slots", _tagged),
    Case("fill", "fill", "ptb", _texts),
    Case("classify", "classify", "snips-slots", _labelled),
    Case("compose", "compose", "snips-slots", _conditioned),
    Case(
        "forecast",
        "forecast",
        "series/ETTh1",
        lambda: "embedded/sine",
        {"model": "recurrent", "lookback": 96, "horizon": 24, "batch_size": 256, "normalise": "last"},
    ),
)
TINY = {
    "language": {"hidden_size": 8, "embedding_size": 8, "batch_size": 4},
    "translate": {"hidden_size": 8, "embedding_size": 8},
    "tag": {"hidden_size": 8, "word_size": 8, "character_size": 4, "character_hidden_size": 4},
    "fill": {"hidden_size": 8, "embedding_size": 8},
    "classify": {"hidden_size": 8, "embedding_size": 8},
    "compose": {"hidden_size": 8, "condition_size": 4},
    "forecast": {"hidden_size": 8, "lookback": 8, "horizon": 4},
}
"""Settings with which each task runs in a moment, to test this benchmark."""


def create(case: Case, device: torch.device, *, tiny: bool = False) -> tuple[Any, Any, str]:
    """A new model of this case on the CPU, its data, and where they come from."""
    declaration = TASKS[case.task]
    precision = "bf16" if device.type == "cuda" else "float32"
    settings = {**case.settings, "epochs": 1000, "precision": precision, "device": str(device)}
    settings |= TINY[case.task] if tiny else {}
    kind = declaration.part("config")
    config = build_config(kind, {"data": case.data, **settings, **case.options}, "benchmark")
    try:
        if tiny:
            raise ThroughtimeError("tiny models train on embedded data")
        dataset, source = open_dataset(config.data, **config.data_options, download=False), case.data
    except ThroughtimeError:
        data = case.embedded()
        source = "embedded"
        config = build_config(kind, {"data": data if isinstance(data, str) else "", **settings}, "benchmark")
        dataset = open_dataset(data, **config.data_options)
    predictor = declaration.part("predictor").create(config, dataset)
    return predictor, dataset, source
