"""`throughtime compare`: which of some translators is better, and whether that may be chance."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from throughtime.cli.inputs import load_model, open_like_training, report_skipped
from throughtime.cli.options import ScoringOptions
from throughtime.cli.output import Outcome, as_command, build_table, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.metrics.significance import Comparison

SURE = 0.05


@as_command
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...")],
    split: str = "test",
    data: str | None = None,
    samples: Annotated[int, typer.Option(min=10)] = 1000,
    device: str = "auto",
    skip_bad: bool = False,
    anyway: bool = False,
    **options: Unpack[ScoringOptions],
) -> Outcome:
    """Translate a split with several models, and compare their scores by paired bootstrap.

    If a model was trained on sentences of the split, its score says little about new sentences, so the
    comparison has no p-values, unless you ask for them with --anyway.

    [bold]Example[/bold]

      throughtime compare runs/plain runs/attention --split test

    Args:
        runs: Folders of two or more trained models.
        samples: Number of times the test set is resampled.
        anyway: State p-values even if a model was trained on sentences of the test set.
    """
    from rich.text import Text

    from throughtime.metrics.significance import paired_bootstrap
    from throughtime.tasks.translate.evaluation import SentencePairs

    models = load_translators(runs, device)
    config = models[0].config
    name = data or config.data
    dataset = open_like_training(models[0], data, skip_bad=skip_bad)
    pairs = SentencePairs.of(dataset, split)
    report_skipped(dataset)
    searching = {key: options[key] for key in ("num_beams", "length_penalty", "shortlist")}
    seen, systems = {}, {}
    for run, model in zip(map(str, runs), models, strict=True):
        seen[run] = model.count_seen(dataset, split)
        with progress_bar(run) as advance:
            answers = model.translate(pairs.sources, progress=advance, **searching)
        systems[run] = [answer.text for answer in answers]
    measures = paired_bootstrap(
        systems,
        pairs.references,
        tokenize=options["tokenize"],
        lowercase=options["lowercase"] or any(model.lowercase for model in models),
        language=config.target,
        samples=samples,
    )
    notes = [f"{run}: {count or 'does not know its training records'}" for run, count in seen.items()]
    refused = not anyway and any(count is not None and count.is_certain for count in seen.values())
    if refused:
        measures = [measure.without_p_values() for measure in measures]
        notes.append(NO_P_VALUES)
    values = {
        "data": name,
        "split": split,
        "sentences": len(pairs.sources),
        "trained_on": {run: count and count.trained_on for run, count in seen.items()},
        "measures": {comparison.measure.lower(): asdict(comparison) for comparison in measures},
    }
    about = f"{name}, {split}: {len(pairs.sources):,} sentences"
    about += "" if refused else ", p against the first run"
    signatures = "\n".join(f"{comparison.measure}|{comparison.signature}" for comparison in measures)
    return Outcome(values, [about, draw_scores(measures), *map(Text, notes), f"[dim]{signatures}[/dim]"])


NO_P_VALUES = (
    "Differences on sentences of the training data may not hold for others, so there are no p-values: "
    "compare on other data, or set --anyway."
)


def load_translators(runs: list[Path], device: str) -> list[Any]:
    """Load two or more different translators of one direction."""
    if len(runs) < 2:
        raise InputError("compare", "needs two runs or more")
    if len(set(runs)) < len(runs):
        raise InputError("compare", "was given one run twice; name different ones")
    models = [load_model(run, device, "translate") for run in runs]
    for run, model in zip(runs, models, strict=True):
        if model.config.data_options != models[0].config.data_options:
            problem = f"translates {model.direction or 'in another direction'}"
            problem += f", but the first run {models[0].direction}; compare models of one direction"
            raise InputError(str(run), problem)
    return models


def draw_scores(measures: list[Comparison]) -> Table:
    """One row for each system; a score in bold differs from the first by more than chance."""
    headings = [heading for comparison in measures for heading in (f">{comparison.measure}", ">95 %", ">p")]
    shown = build_table("run", *headings)
    for number, system in enumerate(measures[0].systems):
        cells = [system.name]
        for score in (comparison.systems[number] for comparison in measures):
            value, p = f"{score.value:.2f}", score.p_value
            cells.append(f"[bold]{value}[/bold]" if p is not None and p < SURE else value)
            cells += [f"±{score.interval:.2f}", "" if p is None else f"{p:.3f}"]
        shown.add_row(*cells)
    return shown
