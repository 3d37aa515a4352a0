"""`throughtime compare`: which of some translators is better, and whether that may be chance."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from throughtime.cli.inputs import load_model, open_data, report_skipped, skips_bad
from throughtime.cli.options import ScoringOptions
from throughtime.cli.output import Outcome, as_command, build_table, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.metrics.significance import Comparison

SURE = 0.05


@as_command
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of two or more trained models.", metavar="RUN RUN...")
    ],
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
        samples: Number of times the test set is resampled.
        anyway: State p-values even if a model was trained on sentences of the test set.
    """
    from rich.text import Text

    from throughtime.metrics.significance import paired_bootstrap
    from throughtime.tasks.translate.evaluation import SentencePairs

    if len(runs) < 2:
        raise InputError("compare", "needs two runs or more")
    if len(set(runs)) < len(runs):
        raise InputError("compare", "was given one run twice; name different ones")
    models = [load_model(run, device, "translate") for run in runs]
    first = models[0].config
    for run, model in zip(runs, models, strict=True):
        if model.config.data_options != first.data_options:
            raise InputError(
                str(run),
                f"translates {model.direction or 'in another direction'}, but the first run "
                f"{models[0].direction}; compare models of one direction",
            )
    name = data or first.data
    skip_bad = skips_bad(skip_bad, runs[0], name, first.data)
    dataset = open_data(name, source=first.source, target=first.target, skip_bad=skip_bad)
    pairs = SentencePairs.of(dataset, split)
    report_skipped(dataset)
    seen = {str(run): model.count_seen(dataset, split) for run, model in zip(runs, models, strict=True)}
    systems = {}
    for run, model in zip(runs, models, strict=True):
        with progress_bar(str(run)) as advance:
            answers = model.translate(
                pairs.sources,
                num_beams=options["num_beams"],
                length_penalty=options["length_penalty"],
                shortlist=options["shortlist"],
                progress=advance,
            )
        systems[str(run)] = [one.text for one in answers]
    measures = paired_bootstrap(
        systems,
        pairs.references,
        tokenize=options["tokenize"],
        lowercase=options["lowercase"] or any(model.lowercase for model in models),
        language=first.target,
        samples=samples,
    )
    notes = [f"{run}: {count or 'does not know its training records'}" for run, count in seen.items()]
    refused = not anyway and any(count is not None and count.is_certain for count in seen.values())
    if refused:
        measures = [one.without_p_values() for one in measures]
        notes.append(
            "Differences on sentences of the training data may not hold for others, so there are no "
        )
        notes[-1] += "p-values: compare on other data, or set --anyway."
    values = {
        "data": name,
        "split": split,
        "sentences": len(pairs.sources),
        "trained_on": {run: count and count.trained_on for run, count in seen.items()},
        "measures": {one.measure.lower(): asdict(one) for one in measures},
    }
    about = f"{name}, {split}: {len(pairs.sources):,} sentences"
    about += "" if refused else ", p against the first run"
    signatures = "\n".join(f"{one.measure}|{one.signature}" for one in measures)
    return Outcome(values, [about, draw_scores(measures), *map(Text, notes), f"[dim]{signatures}[/dim]"])


def draw_scores(measures: list[Comparison]) -> Table:
    """One row for each system; a score in bold differs from the first by more than chance."""
    shown = build_table(
        "run", *(heading for one in measures for heading in (f">{one.measure}", ">95 %", ">p"))
    )
    for number, system in enumerate(measures[0].systems):
        cells = [system.name]
        for one in measures:
            own = one.systems[number]
            sure = own.p_value is not None and own.p_value < SURE
            cells += [
                f"[bold]{own.value:.2f}[/bold]" if sure else f"{own.value:.2f}",
                f"±{own.interval:.2f}",
                "" if own.p_value is None else f"{own.p_value:.3f}",
            ]
        shown.add_row(*cells)
    return shown
