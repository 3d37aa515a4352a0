"""`throughtime evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Unpack

import typer

from throughtime.cli.inputs import (
    load_language_model,
    load_model,
    open_like_training,
    read_task_name,
    report_skipped,
)
from throughtime.cli.options import OptionalCount, Run, ScoringOptions, Weights, check_pictures, select_given
from throughtime.cli.output import Outcome, as_command, draw_figure, progress_bar
from throughtime.errors import InputError


class EvaluationOptions(ScoringOptions):
    """The options that are for models of some tasks only.

    Args:
        others: Evaluate together with this run: translators as an ensemble, language models interpolated;
            repeatable.
        measures: Additional measure, such as chrf++ or ter; repeatable.

    Translation:
        search_errors: Count how often the beam misses the most likely sentence.

    Recurrent language models:
        cache: Add a neural cache of the last N tokens.
        cache_theta: Cache: how strongly to prefer similar states; 0.3 by default.
        cache_share: Cache: its share of the probability; 0.1 by default.
        dynamic: Dynamic evaluation: learn from the text at this rate.
        dynamic_decay: How fast the model forgets what it learned; 0.001 by default.
        dynamic_steps: Number of tokens to score before each update; 5 by default.
        dynamic_scaled: Scale updates by the size of each weight's gradients in training.
        window: Read the text in windows of N tokens, each from a new state.
        warm_up: Read the first N tokens of each window without scoring them.
    """

    cache: Annotated[int | None, typer.Option(min=0, max=1_000_000)]
    cache_theta: float | None
    cache_share: float | None
    dynamic: float | None
    dynamic_decay: float | None
    dynamic_steps: int | None
    dynamic_scaled: bool
    window: OptionalCount
    warm_up: Annotated[int | None, typer.Option(min=0)]
    search_errors: bool
    others: Annotated[list[Path] | None, typer.Option("--with", metavar="RUN")]
    weights: Weights
    measures: Annotated[list[str] | None, typer.Option("--measure")]


@as_command
def evaluate(
    run: Run,
    split: str = "test",
    data: str | None = None,
    date_format: str | None = None,
    skip_bad: bool = False,
    device: str = "auto",
    plot: Path | None = None,
    **options: Unpack[EvaluationOptions],
) -> Outcome:
    """Measure a model on a split of its data, or of other data.

    A recurrent language model can learn from the text while it reads: from a neural cache (--cache), by
    dynamic evaluation (--dynamic), or both. Each token is scored before the model learns from it, and the
    saved model does not change. Choose the values of these options on the validation split.

    [bold]Examples[/bold]

      throughtime evaluate runs/ptb-5gram --split test --json

      throughtime evaluate runs/ptb-5gram --data wikitext-2 --split valid

      throughtime evaluate runs/ptb-lstm --split valid --cache 500 --cache-share 0.1

      throughtime evaluate runs/timemachine --window 64 --warm-up 8 --plot positions.png

      throughtime evaluate runs/en-fr --num-beams 10 --length-penalty 1

      throughtime evaluate runs/timemachine --with runs/6gram --split test

      throughtime evaluate runs/en-fr-1 --with runs/en-fr-2 --with runs/en-fr-3

      throughtime evaluate runs/intents --split valid

      throughtime evaluate runs/ett --split test --json

      throughtime evaluate runs/tagger --data other.conll --split all

    Recurrent language models:
        plot: With --window: draw perplexity by position (.png, .svg or .pdf).
    """
    from rich.text import Text

    asked: dict[str, Any] = select_given({**options, "cache": options["cache"] or None})
    check_pictures(plot)
    if plot is not None and asked.keys().isdisjoint({"window", "warm_up"}):
        raise InputError("--plot", "needs --window or --warm-up; give one of them too")
    if read_task_name(run) in ("language", "ngram"):
        others, weights = asked.pop("others", None), asked.pop("weights", None)
        model = load_language_model(run, device, others, weights, choose=True)
    else:
        if "others" in asked:
            asked["others"] = [load_model(other, device, "translate") for other in asked["others"]]
        model = load_model(run, device)
    dataset = open_like_training(model, data, skip_bad=skip_bad, date_format=date_format)
    with progress_bar(split) as step:
        evaluation = model.evaluate(dataset, split=split, progress=step, **asked)
    report_skipped(dataset)
    if plot is not None:
        positions = evaluation.values["by_position"]
        draw_figure(plot, "positions", positions, first=evaluation.values["warm_up"] + 1)
    values = {"run": str(run), "data": data or model.config.data, "split": split, **evaluation.values}
    values |= {"signature": evaluation.signature}
    return Outcome(values, [Text(evaluation.text), Text(evaluation.signature, "dim")])
