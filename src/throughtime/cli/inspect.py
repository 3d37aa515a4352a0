"""`throughtime inspect`: look into recurrences and the gradients that travel through them."""

from __future__ import annotations

import difflib
from typing import Any

import typer
from typer.core import TyperGroup

from throughtime.cli.inspect_gradients import gradients
from throughtime.cli.inspect_graph import graph
from throughtime.cli.inspect_model import InspectsRun, inspect_model
from throughtime.cli.inspect_truncation import truncation
from throughtime.files import path_exists


class RunOrCommand(TyperGroup):
    """What is no command here is the folder of a model: `inspect RUN ...` is `inspect model RUN ...`."""

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


inspect_app = typer.Typer(
    cls=RunOrCommand,
    no_args_is_help=True,
    help='Look inside a trained model (`inspect RUN "sentence"`), or at recurrence itself: gradients through '
    "time, the unrolled graph, truncation.",
)
inspect_app.command("model", cls=InspectsRun)(inspect_model)
inspect_app.command("gradients")(gradients)
inspect_app.command("graph")(graph)
inspect_app.command("truncation")(truncation)
