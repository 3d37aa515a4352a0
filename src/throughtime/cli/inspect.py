"""`throughtime inspect`: look into recurrences and the gradients that travel through them."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.inspect_cost import cells, cost
from throughtime.cli.inspect_gradients import gradients, truncation
from throughtime.cli.inspect_markov import markov
from throughtime.cli.inspect_model import InspectsRun, inspect_model
from throughtime.cli.options import check_pictures
from throughtime.cli.output import Outcome, as_command, draw_figure
from throughtime.cli.usage import Group, add_commands
from throughtime.files import path_exists


class RunOrCommand(Group):
    """A group in which any other word is a model folder: `inspect RUN ...` is `inspect model RUN ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command that was left out before a run."""
        if args and args[0] not in ctx.help_option_names and not self._is_command(args[0]):
            args = ["model", *args]
        return super().parse_args(ctx, args)

    def _is_command(self, word: str) -> bool:
        """Whether a word is a command, or was meant to be one."""
        return word in self.commands or (
            not path_exists(word) and bool(difflib.get_close_matches(word, self.commands))
        )


@as_command
def graph(
    cell: str = "gru",
    steps: Annotated[int, typer.Option(min=1, max=8)] = 3,
    plot: Path | None = None,
) -> Outcome:
    """Draw the computation graph of a recurrence, unrolled through time, with a loss at every step.

    [bold]Example[/bold]

      throughtime inspect graph --cell gru --steps 3 --plot graph.png

    Args:
        cell: {throughtime.cells:CELLS}.
        steps: Number of steps to unroll.
    """
    from throughtime.inspection.graph import UnrolledNode, unroll
    from throughtime.text.texts import format_count

    check_pictures(plot)
    drawn = unroll(cell, steps)
    title = f"{cell.upper().replace('MIN', 'min')}, unrolled over {format_count(steps, 'step')}"
    draw_figure(plot, "graph", drawn, title=title)
    values = {
        "cell": cell,
        "steps": steps,
        "nodes": [[node.letter, node.step, node.kind] for node in drawn.nodes],
        "edges": [[_label(source), _label(target)] for source, target in drawn.edges],
        "weight_uses": drawn.uses(UnrolledNode("w_h", None, "weight")),
        "longest_path": drawn.depth(),
    }
    sentence = (
        f"{cell} over {format_count(steps, 'step')}: {len(drawn.nodes)} values, {len(drawn.edges)} arrows. "
        f"All steps use the same weights w_h: their gradient is the sum of what each step adds. "
        f"The longest way back from the loss has {drawn.depth()} arrows."
    )
    return Outcome(values, [sentence])


def _label(node: Any) -> str:
    return node.letter if node.step is None else f"{node.letter}_{node.step}"


inspect_app = typer.Typer(
    cls=RunOrCommand,
    no_args_is_help=True,
    help='Look inside a trained model (`inspect RUN "sentence"`), or at recurrence itself: gradients through '
    "time, the unrolled graph, truncation.",
)
inspect_app.command("model", cls=InspectsRun)(inspect_model)
add_commands(inspect_app, gradients, graph, truncation, cells, cost, markov)
