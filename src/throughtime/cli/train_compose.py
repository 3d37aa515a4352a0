"""`throughtime train compose`: a writer of texts from a label or a vector."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand

HELP = """Train a writer: a text from one label, or from a vector of numbers.

The data are CSV, TSV or JSON lines with `text` and `label`, tagged sentences that have a label, or JSON
lines with `text` and `vector`, a list of numbers. The label or vector gives a language model its first
state, and stands beside each token that it reads.

[bold]Examples[/bold]

  throughtime train compose --data reviews.csv --out runs/reviewer

  throughtime train compose --data snips-slots --set fed=false --out runs/requests

  throughtime train compose --data weather.jsonl --set tokens=bpe --out runs/reports
"""
HINTS = ("evaluate {run} --split test", "compose {run} --label NAME (or --vector 0.1,0.2)")

train_compose = TrainCommand(HELP, "compose", "compose_config.ComposeConfig", HINTS).of_texts()
