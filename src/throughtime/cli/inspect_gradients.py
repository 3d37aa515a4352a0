"""`throughtime inspect gradients` and `inspect truncation`: the gradient on its way back through time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.options import check_pictures, refuse
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, draw_figure
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from throughtime.inspection.gradients import Curve
    from throughtime.inspection.truncation import Problem, StrategyComparison
    from throughtime.recurrence.backpropagation import GradientHorizon

KEEP, KEEP_TRUNCATED = 0.98, 0.9
SENTENCE = "back through time the gradient walks until something cuts its way short"


@as_command
def gradients(
    cell: str = "all",
    steps: Annotated[int, typer.Option(min=2, max=1000)] = 200,
    hidden: Annotated[int, typer.Option(min=1, max=10_000)] = 64,
    scale: str | None = None,
    keep: float | None = None,
    clip: float = 1.0,
    seeds: Annotated[int, typer.Option(min=1, max=1_000)] = 3,
    plot: Path | None = None,
) -> Outcome:
    """Follow the gradient back through time: where it vanishes, where it explodes, what clipping changes.

    The norm is that of ds_T/ds_t, where s is the whole state (for an LSTM, h and c together), scaled so that
    the identity has norm 1. Networks and inputs are random; means over the seeds are geometric. Gated cells
    are shown with their initial gates, and with gates set to keep most of the state.

    [bold]Example[/bold]

      throughtime inspect gradients --cell all --steps 200 --plot g.png

    Args:
        cell: all (but those that are forms of another), or {throughtime.cells:CELLS}.
        steps: Number of steps to follow the gradient back.
        hidden: Number of hidden units.
        scale: Size of the recurrent weights: small, large, or a gain such as 1.2; by default small and large.
        keep: Value of the gates that keep the state, from 0 to 1; 0.98 by default.
        clip: Norm to clip the gradient of the weights to.
        seeds: Number of random networks to average over.
    """
    from throughtime.cells import CELLS
    from throughtime.inspection.gradients import keeps, lag_curve, list_kinds

    check_pictures(plot)
    if not clip > 0:
        raise InputError("--clip", f"is {clip}, expected more than 0")
    if cell not in (*CELLS, "all"):
        raise unknown("cell", cell, (*CELLS, "all"))
    cells = list_kinds() if cell == "all" else (cell,)
    set_to = KEEP if keep is None else _check_keep(keep, cells)
    curves = [
        lag_curve(name, gain, steps=steps, hidden=hidden, keep=gates, clip=clip, seeds=seeds)
        for gain in _gains(scale)
        for name in cells
        for gates in ((None, set_to) if keeps(name) else (None,))
    ]
    draw_figure(plot, "gradients", curves, clip)
    rows = [_curve(curve) for curve in curves]
    values = {
        "norm": "ds_T/ds_t, whole state",
        "steps": steps,
        "hidden": hidden,
        "clip": clip,
        "curves": rows,
    }
    return Outcome(values, _render_curves(curves, steps, clip))


def _gains(scale: str | None) -> list[float]:
    from throughtime.inspection.gradients import GAINS

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


def _render_curves(curves: list[Curve], steps: int, clip: float) -> list[RenderableType]:
    rows = [
        (
            curve.cell,
            "as drawn" if curve.keep is None else f"keep {curve.keep:g}",
            f"{curve.gain:g}",
            f"{curve.norms[-1]:.1e}",
            f"{curve.factor:.3f}",
            f"{curve.gradient:.1e}",
            f"{curve.clipped:.1e}",
            curve.verdict,
        )
        for curve in curves
    ]
    lag, clipped = f">at lag {steps}", f">clipped at {clip:g}"
    headings = ("cell", "gates", ">gain", lag, ">per step", ">|gradient|", clipped, "")
    table = build_table(*headings, rows=rows, **BOLD)
    note = (
        "Norms are those of ds_T/ds_t, where s is the whole state. Clipping bounds a gradient that explodes, "
        "but scales all steps by the same factor, so it cannot restore what has vanished."
    )
    return [table, "", note]


@as_command
def truncation(
    cell: str = "gru",
    steps: Annotated[int, typer.Option(min=8, max=4096)] = 256,
    tau: Annotated[int, typer.Option(min=1, max=1_000_000)] = 32,
    pi: float = 0.9,
    hidden: Annotated[int, typer.Option(min=1, max=10_000)] = 32,
    keep: float | None = None,
    draws: Annotated[int, typer.Option(min=64)] = 1024,
    text: str | None = None,
    plot: Path | None = None,
) -> Outcome:
    """Compare full, truncated and randomised back-propagation: bias, variance, time and memory.

    Weights and sequences are random and fixed. Bias and deviation are measured on one sequence over many
    draws; time and memory are those of a forward and backward pass over 16 sequences on one thread; the
    truncated pass runs chunk by chunk.

    [bold]Example[/bold]

      throughtime inspect truncation --steps 256 --tau 32 --pi 0.9 --plot t.png

    Args:
        cell: {throughtime.cells:CELLS}.
        steps: Length of the sequences.
        tau: Truncated: number of steps after which the gradient is cut.
        pi: Randomised: probability of continuing, at each step.
        hidden: Number of hidden units.
        keep: Value of the gates that keep the state, from 0 to 1; 0.9 by default.
        draws: Number of draws of the randomised gradient.
        text: With --plot: text to show the cuts on; at most 72 characters.
    """
    from throughtime.cells import CELLS
    from throughtime.inspection.gradients import keeps
    from throughtime.inspection.truncation import compare_strategies, random_problem

    check_pictures(plot)
    if cell not in CELLS:
        raise unknown("cell", cell, CELLS)
    if plot is None:
        refuse("is shown in the figure only; add --plot, or leave it out", text=text)
    if text == "":
        raise InputError("--text", "is empty; give a text, or leave it out")
    kept = KEEP_TRUNCATED if keeps(cell) else None
    set_to = kept if keep is None else _check_keep(keep, [cell])
    problem = random_problem(cell, steps, hidden=hidden, keep=set_to)
    comparisons = compare_strategies(problem, tau, pi, draws)
    if plot is not None:
        _draw_truncation((text or SENTENCE)[:72], comparisons, plot)
    rows = [
        {"strategy": row.name, **vars(row.error), "seconds": row.growth[-1].seconds,
         "saved_bytes": row.growth[-1].saved, "backend": _backend(problem, row.strategy),
         "growth": [vars(cost) for cost in row.growth]}
        for row in comparisons
    ]  # fmt: skip
    values = {
        "cell": cell, "steps": steps, "tau": tau, "pi": pi, "hidden": hidden, "draws": draws,
        "batch": problem.x.shape[1], "strategies": rows,
    }  # fmt: skip
    return Outcome(values, _render_strategies(values))


def _backend(problem: Problem, strategy: GradientHorizon) -> str:
    from throughtime.recurrence.backpropagation import Truncated, carries
    from throughtime.recurrence.scan import get_backend

    carry = None if isinstance(strategy, Truncated) else carries(strategy, *problem.x.shape[:2])
    return get_backend("auto", problem.cell, problem.x, None, carry).name


def _draw_truncation(text: str, comparisons: list[StrategyComparison], plot: Path) -> None:
    from throughtime.recurrence.backpropagation import carries

    cuts = {}
    for row in reversed(comparisons):
        carry = carries(row.strategy, len(text), 1)
        cuts[row.name] = [] if carry is None else (carry[:, 0] == 0).nonzero()[:, 0].tolist()
    draw_figure(plot, "truncation", text, cuts, comparisons)


def _render_strategies(values: dict[str, Any]) -> list[RenderableType]:
    rows, growth = [], []
    for row in values["strategies"]:
        errors = (f"{row[key]:.3f}" for key in ("bias", "chance", "deviation"))
        costs = (f"{row['seconds'] * 1e3:.1f}", f"{row['saved_bytes'] / 1e6:.2f}")
        rows.append((row["strategy"], *errors, *costs, row["backend"]))
        parts = (f"{cost['seconds'] * 1e3:.1f}  {cost['saved'] / 1e6:.2f}" for cost in row["growth"])
        growth.append((row["strategy"], *parts))
    headings = ("strategy", ">bias", ">by chance", ">deviation", ">ms", ">kept MB", ">backend")
    lengths = (f">{cost['steps']:,}" for cost in values["strategies"][0]["growth"])
    title: dict[str, Any] = {"title": "\nms and kept MB against steps", "title_justify": "left"}
    table = build_table(*headings, rows=rows, **BOLD)
    more = build_table("strategy", *lengths, rows=growth, **title, **BOLD)
    note = (
        "\nBias and deviation are over the norm of the full gradient; a bias no larger than about twice "
        "what is left to chance is none."
    )
    return [table, more, note]


def _check_keep(keep: float, cells: Sequence[str]) -> float:
    """Return `keep` if it can be a gate's value and one of these cells keeps its state by such a gate."""
    from throughtime.inspection.gradients import keeps

    if not any(keeps(cell) for cell in cells):
        raise InputError(
            "--keep", f"sets the bias of the gate that keeps the state; {cells[0]} has none, so leave it out"
        )
    if not 0 < keep < 1:
        raise InputError("--keep", f"is {keep}, expected a number between 0 and 1")
    return keep
