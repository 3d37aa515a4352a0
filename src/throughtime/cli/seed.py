"""The seed of commands that draw."""

from __future__ import annotations

import typer

# The largest is what torch and numpy both take.
SEED = typer.Option(help="The same seed gives the same result.", min=0, max=2**63 - 1)
