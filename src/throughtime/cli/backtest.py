"""`throughtime backtest`: how good a forecaster would have been, compared with baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from throughtime.cli.forecast import open_series
from throughtime.cli.options import OptionalCount, Run, SeriesOptions, check_pictures
from throughtime.cli.output import Outcome, as_command, build_table, draw_figure, progress_bar, say
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.data.panel import Panel
    from throughtime.series.backtest import Backtest
    from throughtime.tasks.forecast.model import SeriesForecaster

SERIES_SHOWN = 12


class BacktestOptions(SeriesOptions):
    """The windows to forecast, and their intervals.

    Args:
        step_size: Number of rows between two origins; by default the horizon.
        season: Number of rows in a season; by default derived from the dates.

    Conformal intervals:
        intervals: own: intervals of the model; conformal, or a variant (absolute, scaled, quantiles):
            intervals from past errors. By default as set in training.
        earlier_windows: Number of earlier windows to compute intervals from; by default up to 100.
    """

    step_size: OptionalCount
    season: OptionalCount
    intervals: str | None
    earlier_windows: OptionalCount


@as_command
def backtest(
    run: Run,
    n_windows: Annotated[int | None, typer.Option(min=1, max=10_000)] = None,
    save_intervals: bool = False,
    plot: Path | None = None,
    plot_steps: Path | None = None,
    device: str = "auto",
    **options: Unpack[BacktestOptions],
) -> Outcome:
    """Forecast from several points in the past (origins), without using later rows, and measure the errors.

    The model is compared on the same windows with four baselines: the last value (naive), the last season
    (seasonal-naive), a straight line (drift), and ridge regression fitted to the training rows of the model
    (ridge). If the model loses to one of them, a note says so. A model that predicts points gets conformal
    intervals, which are computed from past errors; those of a window come from earlier windows only, so that
    the reported coverage is realistic. --json also has every figure by step ahead and by series. The levels
    of intervals are 80 and 95 by default.

    [bold]Examples[/bold]

      throughtime backtest runs/load --n-windows 8 --step-size 24 --level 80 --level 95

      throughtime backtest runs/load --plot windows.png --plot-steps errors.png

      throughtime backtest runs/load --intervals conformal --save-intervals

    Args:
        n_windows: Number of origins to forecast from; by default up to 8.
        plot: Draw the windows: .png, .svg or .pdf.
        plot_steps: Draw the error by steps ahead: .png, .svg or .pdf.

    Conformal intervals:
        save_intervals: Save conformal intervals of the last windows for `forecast --level`.
    """
    from throughtime.version import __version__

    check_pictures(plot, plot_steps)
    model, _, panel = open_series(run, device, options)
    name = options["data"] or model.config.data
    shared: dict[str, Any] = {name: options[name] for name in ("h", "season", "intervals")}
    shared["level"] = options["level"] or (80, 95)
    windowing: dict[str, Any] = {
        "n_windows": n_windows,
        **{key: options[key] for key in ("step_size", "earlier_windows")},
    }
    with progress_bar("windows") as advance:
        result = model.backtest(panel, progress=advance, **windowing, **shared)
    count = result.rolling.n_windows
    _warn_of_training(result.trained_on, f"{count} windows", TOO_SMALL)
    _warn_of_training(result.earlier_trained_on, "earlier windows, which only set the intervals,", TOO_NARROW)
    if save_intervals:
        _save_intervals(run, model, panel, shared)
    draw_figure(plot, "backtest", result, panel)
    errors = {figures.name: figures.steps["rmse"] for figures in result.figures}
    draw_figure(plot_steps, "forecast_error", errors)
    windows = f"({result.earlier_windows})" if result.earlier_windows else ""
    how = {
        "data": name,
        "model": model.name,
        "h": result.rolling.h,
        "windows": count,
        "step": result.rolling.step_size,
        "season": result.season,
        "intervals": f"{result.interval_kind}{windows}",
        **({"crps": cut} if (cut := _grid_cut(result)) else {}),
        "version": __version__,
    }
    signature = "|".join(f"{key}:{value}" for key, value in how.items())
    values = {"run": str(run), "data": name, "model": model.name, **result.to_dict(), "signature": signature}
    return Outcome(values, _render(result, name, signature))


def _save_intervals(run: Path, model: SeriesForecaster, panel: Panel, options: dict[str, Any]) -> None:
    with progress_bar("intervals") as advance:
        saved = model.save_intervals(panel, progress=advance, **options)
    _warn_of_training(saved.trained_on, f"{saved.n_windows} windows that set the intervals", TOO_NARROW)
    say(f"Saved intervals ({saved.intervals.kind}) of {saved.n_windows} windows in {run}.")
    if saved.infinite:
        steps, level = format_count(saved.infinite, "step"), max(options["level"])
        say(f"{steps} ahead have too few values for intervals of {level:g} %; `forecast` refuses them.")
    if model.has_own_intervals:
        say("`forecast` still uses the model's own intervals; set intervals=conformal to use these.")


TOO_SMALL = (
    "its errors look too small; ask for fewer windows or smaller steps, or train with a larger test_size"
)
TOO_NARROW = "the intervals may be too narrow; train with a larger test_size"


def _warn_of_training(count: int, windows: str, consequence: str) -> None:
    if count:
        say(f"{count} of the {windows} contain rows that the model was trained on, so {consequence}.")


def _render(result: Backtest, name: str, signature: str) -> list[Any]:
    kind = f"conformal ({result.interval_kind}), each from {result.earlier_windows} windows before it"
    if not result.earlier_windows:
        kind = f"none: {result.without}" if result.without else "the model's own"
    covered = " and ".join(f"{level:g} %" for level in result.levels if not result.without)
    covered = f"; the columns {covered} show the percentage of values they cover" if covered else ""
    shown: list[Any] = [
        f"{name}: {result.heading}",
        _table(result),
        f"Intervals: {kind}{covered}",
        *result.notes,
    ]
    if 1 < len(result.figures[0].series) <= SERIES_SHOWN:
        shown.append(_series_table(result))
    return [*shown, f"[dim]{signature}[/dim]"]


def _table(result: Backtest) -> Table:
    """The figures over everything, one row for each forecaster."""
    crps = f">CRPS {_grid_cut(result) or ''}".strip()
    levels = [heading for level in result.levels for heading in (f">{level:g} %", ">width")]
    table = build_table("", ">MAE", ">RMSE", ">sMAPE %", ">MASE", crps, *levels, padding=(0, 1, 0, 0))
    for row, figures in enumerate(result.figures):
        cells = [f"{figures.total[each]:,.4g}" for each in ("mae", "rmse", "smape", "mase", "crps")]
        for level in result.levels:
            covered, width = (figures.total.get(f"{figure}-{level:g}") for figure in ("coverage", "width"))
            cells += ["–" if covered is None else f"{covered:.1f}", "–" if width is None else f"{width:,.4g}"]
        table.add_row(figures.name, *cells, style="bold" if row == 0 else None)
    return table


def _grid_cut(result: Backtest) -> str | None:
    """The range of quantiles that CRPS is computed from, if it is not the whole grid."""
    from throughtime.series.figures import GRID

    return None if result.grid in (GRID, ()) else f"{result.grid[0]:g}-{result.grid[-1]:g}"


def _series_table(result: Backtest) -> Table:
    """MASE of each series, one column for each forecaster."""
    rows = [
        (series, *(f"{figures.series[series]['mase']:.3f}" for figures in result.figures))
        for series in result.figures[0].series
    ]
    return build_table("MASE of", *(f">{figures.name}" for figures in result.figures), rows=rows)
