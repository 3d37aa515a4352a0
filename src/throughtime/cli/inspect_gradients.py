"""`throughtime inspect gradients`: the gradient on its way back through time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.keep_option import checked_keep
from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.cli.picture import Plot, check_pictures
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from throughtime.inspection.lag import Curve

COMPARED = ("rnn", "gru", "lstm")
KEEP = 0.98


@reported
def gradients(
    cell: Annotated[str, typer.Option(help="rnn, gru, lstm or another cell; all: these three.")] = "all",
    steps: Annotated[int, typer.Option(help="How far back to follow the gradient.", min=2, max=1000)] = 200,
    hidden: Annotated[int, typer.Option(help="The number of hidden units.", min=1, max=10_000)] = 64,
    scale: Annotated[
        str | None,
        typer.Option(
            help="The recurrent weights: small, large, or a gain such as 1.2; else small and large."
        ),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(help="Where the gates that keep the state are set, between 0 and 1; 0.98 if not given."),
    ] = None,
    clip: Annotated[float, typer.Option(help="The norm to which the weights' gradient is clipped.")] = 1.0,
    seeds: Annotated[int, typer.Option(help="Average over this many random networks.", min=1, max=1_000)] = 3,
    plot: Plot = None,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Follow the gradient back through time: where it vanishes, where it explodes, what clipping cures.

    The norm is that of ds_T/ds_t, with s the whole state (of an LSTM h and c together), 1 for the identity;
    random networks on random inputs, geometric means over the seeds. Gated cells are shown as they are drawn,
    and with gates set to keep most of the state.

    Example: throughtime inspect gradients --cell all --steps 200 --plot g.png
    """
    from throughtime.cells import CELLS
    from throughtime.inspection.lag import keeps, lag_curve

    check_pictures(plot)
    if not clip > 0:
        raise InputError("--clip", f"is {clip}, expected more than 0")
    if cell not in (*CELLS, "all"):
        raise unknown("cell", cell, (*CELLS, "all"))
    cells = COMPARED if cell == "all" else (cell,)
    set_to = KEEP if keep is None else checked_keep(keep, cells)
    curves = [
        lag_curve(name, gain, steps=steps, hidden=hidden, keep=gates, clip=clip, seeds=seeds)
        for gain in _gains(scale)
        for name in cells
        for gates in ((None, set_to) if keeps(name) else (None,))
    ]
    if plot is not None:
        from throughtime import plots

        plots.gradients(curves, clip, path=plot)
        say(f"wrote {plot}")
    rows = [_curve(curve) for curve in curves]
    values = {
        "norm": "ds_T/ds_t, whole state",
        "steps": steps,
        "hidden": hidden,
        "clip": clip,
        "curves": rows,
    }
    return Outcome(values, _curves_shown(curves, steps, clip))


def _gains(scale: str | None) -> list[float]:
    from throughtime.inspection.lag import GAINS

    if scale is None:
        return list(GAINS.values())
    try:
        gain = GAINS[scale] if scale in GAINS else float(scale)
    except ValueError:
        gain = 0.0
    if not 0 < gain < float("inf"):
        raise InputError("--scale", f"is {scale!r}, expected small, large or a number above 0")
    return [gain]


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "cell": curve.cell,
        "gain": curve.gain,
        "keep": curve.keep,
        "factor_per_step": curve.factor,
        "verdict": curve.verdict,
        "norms": curve.norms,
        "gradient_norm": curve.gradient,
        "clipped_norm": curve.clipped,
        "step_gradients": curve.added,
        "step_gradients_clipped": curve.added_clipped,
    }


def _curves_shown(curves: list[Curve], steps: int, clip: float) -> list[RenderableType]:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("cell", "gates"):
        table.add_column(heading, no_wrap=True)
    for heading in ("gain", f"at lag {steps}", "per step", "|gradient|", f"clipped at {clip:g}"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for curve in curves:
        table.add_row(
            curve.cell,
            "as drawn" if curve.keep is None else f"keep {curve.keep:g}",
            f"{curve.gain:g}",
            f"{curve.norms[-1]:.1e}",
            f"{curve.factor:.3f}",
            f"{curve.gradient:.1e}",
            f"{curve.clipped:.1e}",
            curve.verdict,
        )
    note = (
        "Norms of ds_T/ds_t, s the whole state. Clipping bounds a gradient that explodes. It scales all "
        "steps alike: what has vanished on the way stays as small beside the rest as it was."
    )
    return [table, "", note]
