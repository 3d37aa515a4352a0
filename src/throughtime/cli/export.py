"""`throughtime export`: a trained model as files that run without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.output import Outcome, as_command, say
from throughtime.errors import import_optional


@as_command
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="RUN")],
    out: Annotated[Path, typer.Option("--out", help="The folder that the export becomes.")],
    format: Annotated[  # noqa: A002
        str, typer.Option("--format", help="What to write: onnx.")
    ] = "onnx",
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights of one byte: smaller and faster, a little off.")
    ] = False,
) -> Outcome:
    """Write a trained model as ONNX graphs, checked against torch at several shapes.

    A translator becomes an encoder and one step of its decoder, any other model one graph or two. The folder
    runs on onnxruntime, numpy and tokenizers: `throughtime.runtime.load("DIR").translate(["..."])`.

    [bold]Examples[/bold]

      throughtime export runs/en-fr --out exported/en-fr

      throughtime export runs/en-fr --format onnx --int8 --out exported/en-fr-int8
    """
    for package in ("onnx", "onnxruntime"):
        import_optional(package, feature="exporting a model", extra="onnx")
    from throughtime import api

    say(f"Exporting {run}, and checking it against torch.")
    values = api.export(run, out, format=format, int8=int8)
    return Outcome({"out": str(out), **values}, [_told(out, values)])


def _told(out: Path, values: dict[str, Any]) -> str:
    checks = values["verified"][values["precision"]]
    worst = max(checks, key=lambda check: check["off"])
    sizes = ", ".join(f"{name}.onnx {size / 1e6:.2f} MB" for name, size in values["bytes"].items())
    return (
        f"[bold]{out}[/bold]: {sizes}, {values['precision']}\n"
        f"checked against torch: {len(checks)} outputs, off by {worst['off']:.2g} of their size at most "
        f"({worst['output']} of the {worst['part']} at {worst['shape']})\n"
        f'[dim]In Python: throughtime.runtime.load("{out}")[/dim]'
    )
