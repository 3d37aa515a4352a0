"""`throughtime train fill`: a model that fills blanks, from lines of text to a folder."""

from __future__ import annotations

from throughtime.cli.opening import SkipBad, Source, Target
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

HINTS = ("evaluate {run} --split test", 'fill {run} "I am ___."')


@reported
def train_fill(
    data: Data = None,
    source: Source = None,
    target: Target = None,
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
    """Train a model that fills blanks: recurrent layers read a sentence from both ends.

    Each line is a sentence. In every epoch other words of it are hidden behind [MASK], and the model learns
    to tell them from the words before and behind. Of sentence pairs one side is read, the source unless
    --set side=target.

    [bold]Examples[/bold]

      throughtime train fill --data embedded/english --out runs/blanks

      throughtime train fill --data tatoeba-fra-eng --set hidden_size=512 --out runs/tatoeba

      throughtime train fill --data my.txt --set tokens=bpe --out runs/parts

      throughtime train fill --show-config > my.yaml
    """
    from throughtime.tasks.fill_config import FillConfig

    given = settings_of(config, settings, {"data": data, "source": source, "target": target})
    if show_config:
        return shown_config(FillConfig, given)
    from throughtime.tasks import fill

    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS)
    return train(fill, given, request)
