"""`throughtime train translate`: a translator, from a file of sentence pairs to a folder."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import after

HELP = """Train a translator: an encoder, a decoder, and attention between them.

Without settings it is a bidirectional GRU with attention over parts of words. Sentences are validated by
BLEU, and three of them are shown after each epoch.

[bold]Examples[/bold]

  throughtime train translate --data pairs.tsv --source en --target fr --out runs/en-fr

  throughtime train translate --data multi30k/tok --source en --target de --set epochs=30 --out runs/en-de

  throughtime train translate --data embedded/en-fr --set structure=context-and-input --out runs/plain

  throughtime train translate --show-config > my.yaml
"""
HINTS = after('translate {run} "a sentence"')

train_translate = TrainCommand(HELP, "translate.task", "translate.config.TranslateConfig", HINTS).of_pairs()
