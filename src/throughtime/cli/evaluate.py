"""`throughtime evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.inputs import load_model, report_skipped
from throughtime.cli.options import (
    Data,
    DateFormat,
    Device,
    Run,
    SkipBad,
    Split,
    check_pictures,
)
from throughtime.cli.output import Outcome, as_command, download_bars, progress_bar, say
from throughtime.errors import InputError

LANGUAGE = "Recurrent language models"
TRANSLATION = "Translation"


@as_command
def evaluate(
    run: Run,
    split: Split = "test",
    data: Data = None,
    cache: Annotated[
        int | None,
        typer.Option(
            help="Number of last tokens to keep in a neural cache that is mixed in.",
            min=0,
            max=1_000_000,
            rich_help_panel=LANGUAGE,
        ),
    ] = None,
    cache_theta: Annotated[
        float | None,
        typer.Option(
            help="How much likeness of states counts in the cache; 0.3 if not given.",
            rich_help_panel=LANGUAGE,
        ),
    ] = None,
    cache_share: Annotated[
        float | None,
        typer.Option(help="The cache's part of the probability; 0.1 if not given.", rich_help_panel=LANGUAGE),
    ] = None,
    dynamic: Annotated[
        float | None,
        typer.Option(
            help="Learn from what was scored, at this rate: dynamic evaluation.", rich_help_panel=LANGUAGE
        ),
    ] = None,
    dynamic_decay: Annotated[
        float | None,
        typer.Option(
            help="How fast what is learned so is forgotten; 0.001 if not given.", rich_help_panel=LANGUAGE
        ),
    ] = None,
    dynamic_steps: Annotated[
        int | None,
        typer.Option(
            help="Tokens scored before each step of learning; 5 if not given.", rich_help_panel=LANGUAGE
        ),
    ] = None,
    dynamic_scaled: Annotated[
        bool,
        typer.Option(
            "--dynamic-scaled",
            help="Divide a weight's step by how large its gradients are on the training text, which is read "
            "first.",
            rich_help_panel=LANGUAGE,
        ),
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(
            help="Read windows of this number of tokens, each from a new state, not the whole text at once.",
            min=1,
            rich_help_panel=LANGUAGE,
        ),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            help="Number of first tokens of each window to read without counting them.",
            min=0,
            rich_help_panel=LANGUAGE,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="With --window: draw perplexity against the position in a window (.png, .svg or .pdf).",
            rich_help_panel=LANGUAGE,
        ),
    ] = None,
    num_beams: Annotated[
        int | None,
        typer.Option(help="Hypotheses of the beam; 1 is greedy.", min=1, rich_help_panel=TRANSLATION),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="alpha: a score is log P / length^alpha.", min=0, rich_help_panel=TRANSLATION),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="sacrebleu's tokenizer for BLEU: 13a, zh, none, ...; by the language if not given.",
            rich_help_panel=TRANSLATION,
        ),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Judge without regard to case.", rich_help_panel=TRANSLATION)
    ] = False,
    search_errors: Annotated[
        bool,
        typer.Option(
            "--search-errors",
            help="How often the beam misses the model's most likely sentence.",
            rich_help_panel=TRANSLATION,
        ),
    ] = False,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Translate together with this run; give the option once for each.",
            metavar="RUN",
            rich_help_panel=TRANSLATION,
        ),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", help="A further measure, such as chrf++ or ter; repeatable."),
    ] = None,
    date_format: DateFormat = None,
    device: Device = "auto",
    skip_bad: SkipBad = False,
) -> Outcome:
    """Measure a model on a split of its data, or of other data.

    A recurrent language model may learn while it reads, by a neural cache, by dynamic evaluation, or by
    both: each token is scored before it is learned from, and the saved model stays as it is. Choose their
    numbers on the validation split.

    [bold]Examples[/bold]

      throughtime evaluate runs/ptb-5gram --split test --json

      throughtime evaluate runs/ptb-5gram --data wikitext-2 --split valid

      throughtime evaluate runs/ptb-lstm --split valid --cache 500 --cache-share 0.1

      throughtime evaluate runs/timemachine --window 64 --warm-up 8 --plot positions.png

      throughtime evaluate runs/en-fr --num-beams 10 --length-penalty 1

      throughtime evaluate runs/en-fr-1 --with runs/en-fr-2 --with runs/en-fr-3

      throughtime evaluate runs/intents --split valid

      throughtime evaluate runs/ett --split test --json

      throughtime evaluate runs/tagger --data other.conll --split all
    """
    from rich.text import Text

    options = {
        "cache": cache or None,
        "cache_theta": cache_theta,
        "cache_share": cache_share,
        "dynamic": dynamic,
        "dynamic_decay": dynamic_decay,
        "dynamic_steps": dynamic_steps,
        "dynamic_scaled": dynamic_scaled or None,
        "window": window,
        "warm_up": warm_up,
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "tokenize": tokenize,
        "lowercase": lowercase or None,
        "search_errors": search_errors or None,
        "measures": measures or None,
        "others": [load_model(other, device, "translate") for other in others or ()] or None,
    }
    check_pictures(plot)
    if plot is not None and window is None and warm_up is None:
        raise InputError("--plot", "goes with --window or --warm-up, which is missing")
    model = load_model(run, device)
    with download_bars() as advance:
        dataset = model.open_data(data, skip_bad=skip_bad, date_format=date_format, progress=advance)
    asked = {option: value for option, value in options.items() if value is not None}
    with progress_bar(split) as step:
        found = model.evaluate(dataset, split=split, progress=step, **asked)
    report_skipped(dataset)
    if plot is not None:
        from throughtime import plots

        plots.positions(found.values["by_position"], first=found.values["warm_up"] + 1, path=plot)
        say(f"wrote {plot}")
    values = {
        "run": str(run),
        "data": data or model.config.data,
        "split": split,
        **found.values,
        "signature": found.signature,
    }
    return Outcome(values, [Text(found.text), Text(found.signature, "dim")])
