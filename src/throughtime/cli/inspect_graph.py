"""`throughtime inspect graph`: a recurrence, unrolled through time."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.cli.picture import Plot, check_pictures


@reported
def graph(
    cell: Annotated[str, typer.Option(help="rnn, gru, gru-before, lstm, lstm-coupled or mingru.")] = "gru",
    steps: Annotated[int, typer.Option(help="How many steps to unroll.", min=1, max=8)] = 3,
    plot: Plot = None,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Draw the computation graph of a recurrence, unrolled through time, with a loss at every step.

    Example: throughtime inspect graph --cell gru --steps 3 --plot graph.png
    """
    from throughtime.inspection.graph import Node, unrolled
    from throughtime.text.numbers import several

    check_pictures(plot)
    drawn = unrolled(cell, steps)
    if plot is not None:
        from throughtime import plots

        title = f"{cell.upper().replace('MIN', 'min')}, unrolled over {several(steps, 'step')}"
        plots.graph(drawn, title=title, path=plot)
        say(f"wrote {plot}")
    values = {
        "cell": cell,
        "steps": steps,
        "nodes": [[node.letter, node.step, node.kind] for node in drawn.nodes],
        "edges": [[_label(source), _label(target)] for source, target in drawn.edges],
        "weight_uses": drawn.uses(Node("w_h", None, "weight")),
        "longest_path": drawn.depth(),
    }
    sentence = (
        f"{cell} over {several(steps, 'step')}: {len(drawn.nodes)} values, {len(drawn.edges)} arrows. "
        f"All steps use the same weights w_h: their gradient is the sum of what each step adds. "
        f"The longest way back from the loss has {drawn.depth()} arrows."
    )
    return Outcome(values, [sentence])


def _label(node: Any) -> str:
    return node.letter if node.step is None else f"{node.letter}_{node.step}"
