"""`throughtime backtest`: how good a forecaster would have been, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model, open_data_for, report_skipped
from throughtime.cli.options import DateFormat, Device, Run, SkipBad, check_pictures
from throughtime.cli.output import Outcome, as_command, progress_bar, say

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.data.panel import Panel
    from throughtime.series.backtest import Backtest
    from throughtime.tasks.forecast.predictor import SeriesForecaster

SERIES_SHOWN = 12
CONFORMAL = "Conformal intervals"


@as_command
def backtest(
    run: Run,
    n_windows: Annotated[int, typer.Option(help="How many origins to forecast from.", min=1, max=10_000)] = 8,
    step_size: Annotated[
        int | None, typer.Option(help="Rows between two origins; the horizon if not given.", min=1)
    ] = None,
    h: Annotated[
        int | None, typer.Option("--h", help="Rows to forecast; as trained if not given.", min=1, max=100_000)
    ] = None,
    level: Annotated[
        list[float] | None,
        typer.Option(help="An interval that should cover so many per cent; may be given again. 80 and 95."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Other data than the model was trained on.")] = None,
    season: Annotated[
        int | None, typer.Option(help="Rows of a season; by the frequency if not given.", min=1)
    ] = None,
    intervals: Annotated[
        str | None,
        typer.Option(
            help="own (the head's), or conformal: absolute, scaled or quantiles; as the model is set if "
            "not given.",
            rich_help_panel=CONFORMAL,
        ),
    ] = None,
    earlier_windows: Annotated[
        int | None,
        typer.Option(
            help="Windows before each tested one that its intervals are made of; up to 100 if not given.",
            min=1,
            rich_help_panel=CONFORMAL,
        ),
    ] = None,
    save_intervals: Annotated[
        bool,
        typer.Option(
            "--save-intervals",
            help="Keep conformal intervals, from up to 100 windows at the end, in RUN for "
            "`forecast --level`.",
            rich_help_panel=CONFORMAL,
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the windows: .png, .svg or .pdf.")] = None,
    plot_steps: Annotated[
        Path | None, typer.Option(help="Draw the error against the steps ahead, likewise.")
    ] = None,
    date_format: DateFormat = None,
    device: Device = "auto",
    skip_bad: SkipBad = False,
) -> Outcome:
    """Forecast from one origin after another, as if the rest had not happened, and measure.

    Beside the model stand the last value (naive), the last season (seasonal-naive), the straight line (drift)
    and a linear map in closed form (ridge), fitted to the rows that trained the model, on the same windows; a
    model that loses to one of them says so. A model of points gets conformal intervals: those of each window
    come from windows that were over before it, so that the coverage is honest. --json has every figure by
    step ahead and by series too.

    [bold]Examples[/bold]

      throughtime backtest runs/load --n-windows 8 --step-size 24 --level 80 --level 95

      throughtime backtest runs/load --plot windows.png --plot-steps errors.png

      throughtime backtest runs/load --intervals conformal --save-intervals
    """
    from throughtime.data.readers.panel import panel_of
    from throughtime.text.texts import several
    from throughtime.version import __version__

    check_pictures(plot, plot_steps)
    model: SeriesForecaster = load_model(run, device, "forecast")
    config = model.config
    name = data or config.data
    dataset = open_data_for(run, config, name, date_format=date_format, skip_bad=skip_bad)
    panel = panel_of(dataset, config.roles)
    report_skipped(dataset)
    for note in panel.notes:
        say(note)
    levels = level or (80, 95)
    unseen = model.unseen(panel) if data in (None, config.data) else None
    with progress_bar("windows") as advance:
        found = model.backtest(
            panel,
            n_windows=n_windows,
            step_size=step_size,
            h=h,
            level=levels,
            season=season,
            intervals=intervals,
            earlier_windows=earlier_windows,
            unseen=unseen,
            progress=advance,
        )
    _warn(found.trained_on)
    if save_intervals:
        with progress_bar("intervals") as advance:
            made = model.save_intervals(
                panel,
                h=h,
                level=levels,
                season=season,
                intervals=intervals,
                unseen=unseen,
                progress=advance,
            )
        _warn(made.trained_on)
        say(f"kept intervals ({made.intervals.kind}) of {made.n_windows} windows in {run}")
        if made.infinite:
            steps = f"{several(made.infinite, 'step')} ahead of a series"
            say(
                f"Of {steps} too few values were observed for {max(levels):g} %: `forecast` refuses it there."
            )
        if model.has_own_intervals:
            say("`forecast` goes on with the head's own: its setting intervals=conformal asks for these.")
    _draw(found, panel, plot, plot_steps)
    kept = f"({found.earlier_windows})" if found.earlier_windows else ""
    how = {
        "data": name,
        "model": model.name,
        "h": found.rolling.h,
        "windows": n_windows,
        "step": found.rolling.step_size,
        "season": found.season,
        "intervals": f"{found.interval_kind}{kept}",
        **({"crps": cut} if (cut := _grid_cut(found)) else {}),
        "version": __version__,
    }
    signature = "|".join(f"{key}:{value}" for key, value in how.items())
    values = {"run": str(run), "data": name, "model": model.name, **found.to_dict(), "signature": signature}
    return Outcome(values, _shown(found, name, signature))


def _warn(windows: int) -> None:
    if windows:
        say(
            f"{windows} of the windows reach into rows that the model was trained on, which flatters it; "
            "ask for fewer windows or smaller steps, or train with a greater test_size."
        )


def _draw(found: Backtest, panel: Panel, plot: Path | None, plot_steps: Path | None) -> None:
    from throughtime import plots

    if plot is not None:
        plots.backtest(found, panel, path=plot)
        say(f"wrote {plot}")
    if plot_steps is not None:
        plots.forecast_error({one.name: one.steps["rmse"] for one in found.figures}, path=plot_steps)
        say(f"wrote {plot_steps}")


def _shown(found: Backtest, name: str, signature: str) -> list[Any]:
    kind = f"conformal ({found.interval_kind}), each from {found.earlier_windows} windows before it"
    if not found.earlier_windows:
        kind = f"none: {found.without}" if found.without else "the model's own"
    covered = " and ".join(f"{level:g} %" for level in found.levels if not found.without)
    covered = f"; under {covered}: how many per cent of the values they cover" if covered else ""
    shown: list[Any] = [
        f"{name}: {found.heading}",
        _table(found),
        f"Intervals: {kind}{covered}",
        *found.notes,
    ]
    if 1 < len(found.figures[0].series) <= SERIES_SHOWN:
        shown.append(_series_table(found))
    return [*shown, f"[dim]{signature}[/dim]"]


def _table(found: Backtest) -> Table:
    """The figures in all, a row for each forecaster."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("MAE", "RMSE", "sMAPE %", "MASE", f"CRPS {_grid_cut(found) or ''}".strip()):
        table.add_column(heading, justify="right")
    for level in found.levels:
        table.add_column(f"{level:g} %", justify="right", no_wrap=True)
        table.add_column("width", justify="right")
    for place, one in enumerate(found.figures):
        cells = [f"{one.total[each]:,.4g}" for each in ("mae", "rmse", "smape", "mase", "crps")]
        for level in found.levels:
            covered, width = (one.total.get(f"{figure}-{level:g}") for figure in ("coverage", "width"))
            cells += ["–" if covered is None else f"{covered:.1f}", "–" if width is None else f"{width:,.4g}"]
        table.add_row(one.name, *cells, style="bold" if place == 0 else None)
    return table


def _grid_cut(found: Backtest) -> str | None:
    """The quantiles that CRPS is taken of, where they are not all that it should be taken of."""
    from throughtime.series.figures import GRID

    return None if found.grid in (GRID, ()) else f"{found.grid[0]:g}-{found.grid[-1]:g}"


def _series_table(found: Backtest) -> Table:
    """MASE of each series, a column for each forecaster."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("MASE of")
    for one in found.figures:
        table.add_column(one.name, justify="right")
    for series in found.figures[0].series:
        table.add_row(series, *(f"{one.series[series]['mase']:.3f}" for one in found.figures))
    return table
