"""`throughtime train compose`: a writer of texts from a label or a vector."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import judging

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.compose.predictor import TrainedComposer

HELP = """Train a writer: a text from one label, or from a vector of numbers.

The data are CSV, TSV or JSON lines with `text` and `label`, tagged sentences that have a label, or JSON
lines with `text` and `vector`, a list of numbers. The label or vector gives a language model its first
state, and stands beside each token that it reads.

[bold]Examples[/bold]

  throughtime train compose --data reviews.csv --out runs/reviewer

  throughtime train compose --data snips-slots --set fed=false --out runs/requests

  throughtime train compose --data weather.jsonl --set tokens=bpe --out runs/reports
"""


def hints(model: TrainedComposer, dataset: Dataset) -> list[str]:
    """A label or a vector of the kind that the model writes from."""
    if model.labels is None:
        condition = "--vector " + ",".join(["0.1"] * model.width)
    else:
        condition = f"--label {shlex.quote(model.labels.names[0])}"
    return [*judging(dataset), f"compose {{run}} {condition}"]


train_compose = TrainCommand(HELP, "compose.task", "compose.config.ComposeConfig", hints).of_texts()
