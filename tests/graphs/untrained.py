"""Runs of every task that can be exported, with first weights: an export does not ask how good a model is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import torch

from throughtime.data.datasets import open_dataset
from throughtime.tasks import TASKS

WORDS = "the a cat dog bird sees hears likes small old green tree house river".split()
SIZES = {"embedding_size": 12, "hidden_size": 16, "device": "cpu"}


def sentences(count, seed=1):
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(2, 9))) for _ in range(count)]


def saved(folder: Path, task: str, data: Path, **settings) -> Path:
    """The folder of a model that was built and not trained."""
    predictor = TASKS[task].part("predictor")
    config = predictor.config_type(data=str(data), **settings)
    model = predictor.create(config, open_dataset(str(data)))
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.model.parameters():
            # Biases and transitions begin at zero, where a mistake would not show.
            weight += 0.3 * torch.randn(weight.shape)
        if getattr(model.model, "partner", None) is not None:
            model.model.partner.mixture.copy_(torch.tensor([0.9, 0.6]))  # as validation may choose
    out = folder / f"{task}-{len(list(folder.iterdir()))}"
    model.save(out)
    return out


def translator(folder: Path, **settings) -> Path:
    data = folder / "pairs.tsv"
    data.write_text(
        "".join(f"{one}\t{two}\n" for one, two in zip(sentences(80), sentences(80, 2), strict=True))
    )
    given = {"source": "en", "target": "fr", "tokens": "space", "precision": "float32", **SIZES, **settings}
    return saved(folder, "translate", data, **given)


def language(folder: Path, **settings) -> Path:
    data = folder / "text.txt"
    data.write_text("\n".join(sentences(80)) + "\n")
    return saved(folder, "language", data, **{"tokens": "space", **SIZES, **settings})


def filler(folder: Path, **settings) -> Path:
    data = folder / "blanks.txt"
    data.write_text("\n".join(sentences(80)) + "\n")
    return saved(folder, "fill", data, **{**SIZES, **settings})


def classifier(folder: Path, **settings) -> Path:
    data = folder / "labelled.csv"
    rows = [f"{one},{('city', 'country', 'sea')[number % 3]}\n" for number, one in enumerate(sentences(80))]
    data.write_text("text,label\n" + "".join(rows))
    return saved(folder, "classify", data, **{**SIZES, **settings})


def composer(folder: Path, *, vectors: bool = False, **settings) -> Path:
    """From the labels of a table, or from vectors of two numbers of very different sizes."""
    data = folder / ("described.jsonl" if vectors else "labels.csv")
    rows = [(one, ("city", "sea")[number % 2], number) for number, one in enumerate(sentences(80))]
    if vectors:
        lines = [json.dumps({"text": one, "vector": [900 * number, 0.1]}) for one, _, number in rows]
    else:
        lines = ["text,label", *(f"{one},{label}" for one, label, _ in rows)]
    data.write_text("".join(f"{line}\n" for line in lines))
    given = {**SIZES, "condition_size": 6, "embedding_size": 16}
    return saved(folder, "compose", data, **{**given, **settings})


def tagger(folder: Path, *, chunked: bool = False, **settings) -> Path:
    """A tagger of classes of words, or of chunks of them."""
    data = folder / "orders"
    data.mkdir()
    lines = sentences(80)
    (data / "seq.in").write_text("".join(f"{line}\n" for line in lines))
    names = ("B-thing", "I-thing", "O") if chunked else ("NOUN", "NOUN", "OTHER")
    short = 3 if chunked else 4
    numbers = [[2 if len(word) <= short else len(word) % 2 for word in line.split()] for line in lines]
    tags = [" ".join(names[number] for number in line) for line in numbers]
    (data / "seq.out").write_text("".join(f"{line}\n" for line in tags))
    (data / "label").write_text("".join(f"{('ask', 'order')[len(line) % 2]}\n" for line in lines))
    given = {
        "word_size": 8,
        "character_size": 8,
        "character_hidden_size": 8,
        "hidden_size": 12,
        "device": "cpu",
    }
    return saved(folder, "tag", data, **{**given, **settings})


def forecaster(
    folder: Path, *, helped: bool = False, lift: float = 0.0, names=("north", "south"), **settings
) -> Path:
    """One of two series, this much higher; `helped` by columns named sale and heat."""
    data = folder / "series.csv"
    rows = [
        f"{name},{place},{float(np.sin(place / 3) * size + place / 50 + lift)!r}{',1,2' * helped}\n"
        for name, size in zip(names, (1.0, 7.0), strict=True)
        for place in range(120)
    ]
    data.write_text(f"unique_id,ds,y{',sale,heat' * helped}\n" + "".join(rows))
    given = {"lookback": 24, "horizon": 6, "hidden_size": 12, "device": "cpu"}
    return saved(folder, "forecast", data, **{**given, **settings})
