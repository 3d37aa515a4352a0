"""`throughtime train tag`: a tagger, from a file of tagged sentences to a folder."""

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

HINTS = ("evaluate {run} --split test", 'tag {run} "a sentence in words"')


@reported
def train_tag(
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
    """Train a tagger: a label for each word, and for the sentence where the data have one.

    Without settings it is a bidirectional LSTM over words and their letters, with a CRF on top. Tags that
    mark chunks (B-PER, I-PER, O) are judged by F1, others by accuracy.

    [bold]Examples[/bold]

      throughtime train tag --data ud-english-ewt --out runs/ewt

      throughtime train tag --data snips-slots --out runs/snips

      throughtime train tag --data train.conll --set crf=false --set hidden_size=300 --out runs/mine

      throughtime train tag --data train.conll --set language_models=\\[runs/left,runs/right] --out runs/with
    """
    from throughtime.tasks.tag_config import TagConfig

    given = settings_of(config, settings, {"data": data})
    if show_config:
        return shown_config(TagConfig, given)
    from throughtime.tasks import tag

    return train(tag, given, Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS))
