"""`throughtime inspect truncation`: what is lost and what is saved where the gradient is cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.keep_option import checked_keep
from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.cli.picture import Plot, check_pictures
from throughtime.cli.refusal import refuse
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from throughtime.inspection.strategies import Comparison, Problem
    from throughtime.recurrence.backpropagation import Strategy

SENTENCE = "back through time the gradient walks until something cuts its way short"
KEEP = 0.9


@reported
def truncation(
    cell: Annotated[str, typer.Option(help="rnn, gru, lstm or another cell.")] = "gru",
    steps: Annotated[int, typer.Option(help="The length of the sequences.", min=8, max=4096)] = 256,
    tau: Annotated[
        int, typer.Option(help="Truncated: cut the gradient every so many steps.", min=1, max=1_000_000)
    ] = 32,
    pi: Annotated[
        float, typer.Option(help="Randomised: the probability that it goes on, at each step.")
    ] = 0.9,
    hidden: Annotated[int, typer.Option(help="The number of hidden units.", min=1, max=10_000)] = 32,
    keep: Annotated[
        float | None,
        typer.Option(help="Where the gates that keep the state are set, between 0 and 1; 0.9 if not given."),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the randomised gradient.", min=64)] = 1024,
    text: Annotated[
        str | None, typer.Option(help="With --plot: what the picture cuts; up to 72 characters of it.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Compare full, truncated and randomised back-propagation: bias, variance, time and memory.

    Weights and sequences are random and fixed. Bias and deviation are measured on one sequence over many
    draws; time and memory are those of a forward and backward pass over 16 sequences on one thread, the
    truncated one chunk by chunk.

    Example: throughtime inspect truncation --steps 256 --tau 32 --pi 0.9 --plot t.png
    """
    from throughtime.cells import CELLS
    from throughtime.inspection.strategies import compared, random_problem

    check_pictures(plot)
    if cell not in CELLS:
        raise unknown("cell", cell, CELLS)
    if plot is None:
        refuse("is what a picture shows; give --plot, or leave it out", text=text)
    if text == "":
        raise InputError("--text", "is empty; give what the picture is to cut, or leave it out")
    set_to = KEEP if keep is None else checked_keep(keep, [cell])
    problem = random_problem(cell, steps, hidden=hidden, keep=set_to)
    comparisons = compared(problem, tau, pi, draws)
    if plot is not None:
        _draw_truncation((text or SENTENCE)[:72], comparisons, plot)
        say(f"wrote {plot}")
    rows = [
        {"strategy": row.name, **vars(row.error), "seconds": row.growth[-1].seconds,
         "saved_bytes": row.growth[-1].saved, "backend": _backend(problem, row.strategy),
         "growth": [vars(part) for part in row.growth]}
        for row in comparisons
    ]  # fmt: skip
    values = {
        "cell": cell, "steps": steps, "tau": tau, "pi": pi, "hidden": hidden, "draws": draws,
        "batch": problem.x.shape[1], "strategies": rows,
    }  # fmt: skip
    return Outcome(values, _strategies_shown(values))


def _backend(problem: Problem, strategy: Strategy) -> str:
    from throughtime.recurrence.backpropagation import Truncated, carries
    from throughtime.recurrence.scan import named

    carry = None if isinstance(strategy, Truncated) else carries(strategy, *problem.x.shape[:2])
    return named("auto", problem.cell, problem.x, None, carry).name


def _draw_truncation(text: str, comparisons: list[Comparison], plot: Path) -> None:
    from throughtime.plots.segments import Measured, truncation_plot
    from throughtime.recurrence.backpropagation import carries

    cuts, measured = {}, {}
    for row in comparisons:
        carry = carries(row.strategy, len(text), 1)
        cuts[row.name] = [] if carry is None else (carry[:, 0] == 0).nonzero()[:, 0].tolist()
        measured[row.name] = Measured(
            row.error.bias,
            row.error.deviation,
            [part.steps for part in row.growth],
            [part.saved / 1e6 for part in row.growth],
            [part.seconds * 1e3 for part in row.growth],
        )
    truncation_plot(text, dict(reversed(cuts.items())), measured, plot)


def _strategies_shown(values: dict[str, Any]) -> list[RenderableType]:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("strategy")
    for heading in ("bias", "by chance", "deviation", "ms", "kept MB", "backend"):
        table.add_column(heading, justify="right")
    growth = Table(
        box=None, pad_edge=False, header_style="bold", title="\nms and kept MB against steps",
        title_justify="left",
    )  # fmt: skip
    growth.add_column("strategy")
    for part in values["strategies"][0]["growth"]:
        growth.add_column(f"{part['steps']:,}", justify="right")
    for row in values["strategies"]:
        errors = (f"{row[key]:.3f}" for key in ("bias", "chance", "deviation"))
        cost = (f"{row['seconds'] * 1e3:.1f}", f"{row['saved_bytes'] / 1e6:.2f}")
        table.add_row(row["strategy"], *errors, *cost, row["backend"])
        growth.add_row(
            row["strategy"],
            *(f"{part['seconds'] * 1e3:.1f}  {part['saved'] / 1e6:.2f}" for part in row["growth"]),
        )
    note = (
        "\nBias and deviation are over the norm of the full gradient; a bias no larger than about twice "
        "what is left to chance is none."
    )
    return [table, growth, note]
