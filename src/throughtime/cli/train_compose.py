"""`throughtime train compose`: a writer of texts from a label or a vector."""

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

HINTS = ("evaluate {run} --split test", "compose {run} --label NAME (or --vector 0.1,0.2)")


@reported
def train_compose(
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
    """Train a writer: a text from one label, or from a vector of numbers.

    The data are CSV, TSV or JSON lines with `text` and `label`, tagged sentences that have a label, or JSON
    lines with `text` and `vector`, a list of numbers. The label or vector gives a language model its first
    state, and stands beside each token that it reads.

    [bold]Examples[/bold]

      throughtime train compose --data reviews.csv --out runs/reviewer

      throughtime train compose --data snips-slots --set fed=false --out runs/requests

      throughtime train compose --data weather.jsonl --set tokens=bpe --out runs/reports
    """
    from throughtime.tasks.compose_config import ComposeConfig

    given = settings_of(config, settings, {"data": data})
    if show_config:
        return shown_config(ComposeConfig, given)
    from throughtime.tasks import compose

    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS)
    return train(compose, given, request)
