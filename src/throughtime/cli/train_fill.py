"""`throughtime train fill`: a model that fills blanks, from lines of text to a folder."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import after

HELP = """Train a model that fills blanks: recurrent layers read a sentence from both ends.

Each line is a sentence. In every epoch other words of it are hidden behind [MASK], and the model learns
to tell them from the words before and behind. Of sentence pairs one side is read, the source unless
--set side=target.

[bold]Examples[/bold]

  throughtime train fill --data embedded/english --out runs/blanks

  throughtime train fill --data tatoeba-fra-eng --set hidden_size=512 --out runs/tatoeba

  throughtime train fill --data my.txt --set tokens=bpe --out runs/parts

  throughtime train fill --show-config > my.yaml
"""
HINTS = after('fill {run} "I am ___."')

train_fill = TrainCommand(HELP, "fill.task", "fill.config.FillConfig", HINTS).of_pairs()
