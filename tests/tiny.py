"""Data and settings of every task that `train` knows, small enough to train all of them in seconds."""

from __future__ import annotations

import json
import math
import random

NUMBERS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq"}
EVEN = {"two", "four"}

SMALL = {
    "language": {"tokens": "word", "embedding_size": 12, "hidden_size": 12, "num_steps": 10},
    "translate": {
        "source": "en",
        "target": "fr",
        "tokens": "space",
        "embedding_size": 16,
        "hidden_size": 16,
        "valid_beams": 1,
    },
    "tag": {"word_size": 12, "character_size": 6, "character_hidden_size": 6, "hidden_size": 8},
    "fill": {"embedding_size": 16, "hidden_size": 16, "num_layers": 1, "mask_share": 0.3},
    "classify": {"embedding_size": 12, "hidden_size": 8},
    "compose": {"hidden_size": 16, "condition_size": 8},
    "forecast": {"hidden_size": 8, "lookback": 8, "horizon": 4},
}
"""What makes a model of each task small."""
DROPPED = {
    "language": ("input_dropout", "hidden_dropout", "output_dropout", "weight_drop"),
    "translate": ("embedding_dropout", "encoder_dropout", "hidden_dropout", "output_dropout"),
    "tag": ("word_dropout", "input_dropout", "hidden_dropout", "output_dropout"),
    "fill": ("embedding_dropout", "hidden_dropout", "output_dropout"),
    "classify": ("word_dropout", "embedding_dropout", "hidden_dropout", "output_dropout"),
    "compose": ("embedding_dropout", "hidden_dropout", "output_dropout"),
    "forecast": ("hidden_dropout", "output_dropout"),
}
"""What each leaves to chance; nothing of it here, so that trainings can be compared."""


def tiny_data(folder):
    """Data for each task: number words, their French, which are even, whether the first is; and a wave."""
    dice = random.Random(1)
    rows = list(dict.fromkeys(tuple(dice.choices(list(NUMBERS), k=dice.randint(2, 5))) for _ in range(180)))
    lines = [" ".join(row) for row in rows]
    kinds = ["even" if row[0] in EVEN else "odd" for row in rows]
    tags = [" ".join("EVEN" if word in EVEN else "ODD" for word in row) for row in rows]
    labelled = "text,label\n" + "".join(f"{line},{kind}\n" for line, kind in zip(lines, kinds, strict=True))
    pairs = zip(lines, (" ".join(NUMBERS[word] for word in row) for row in rows), strict=True)
    wave = "".join(f"{math.sin(2 * math.pi * step / 8):.5f}\n" for step in range(160))
    files = {
        "text.txt": "".join(f"{line}\n" for line in lines),
        "pairs.tsv": "".join(f"{one}\t{other}\n" for one, other in pairs),
        "slots/seq.in": "\n".join(lines),
        "slots/seq.out": "\n".join(tags),
        "slots/label": "\n".join(kinds),
        "labels.csv": labelled,
        "wave.csv": "y\n" + wave,
    }
    (folder / "slots").mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    text, labels = folder / "text.txt", folder / "labels.csv"
    return {
        "ngram": text,
        "language": text,
        "translate": folder / "pairs.tsv",
        "tag": folder / "slots",
        "fill": text,
        "classify": labels,
        "compose": labels,
        "forecast": folder / "wave.csv",
    }


def training(task, data, out, **settings):
    """The words of a command that trains a small model of this task."""
    if task == "ngram":
        return ["train", task, "--data", str(data), "--order", "2", "--out", str(out)]
    still = {"schedule": "constant", "lr": 0.02, "device": "cpu", "precision": "float32", "batch_size": 16}
    chosen = {**SMALL[task], **dict.fromkeys(DROPPED[task], 0.0), **still, **settings}
    words = [word for key, value in chosen.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return ["train", task, "--data", str(data), *words, "--out", str(out)]


def save_untrained(place, **changed):
    """Save an untrained model of each task, whose settings may be `changed`; return their folders."""
    from throughtime.data.datasets import open_dataset
    from throughtime.tasks import TASKS

    found = {}
    for task, data in tiny_data(place).items():
        predictor = TASKS[task].part("predictor")
        settings = {"order": 3} if task == "ngram" else {**SMALL[task], "device": "cpu"}
        kind = {"kind": "series"} if task == "forecast" else {}
        config = predictor.config_type(data=str(data), **settings, **changed.get(task, {}))
        dataset = open_dataset(str(data), **kind)
        model = predictor.create(config, dataset)
        found[task] = place / f"{task}-model"
        (model.count(dataset) if task == "ngram" else model).save(found[task])
    return found
