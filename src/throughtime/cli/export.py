"""`throughtime export`: a trained model as files that run without torch, or that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from throughtime.cli.options import Out, Run, option
from throughtime.cli.output import Outcome, as_command, flags, say
from throughtime.errors import import_optional


@as_command
def export(
    run: Run,
    out: Out,
    format: Annotated[str, option("Format: onnx, or arpa for n-grams.", "--format")] = "onnx",  # noqa: A002
    int8: Annotated[bool, option("Use 8-bit weights: smaller, faster, less precise.", "--int8")] = False,
) -> Outcome:
    """Write a trained model as ONNX graphs, checked against torch at several shapes, or as an ARPA file.

    A translator becomes two graphs, its encoder and one step of its decoder; any other model becomes one or
    two. To run the folder you need only onnxruntime, numpy and tokenizers:
    `throughtime.runtime.load("DIR").translate(["..."])`.
    An n-gram model becomes one ARPA file, which KenLM and SRILM read; a name that ends in .gz is packed.

    [bold]Examples[/bold]

      throughtime export runs/en-fr --out exported/en-fr

      throughtime export runs/en-fr --format onnx --int8 --out exported/en-fr-int8

      throughtime export runs/ptb-5gram --format arpa --out ptb.arpa.gz
    """
    if format == "arpa":
        return _export_arpa(run, out, int8)
    for package in ("onnx", "onnxruntime"):
        import_optional(package, feature="exporting a model", extra="onnx")
    from throughtime import api

    say(f"Exporting {run}, and checking it against torch.")
    values = api.export(run, out, format=format, int8=int8, trust_changed=flags.trust_changed)
    checks = values["verified"][values["precision"]]
    worst = max(checks, key=lambda check: check["off"])
    sizes = ", ".join(f"{name}.onnx {size / 1e6:.2f} MB" for name, size in values["bytes"].items())
    text = (
        f"[bold]{out}[/bold]: {sizes}, {values['precision']}\n"
        f"checked against torch: {len(checks)} outputs, relative error at most {worst['off']:.2g} "
        f"({worst['output']} of the {worst['part']} at {worst['shape']})\n"
        f'[dim]In Python: throughtime.runtime.load("{out}")[/dim]'
    )
    return Outcome({"out": str(out), **values}, [text])


def _export_arpa(run: Path, out: Path, int8: bool) -> Outcome:
    from throughtime import api

    values = api.export(run, out, format="arpa", int8=int8, trust_changed=flags.trust_changed)
    sizes = ", ".join(f"{size:,}" for size in values["ngrams"])
    text = (
        f"[bold]{out}[/bold]: {values['bytes'] / 1e6:.2f} MB, "
        f"n-grams of length 1 to {values['order']}: {sizes}"
    )
    return Outcome({"out": str(out), **values}, [text])
