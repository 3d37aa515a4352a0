"""`throughtime train classify`: a classifier of whole texts, from a table of texts and labels to a folder."""

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

HINTS = ("evaluate {run} --split test", 'classify {run} "a text"')


@reported
def train_classify(
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
    """Train a classifier: one label for a whole text.

    The data are CSV, TSV or JSON lines with `text` and `label`, other columns by --set, or tagged sentences
    that have a label. Without settings it is a bidirectional LSTM over words whose outputs are pooled by
    their maximum.

    [bold]Examples[/bold]

      throughtime train classify --data reviews.csv --out runs/reviews

      throughtime train classify --data mails.jsonl --set text=body --set label=folder --out runs/mails

      throughtime train classify --data snips-slots --set pooling=attention --out runs/intents
    """
    from throughtime.tasks.classify_config import ClassifyConfig

    given = settings_of(config, settings, {"data": data})
    if show_config:
        return shown_config(ClassifyConfig, given)
    from throughtime.tasks import classify

    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS)
    return train(classify, given, request)
