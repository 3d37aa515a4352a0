"""`throughtime forecast`: the rows that come after a series' last, as a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from throughtime.cli.inputs import load_model, open_like_training, read_numbers, report_skipped
from throughtime.cli.options import Run, SeriesOptions, check_pictures, refuse
from throughtime.cli.output import Outcome, as_command, build_table, draw_figure, progress_bar, say
from throughtime.files import check_file
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.data.panel import Panel
    from throughtime.results import Forecast
    from throughtime.tasks.forecast.model import SeriesForecaster

ROWS_SHOWN = 12


@as_command
def forecast(
    run: Run,
    future: Path | None = None,
    paths: Annotated[int, typer.Option(min=0, max=100_000)] = 0,
    k_steps: str | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    device: str = "auto",
    **options: Unpack[SeriesOptions],
) -> Outcome:
    """Forecast the rows after the last one of every series.

    The table has the columns unique_id, ds, the model's name, and for each level the ends of its interval.
    A model that predicts points has intervals once `backtest --save-intervals` has measured them. If the
    model has strategy=direct, each row of a sample path is drawn independently, so sums over a path vary too
    little; with strategy=recursive, the rows of a path depend on each other.

    With --k-steps, the rows of the data are predicted instead of the future, each from the data up to k rows
    before it; in between, a recursive model reads its own outputs. The error is measured for each k, on the
    rows that were not used for training.

    [bold]Examples[/bold]

      throughtime forecast runs/sales --level 80 --level 95 --out sales.csv --plot sales.png

      throughtime forecast runs/load --data today.csv --future weather.csv --json

      throughtime forecast runs/sine --k-steps 1,4,16,64 --plot steps.png

    Args:
        future: CSV file with the known columns for the rows to forecast.
        paths: Number of sample paths to draw, as columns of --out and --json.
        k_steps: Predict each row of the data from the rows up to k before it, for k such as 1,4,16.
        out: CSV file to write.
    """
    check_pictures(plot)
    steps = None if k_steps is None else read_numbers(k_steps, "--k-steps", "1,4,16", kind=int)
    h, level = options["h"], options["level"]
    if steps is not None:
        problem = "is for forecasts of the future; leave it out, or leave out --k-steps"
        refuse(problem, h=h, level=level, future=future, paths=paths or None, out=out)
    if out is not None:
        check_file(out)
    model, dataset, panel = open_series(run, device, options)
    if steps is not None:
        trained = options["data"] in (None, model.config.data)
        return k_step_outcome(run, model, dataset.name, panel, steps, trained, plot)
    levels = sorted(set(level or ()))
    rows = h or model.model.horizon
    forecasts = model.forecast(
        panel, h=rows, level=levels, future=future, paths=paths, date_format=options["date_format"]
    )
    table = _rows(forecasts, model.name, levels)
    if out is not None:
        _write(out, table)
    draw_figure(plot, "forecast", forecasts, panel, levels)
    values = {
        "run": str(run),
        "data": dataset.name,
        "model": model.name,
        "h": rows,
        "levels": levels,
        "out": out and str(out),
        "plot": plot and str(plot),
        "rows": table,
    }
    return Outcome(values, _render(table, model.name, out))


def open_series(run: Path, device: str, options: SeriesOptions) -> tuple[SeriesForecaster, Dataset, Panel]:
    """The forecaster of a run, and the series to forecast from: those of training unless others are given."""
    from throughtime.data.readers.panel import read_series_panel
    from throughtime.series.notes import describe_outliers

    model: SeriesForecaster = load_model(run, device, "forecast")
    reading = {name: options[name] for name in ("skip_bad", "date_format")}
    dataset = open_like_training(model, options["data"], **reading)
    panel = read_series_panel(dataset, model.config.roles)
    report_skipped(dataset)
    for note in (*panel.notes, *describe_outliers(panel, model.scaling)):
        say(note)
    return model, dataset, panel


def _rows(forecasts: Sequence[Forecast], name: str, levels: Sequence[float]) -> list[dict[str, Any]]:
    """The rows of the table by their columns."""
    from throughtime.results import format_times
    from throughtime.runtime.forecast import ends

    bounds = {
        f"{name}-{side}-{level:g}": end
        for level in levels
        for side, end in zip(("lo", "hi"), ends(level), strict=True)
    }
    rows = []
    for forecast in forecasts:
        columns = {name: forecast.mean, **{column: forecast.quantiles[end] for column, end in bounds.items()}}
        paths: Any = [] if forecast.samples is None else forecast.samples
        columns |= {f"{name}-path-{number}": path for number, path in enumerate(paths, 1)}
        for step, ds in enumerate([] if forecast.ds is None else format_times(forecast.ds)):
            numbers = {column: float(values[step]) for column, values in columns.items()}
            rows.append({"unique_id": forecast.unique_id, "ds": ds, **numbers})
    return rows


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    import csv

    from throughtime.files import whole_file

    with whole_file(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        for name, ds, *numbers in map(dict.values, rows):
            writer.writerow([name, ds, *(f"{number:.10g}" for number in numbers)])
    say(f"wrote {out}")


def _render(rows: list[dict[str, Any]], name: str, out: Path | None) -> list[Any]:
    shown = [column for column in rows[0] if "-path-" not in column]
    headings = [f">{column.removeprefix(f'{name}-')}" for column in shown[2:]]
    table = build_table(*shown[:2], *headings)
    for row in rows[:ROWS_SHOWN]:
        table.add_row(row["unique_id"], row["ds"], *(f"{row[column]:.6g}" for column in shown[2:]))
    more = []
    if len(rows) > ROWS_SHOWN:
        more = [f"and {len(rows) - ROWS_SHOWN:,} more rows" + ("" if out else "; --out writes all of them")]
    return [table, *more]


def k_step_outcome(
    run: Path,
    model: SeriesForecaster,
    name: str,
    panel: Panel,
    steps: Sequence[int],
    trained: bool,
    plot: Path | None,
) -> Outcome:
    """The error for each k, and the figure; on rows not used for training, if there are any."""
    held_out = trained and model.config.timeline.unseen(panel) > 0
    with progress_bar("windows") as advance:
        result = model.k_steps(panel, steps, "heldout" if held_out else "all", advance)
    draw_figure(plot, "k_steps", result, trained=held_out)
    which = "that were not used for training"
    if not held_out:
        which = "which trained the model" if trained else "of these data"
    count = format_count(result.rows, "row")
    about = f"{name}: RMSE over {count} {which}, each predicted from k rows before it"
    values = {
        "run": str(run),
        "data": name,
        "model": model.name,
        **result.to_dict(),
        "tested": "heldout" if held_out else "all",
        "plot": plot and str(plot),
    }
    table = build_table(">k", ">RMSE", rows=[(str(k), f"{error:,.4g}") for k, error in result.rmse.items()])
    return Outcome(values, [about, table])
