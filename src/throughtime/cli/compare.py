"""`throughtime compare`: which of some translators is better, and whether that may be chance."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.inputs import load_model, open_data, report_skipped, skips_bad
from throughtime.cli.options import Device, SkipBad
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.metrics.significance import Comparison

SURE = 0.05


@as_command
def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="The folders of two trained models or more.", metavar="RUN RUN...")
    ],
    split: Annotated[str, typer.Option(help="train, valid, test, heldout (valid and test) or all.")] = "test",
    data: Annotated[str | None, typer.Option(help="Other data than the first was trained on.")] = None,
    num_beams: Annotated[int | None, typer.Option(help="Hypotheses of the beam; 1 is greedy.", min=1)] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="alpha: a score is log P / length^alpha.", min=0)
    ] = None,
    tokenize: Annotated[
        str | None, typer.Option(help="sacrebleu's tokenizer for BLEU; by the language if not given.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Judge without regard to case.")] = False,
    samples: Annotated[int, typer.Option(help="Resampled test sets.", min=10)] = 1000,
    device: Device = "auto",
    skip_bad: SkipBad = False,
) -> Outcome:
    """Translate a split with each model, and compare BLEU and chrF with the first one's by paired bootstrap.

    [bold]Example[/bold]

      throughtime compare runs/plain runs/attention --split test
    """
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
                str(run), f"translates {model.direction or 'otherwise'}, the first run {models[0].direction}"
            )
    name = data or first.data
    skip_bad = skips_bad(skip_bad, runs[0], name, first.data)
    dataset = open_data(name, source=first.source, target=first.target, skip_bad=skip_bad)
    pairs = SentencePairs.of(dataset, split)
    report_skipped(dataset)
    systems = {}
    for run, model in zip(runs, models, strict=True):
        with progress_bar(str(run)) as advance:
            told = model.translate(
                pairs.sources, num_beams=num_beams, length_penalty=length_penalty, progress=advance
            )
        systems[str(run)] = [one.text for one in told]
    found = paired_bootstrap(
        systems,
        pairs.references,
        tokenize=tokenize,
        lowercase=lowercase or any(model.lowercase for model in models),
        language=first.target,
        samples=samples,
    )
    values = {
        "data": name,
        "split": split,
        "sentences": len(pairs.sources),
        "measures": {one.measure.lower(): asdict(one) for one in found},
    }
    about = f"{name}, {split}: {len(pairs.sources):,} sentences, p against the first run"
    signatures = "\n".join(f"{one.measure}|{one.signature}" for one in found)
    return Outcome(values, [about, table(found), f"[dim]{signatures}[/dim]"])


def table(found: list[Comparison]) -> Table:
    """A row for each system; a bold score differs from the first by more than chance."""
    from rich.table import Table

    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("run")
    for one in found:
        shown.add_column(one.measure, justify="right")
        shown.add_column("95 %", justify="right")
        shown.add_column("p", justify="right")
    for number, system in enumerate(found[0].systems):
        cells = [system.name]
        for one in found:
            own = one.systems[number]
            sure = own.p_value is not None and own.p_value < SURE
            cells += [
                f"[bold]{own.value:.2f}[/bold]" if sure else f"{own.value:.2f}",
                f"±{own.interval:.2f}",
                "" if own.p_value is None else f"{own.p_value:.3f}",
            ]
        shown.add_row(*cells)
    return shown
