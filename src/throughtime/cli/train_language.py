"""`throughtime train language`: a recurrent language model, from a line of words to a folder."""

from __future__ import annotations

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import after

HELP = """Train a recurrent language model: RNN, GRU, LSTM or any other cell.

[bold]Examples[/bold]

  throughtime train language --data timemachine --out runs/timemachine

  throughtime train language --data ptb --config my.yaml --set lr=1e-3 --set epochs=40 --out runs/ptb

  throughtime train language --data my.txt --out runs/mine --resume

  throughtime train language --show-config > my.yaml

  torchrun --nproc-per-node 2 -m throughtime train language --data ptb --out runs/ptb
"""
HINTS = after('generate {run} --prompt "the " --max-new-tokens 200 --temperature 0.8')

train_language = TrainCommand(HELP, "recurrent", "language_config.LanguageConfig", HINTS).of_texts()
