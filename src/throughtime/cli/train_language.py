"""`throughtime train language`: a recurrent language model, from a line of words to a folder."""

from __future__ import annotations

from throughtime.cli.opening import SkipBad
from throughtime.cli.output import Debug, Json, Outcome, reported
from throughtime.cli.training import (
    CheckpointName,
    ConfigFile,
    Data,
    FindRate,
    InitFrom,
    Out,
    Request,
    Resume,
    Settings,
    ShowConfig,
    settings_of,
    shown_config,
    train,
)

HINTS = (
    "evaluate {run} --split test",
    'generate {run} --prompt "the " --max-new-tokens 200 --temperature 0.8',
)


@reported
def train_language(
    data: Data = None,
    out: Out = None,
    config: ConfigFile = None,
    settings: Settings = None,
    resume: Resume = False,
    checkpoint: CheckpointName = None,
    init_from: InitFrom = None,
    show_config: ShowConfig = False,
    find_lr: FindRate = False,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Train a recurrent language model: RNN, GRU, LSTM or any other cell.

    [bold]Examples[/bold]

      throughtime train language --data timemachine --out runs/timemachine

      throughtime train language --data ptb --config my.yaml --set lr=1e-3 --set epochs=40 --out runs/ptb

      throughtime train language --data my.txt --out runs/mine --resume

      throughtime train language --show-config > my.yaml

      torchrun --nproc-per-node 2 -m throughtime train language --data ptb --out runs/ptb
    """
    from throughtime.tasks.language_config import LanguageConfig

    given = settings_of(config, settings, {"data": data})
    if show_config:
        return shown_config(LanguageConfig, given)
    from throughtime.tasks import recurrent

    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS)
    return train(recurrent, given, request)
