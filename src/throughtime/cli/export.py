"""`throughtime export` and `import`: models as files that other programs read, and the other way round."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.console import command_name
from throughtime.cli.options import Runs, option
from throughtime.cli.output import Outcome, as_command, flags, say
from throughtime.errors import import_optional
from throughtime.tasks import TASKS


@as_command
def export(
    run: Runs,
    out: Path,
    format: str | None = None,  # noqa: A002
    int8: bool = False,
    weights: str | None = None,
    sample: Annotated[
        bool,
        option("For html: with a few texts or rows of the data, to try the model.", "--sample/--no-sample"),
    ] = True,
) -> Outcome:
    """Write a trained model as ONNX graphs, as one HTML file for a browser, or as an ARPA file.

    Graphs are checked against torch at several shapes. A translator becomes two graphs, its encoder and one
    step of its decoder; any other model becomes one or two. To run the folder you need only
    onnxruntime, numpy and tokenizers:
    `throughtime.runtime.load("DIR").translate(["..."])`.
    An n-gram model becomes one ARPA file, which KenLM and SRILM read; a name that ends in .gz is packed.
    With --format html, or a name that ends in .html, one or several models become one HTML file: it runs
    them in a browser without a network, and shows how they work.

    [bold]Examples[/bold]

      throughtime export runs/en-fr --out exported/en-fr

      throughtime export runs/en-fr --format onnx --int8 --out exported/en-fr-int8

      throughtime export runs/en-fr runs/fr-en --out translator.html

      throughtime export runs/ptb-5gram --format arpa --out ptb.arpa.gz

    Args:
        run: Folders of trained models.
        out: Folder to write, or a file for html and arpa; it must not exist.
        format: Format: onnx, html (one file for a browser), or arpa for n-grams; by default what the ending
            of --out tells (.html, .arpa), otherwise onnx.
        int8: For onnx: 8-bit weights; smaller, faster, less precise.
        weights: For html: weights in int8 (the default), float16 or float32.
    """
    from throughtime import api
    from throughtime.graphs import check_options, choose_format

    chosen = choose_format(format, out)
    check_options(chosen, int8, weights, sample)
    if chosen == "onnx":
        for package in ("onnx", "onnxruntime"):
            import_optional(package, feature="exporting a model", extra="onnx")
    checking = ", and checking it against torch" if chosen == "onnx" else ""
    say(f"Exporting {', '.join(map(str, run))}{checking}.")
    settings: dict[str, Any] = {"int8": int8, "weights": weights, "sample": sample}
    values = api.export(run, out, format=format, trust_changed=flags.trust_changed, **settings)
    text = DESCRIPTIONS[chosen](values, out)
    return Outcome({"out": str(out), **values}, [f"[bold]{out}[/bold]: {text}"])


def _describe_graphs(values: dict[str, Any], out: Path) -> str:
    checks = values["verified"][values["precision"]]
    worst = max(checks, key=lambda check: check["off"])
    sizes = ", ".join(f"{name}.onnx {size / 1e6:.2f} MB" for name, size in values["bytes"].items())
    return (
        f"{sizes}, {values['precision']}\n"
        f"checked against torch: {len(checks)} outputs, relative error at most {worst['off']:.2g} "
        f"({worst['output']} of the {worst['part']} at {worst['shape']})\n"
        f'[dim]In Python: throughtime.runtime.load("{out}")[/dim]'
    )


def _describe_page(values: dict[str, Any], out: Path) -> str:
    names = ", ".join(model["name"] for model in values["models"])
    if any(TASKS[model["task"]].uses_trainer for model in values["models"]):
        names += f", weights in {values['weights']}"
    opening = "[dim]Open it in a browser: it needs no server and no network.[/dim]"
    return f"{values['bytes'] / 1e6:.2f} MB with {names}\n{opening}"


def _describe_ngrams(values: dict[str, Any], out: Path) -> str:
    sizes = ", ".join(f"{size:,}" for size in values["ngrams"])
    return f"{values['bytes'] / 1e6:.2f} MB, n-grams of length 1 to {values['order']}: {sizes}"


DESCRIPTIONS = {"onnx": _describe_graphs, "html": _describe_page, "arpa": _describe_ngrams}
"""What was written, by format."""


@as_command
def import_arpa(
    file: Annotated[Path, typer.Argument(metavar="FILE")], out: Path, tokens: str = "space"
) -> Outcome:
    """Turn the ARPA file of another program, such as KenLM or SRILM, into the folder of an n-gram model.

    Other commands use this folder like that of a model from `throughtime train ngram`.

    [bold]Examples[/bold]

      throughtime import kenlm.arpa --out runs/kenlm

      throughtime score runs/kenlm "dog bites man" "man bites dog"

    Args:
        file: ARPA file, plain or packed (.gz, .xz).
        tokens: Tokenizer that splits text into the words of the file: space, word, ...
    """
    from throughtime import api
    from throughtime.files import check_new

    check_new(out)
    say(f"Reading {file}.")
    model = api.import_arpa(file, tokens=tokens)
    model.save(out)
    values = {"run": str(out), "task": model.task, "order": model.model.order, "ngrams": model.num_ngrams}
    sizes = ", ".join(f"{size:,}" for size in model.num_ngrams)
    text = (
        f"N-grams of length 1 to {model.model.order}: {sizes}.\n"
        f'Saved in {out}. Continue with:\n  {command_name()} score {shlex.quote(str(out))} "a sentence"'
    )
    return Outcome(values, [text])
