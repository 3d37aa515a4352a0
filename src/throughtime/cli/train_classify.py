"""`throughtime train classify`: a classifier of whole texts, from a table of texts and labels to a folder."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import after

HELP = """Train a classifier: one label for a whole text.

The data are CSV, TSV or JSON lines with `text` and `label`, other columns by --set, or tagged sentences
that have a label. Without settings it is a bidirectional LSTM over words whose outputs are pooled by
their maximum.

[bold]Examples[/bold]

  throughtime train classify --data reviews.csv --out runs/reviews

  throughtime train classify --data mails.jsonl --set text=body --set label=folder --out runs/mails

  throughtime train classify --data snips-slots --set pooling=attention --out runs/intents
"""
HINTS = after('classify {run} "a text"')

train_classify = TrainCommand(HELP, "classify.task", "classify.config.ClassifyConfig", HINTS).of_texts()
