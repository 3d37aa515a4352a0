"""`throughtime train translate`: a translator, from a file of sentence pairs to a folder."""

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

HINTS = ("evaluate {run} --split test", 'translate {run} "a sentence"')


@reported
def train_translate(
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
    """Train a translator: an encoder, a decoder, and attention between them.

    Without settings it is a bidirectional GRU with attention over parts of words. Sentences are validated by
    BLEU, and three of them are shown after each epoch.

    [bold]Examples[/bold]

      throughtime train translate --data pairs.tsv --source en --target fr --out runs/en-fr

      throughtime train translate --data multi30k/tok --source en --target de --set epochs=30 --out runs/en-de

      throughtime train translate --data embedded/en-fr --set structure=context-and-input --out runs/plain

      throughtime train translate --show-config > my.yaml
    """
    from throughtime.tasks.translate_config import TranslateConfig

    given = settings_of(config, settings, {"data": data, "source": source, "target": target})
    if show_config:
        return shown_config(TranslateConfig, given)
    from throughtime.tasks import translate

    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, HINTS)
    return train(translate, given, request)
