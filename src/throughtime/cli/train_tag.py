"""`throughtime train tag`: a tagger, from a file of tagged sentences to a folder."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import after

HELP = """Train a tagger: a label for each word, and for the sentence where the data have one.

Without settings it is a bidirectional LSTM over words and their letters, with a CRF on top. Tags that
mark chunks (B-PER, I-PER, O) are judged by F1, others by accuracy.

[bold]Examples[/bold]

  throughtime train tag --data ud-english-ewt --out runs/ewt

  throughtime train tag --data snips-slots --out runs/snips

  throughtime train tag --data train.conll --set crf=false --set hidden_size=300 --out runs/mine

  throughtime train tag --data train.conll --set language_models=\\[runs/left,runs/right] --out runs/with
"""
HINTS = after('tag {run} "a sentence in words"')

train_tag = TrainCommand(HELP, "tag.task", "tag.config.TagConfig", HINTS).of_texts()
