"""`throughtime forecast --k-steps`: predict every row k steps ahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.output import Outcome, progress_bar
from throughtime.errors import InputError
from throughtime.text.texts import several

if TYPE_CHECKING:
    from throughtime.data.panel import Panel
    from throughtime.tasks.forecast.predictor import SeriesForecaster


def read_steps(text: str) -> list[int]:
    """The numbers of `--k-steps`.

    >>> read_steps("1,4, 16")
    [1, 4, 16]
    """
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(
            "--k-steps", f"is {text!r}, expected whole numbers separated by commas: 1,4,16"
        ) from None


def k_step_outcome(
    run: Path,
    model: SeriesForecaster,
    name: str,
    panel: Panel,
    steps: Sequence[int],
    own: bool,
    plot: Path | None,
) -> Outcome:
    """The error for each k, and the picture; on rows not used for training, if there are any."""
    held_out = own and model.unseen(panel) > 0
    with progress_bar("windows") as advance:
        found = model.k_steps(panel, steps, "heldout" if held_out else "all", advance)
    if plot is not None:
        from throughtime import plots

        plots.k_steps(found, trained=held_out, path=plot)
    which = "that did not train the model"
    if not held_out:
        which = "which trained the model" if own else "of these data"
    about = f"{name}: RMSE over {several(found.rows, 'row')} {which}, each predicted from k rows before it"
    values = {
        "run": str(run),
        "data": name,
        "model": model.name,
        **found.to_dict(),
        "tested": "heldout" if held_out else "all",
        "plot": None if plot is None else str(plot),
    }
    shown: list[Any] = [about, _table(found.rmse)]
    return Outcome(values, [*shown, *([] if plot is None else [f"Wrote {plot}."])])


def _table(rmse: dict[int, float]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("k", justify="right")
    table.add_column("RMSE", justify="right")
    for step, error in rmse.items():
        table.add_row(str(step), f"{error:,.4g}")
    return table
