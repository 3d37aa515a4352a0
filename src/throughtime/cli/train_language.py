"""`throughtime train language`: a recurrent language model, from a line of words to a folder."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from throughtime.cli.train_command import TrainCommand
from throughtime.cli.training import judging

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.language.task import RecurrentLanguage

HELP = """Train a recurrent language model: RNN, GRU, LSTM or any other cell.

[bold]Examples[/bold]

  throughtime train language --data timemachine --out runs/timemachine

  throughtime train language --data ptb --config my.yaml --set lr=1e-3 --set epochs=40 --out runs/ptb

  throughtime train language --data my.txt --out runs/mine --resume

  throughtime train language --show-config > my.yaml

  torchrun --nproc-per-node 2 -m throughtime train language --data ptb --out runs/ptb
"""
LINES_LOOKED_AT = 1000
WORDS, CHARACTERS = 2, 20  # of a prompt, at most; a script without spaces has long words


def hints(model: RecurrentLanguage, dataset: Dataset) -> list[str]:
    """Judge it, and let it go on from words that it knows."""
    prompt = f" --prompt {shlex.quote(words)}" if (words := known_words(model, dataset)) else ""
    return [*judging(dataset), f"generate {{run}}{prompt} --max-new-tokens 200 --temperature 0.8"]


def known_words(model: RecurrentLanguage, dataset: Dataset) -> str:
    """Words of the vocabulary that lines of the training text often begin with; "" where there are none."""
    codec = model.framing.codec
    lines = (line for text in dataset.texts("train") for line in text.splitlines())
    begun = (" ".join(line.split(maxsplit=WORDS)[:WORDS]) for line in islice(lines, LINES_LOOKED_AT))
    # A mark at the beginning would be an option's, a list's or a dialogue's.
    often = Counter(words[:CHARACTERS] for words in begun if words[:1].isalnum())
    for words, _ in often.most_common():
        if (ids := codec.encode(words)) and codec.vocabulary.unk_id not in ids:
            return words
    return ""


train_language = TrainCommand(HELP, "language.task", "language.config.LanguageConfig", hints).of_texts()
