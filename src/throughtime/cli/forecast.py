"""`throughtime forecast`: the rows that come after a series' last, as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model, open_data_for, report_skipped
from throughtime.cli.k_steps import k_step_outcome, read_steps
from throughtime.cli.options import DateFormat, Device, Run, SkipBad, check_pictures, refuse
from throughtime.cli.output import Outcome, as_command, say
from throughtime.files import check_file

if TYPE_CHECKING:
    from throughtime.results import Forecast
    from throughtime.tasks.forecast.predictor import SeriesForecaster

ROWS_SHOWN = 12


@as_command
def forecast(
    run: Run,
    h: Annotated[
        int | None, typer.Option("--h", help="Rows to forecast; as trained if not given.", min=1, max=100_000)
    ] = None,
    level: Annotated[
        list[float] | None,
        typer.Option(help="An interval that should cover so many per cent; may be given again."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Series to go on from, other than those of training.")
    ] = None,
    future: Annotated[
        Path | None, typer.Option(help="A CSV file with the columns that are known of the rows to come.")
    ] = None,
    paths: Annotated[
        int,
        typer.Option(
            help="Number of sample paths to draw; they become columns of --out and --json.",
            min=0,
            max=100_000,
        ),
    ] = 0,
    k_steps: Annotated[
        str | None,
        typer.Option(
            help="Predict every row k steps ahead, instead of the future, for each of these k: 1,4,16,64."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the forecasts: .png, .svg or .pdf.")] = None,
    date_format: DateFormat = None,
    device: Device = "auto",
    skip_bad: SkipBad = False,
) -> Outcome:
    """Forecast the rows after the last one of every series.

    The table has the columns unique_id, ds, the model's name, and for each level the ends of its interval.
    A head of points has intervals once `backtest --save-intervals` has measured them. Paths of a model with
    strategy=direct are drawn row by row, so that sums over them look surer than they are; those of a
    recursive model hang together.

    With --k-steps every row of the series is predicted from the data up to k rows before it: a recursive
    model reads its own outputs in between. The error is measured for each k, on the rows that were not used
    for training.

    [bold]Examples[/bold]

      throughtime forecast runs/sales --level 80 --level 95 --out sales.csv --plot sales.png

      throughtime forecast runs/load --data today.csv --future weather.csv --json

      throughtime forecast runs/sine --k-steps 1,4,16,64 --plot steps.png
    """
    from throughtime.data.readers.panel import panel_of, read_future

    check_pictures(plot)
    steps = None if k_steps is None else read_steps(k_steps)
    if steps is not None:
        problem = "is for forecasts of the future; leave it out, or leave out --k-steps"
        refuse(problem, h=h, level=level, future=future, paths=paths or None, out=out)
    if out is not None:
        check_file(out)
    model: SeriesForecaster = load_model(run, device, "forecast")
    levels = sorted(set(level or ()))
    config = model.config
    dataset = open_data_for(run, config, data or config.data, date_format=date_format, skip_bad=skip_bad)
    panel = panel_of(dataset, config.roles)
    report_skipped(dataset)
    for note in panel.notes:
        say(note)
    if steps is not None:
        own = data in (None, config.data)
        return k_step_outcome(run, model, dataset.name, panel, steps, own, plot)
    known = None
    if future is not None:
        known = read_future(future, config.known, date_format or config.date_format)
    rows = h or model.model.horizon
    found = model.forecast(panel, h=rows, level=levels, future=known, paths=paths)
    columns, table = _rows(found, model.name, levels)
    if out is not None:
        _write(out, columns, table)
    if plot is not None:
        from throughtime import plots

        plots.forecast(found, panel, levels, path=plot)
    values = {
        "run": str(run),
        "data": dataset.name,
        "model": model.name,
        "h": rows,
        "levels": levels,
        "out": None if out is None else str(out),
        "plot": None if plot is None else str(plot),
        "rows": [dict(zip(columns, row, strict=True)) for row in table],
    }
    return Outcome(values, _shown(columns, table, out, plot))


def _rows(
    forecasts: Sequence[Forecast], name: str, levels: Sequence[float]
) -> tuple[list[str], list[list[Any]]]:
    """The columns of the table, and its rows."""
    from throughtime.results import format_times
    from throughtime.runtime.forecast import ends

    bounds = [
        (f"{name}-{side}-{level:g}", each)
        for level in levels
        for side, each in zip(("lo", "hi"), ends(level), strict=True)
    ]
    drawn = 0 if forecasts[0].samples is None else len(forecasts[0].samples)
    columns = ["unique_id", "ds", name, *(column for column, _ in bounds)]
    columns += [f"{name}-path-{number}" for number in range(1, drawn + 1)]
    rows: list[list[Any]] = []
    for one in forecasts:
        numbers = [one.mean, *(one.quantiles[each] for _, each in bounds)]
        numbers += [] if one.samples is None else list(one.samples)
        for step, ds in enumerate([] if one.ds is None else format_times(one.ds)):
            rows.append([one.unique_id, ds, *(float(each[step]) for each in numbers)])
    return columns, rows


def _write(out: Path, columns: list[str], rows: list[list[Any]]) -> None:
    import csv

    from throughtime.files import whole_file

    with whole_file(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([*row[:2], *(f"{value:.10g}" for value in row[2:])] for row in rows)


def _shown(columns: list[str], rows: list[list[Any]], out: Path | None, plot: Path | None) -> list[Any]:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    shown = [number for number, column in enumerate(columns) if "-path-" not in column]
    for number in shown:
        heading = columns[number].removeprefix(f"{columns[2]}-")
        table.add_column(heading, justify="left" if number < 2 else "right", no_wrap=True)
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(row[number] if number < 2 else f"{row[number]:.6g}" for number in shown))
    told: list[Any] = [table]
    if len(rows) > ROWS_SHOWN:
        told.append(
            f"and {len(rows) - ROWS_SHOWN:,} rows more" + ("" if out else "; --out writes all of them")
        )
    told += [f"Wrote {path}." for path in (out, plot) if path is not None]
    return told
