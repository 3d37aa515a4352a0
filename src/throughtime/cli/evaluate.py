"""`throughtime evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.open_data import DateFormat, SkipBad, opened_for, tell_skipped
from throughtime.cli.output import Debug, Json, Outcome, reported, stderr
from throughtime.cli.task_kinds import loaded

Run = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="RUN")]
Device = Annotated[str, typer.Option(help="Where a neural model computes: auto, cpu, cuda, cuda:1.")]
LANGUAGE = "Recurrent language models"
TRANSLATION = "Translation"


@reported
def evaluate(
    run: Run,
    split: Annotated[str, typer.Option(help="train, valid, test, heldout (valid and test) or all.")] = "test",
    data: Annotated[str | None, typer.Option(help="Other data than the model was trained on.")] = None,
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
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Measure a model on a split of its data, or of other data.

    A recurrent language model may learn while it reads, by a neural cache, by dynamic evaluation, or by
    both: each token is scored before it is learned from, and the saved model stays as it is. Choose their
    numbers on the validation split.

    [bold]Examples[/bold]

      throughtime evaluate runs/ptb-5gram --split test --json

      throughtime evaluate runs/ptb-5gram --data wikitext-2 --split valid

      throughtime evaluate runs/ptb-lstm --split valid --cache 500 --cache-share 0.1

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
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "tokenize": tokenize,
        "lowercase": lowercase or None,
        "search_errors": search_errors or None,
        "measures": measures or None,
        "others": [loaded(other, device, "translate") for other in others or ()] or None,
    }
    model = loaded(run, device)
    name = data or model.config.data
    dataset = opened_for(run, model.config, name, date_format=date_format, skip_bad=skip_bad)
    asked = {option: value for option, value in options.items() if value is not None}
    with bar(split) as advance:
        found = model.evaluate(dataset, split=split, progress=advance, **asked)
    tell_skipped(dataset)
    values = {"run": str(run), "data": name, "split": split, **found.values, "signature": found.signature}
    return Outcome(values, [Text(found.text), Text(found.signature, "dim")])


@contextlib.contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr for a text of more than one piece; none where nobody looks."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task(title, total=None)

    def advance(done: int, total: int) -> None:
        if done < total:
            bars.start()
        bars.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bars.stop()
