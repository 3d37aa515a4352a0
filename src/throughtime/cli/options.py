"""Options that several commands have, each declared once; commands add what is theirs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from throughtime.errors import InputError

DATA, OUTPUT = "Data", "Output"
"""Titles of groups of options in the help."""

Run = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="RUN")]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:1, ...")]
Split = Annotated[
    str, typer.Option(help="train, valid, test, heldout (valid and test) or all.", rich_help_panel=DATA)
]
Data = Annotated[
    str | None,
    typer.Option(help="Data other than those that the model was trained on.", rich_help_panel=DATA),
]
Source = Annotated[
    str | None, typer.Option(help="For pairs: the source language, such as en.", rich_help_panel=DATA)
]
Target = Annotated[
    str | None, typer.Option(help="For pairs: the target language, such as fr.", rich_help_panel=DATA)
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        help="For series: format of the dates, such as %d.%m.%Y; by default found from the data.",
        rich_help_panel=DATA,
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Skip and count records that cannot be read.", rich_help_panel=DATA),
]
Out = Annotated[Path, typer.Option("--out", help="The folder to write; it must not exist yet.")]
Plot = Annotated[Path | None, typer.Option(help="Draw a figure: .png, .svg or .pdf.")]
# The largest seed is what torch and numpy both take.
SEED = typer.Option(
    help="Seed of the random numbers; the same seed gives the same result.", min=0, max=2**63 - 1
)
Seed = Annotated[int, SEED]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on stdout; messages go to stderr.", rich_help_panel=OUTPUT
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=OUTPUT)
]


def check_pictures(*paths: Path | None) -> None:
    """Refuse pictures that cannot be written before the long work, not after it."""
    from throughtime.files import check_file
    from throughtime.plots.style import check_format, import_matplotlib

    for path in paths:
        if path is not None:
            check_format(path)
            check_file(path)
            import_matplotlib()


def refuse(problem: str, **given: object) -> None:
    """Refuse options that would have no effect beside others; one that was not given is None.

    >>> refuse("goes with --beam; leave it out", layer=None, num_beams=5)
    Traceback (most recent call last):
    throughtime.errors.InputError: --num-beams: goes with --beam; leave it out
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}", problem)
