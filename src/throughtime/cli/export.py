"""`throughtime export` and `import`: models as files that other programs read, and the other way round."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.console import command_name
from throughtime.cli.options import Runs, option
from throughtime.cli.output import Outcome, as_command, flags, say
from throughtime.errors import InputError, import_optional


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
    from throughtime.graphs import check_options, choose_format

    chosen = choose_format(format, out)
    check_options(chosen, int8, weights, sample)
    if chosen == "html":
        return _export_html(run, out, weights, sample)
    if len(run) > 1:
        raise InputError(
            "RUN", f"names {len(run)} folders; only --format html writes several models to one file"
        )
    if chosen == "arpa":
        return _export_arpa(run[0], out, int8)
    for package in ("onnx", "onnxruntime"):
        import_optional(package, feature="exporting a model", extra="onnx")
    from throughtime import api

    say(f"Exporting {run[0]}, and checking it against torch.")
    values = api.export(run[0], out, format=format, int8=int8, trust_changed=flags.trust_changed)
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


def _export_html(runs: list[Path], out: Path, weights: str | None, sample: bool) -> Outcome:
    from throughtime import api
    from throughtime.tasks import TASKS

    say(f"Writing {', '.join(str(run) for run in runs)} to one HTML file.")
    values = api.export(
        runs, out, format="html", weights=weights, sample=sample, trust_changed=flags.trust_changed
    )
    names = ", ".join(model["name"] for model in values["models"])
    if any(TASKS[model["task"]].uses_trainer for model in values["models"]):
        names += f", weights in {values['weights']}"
    text = (
        f"[bold]{out}[/bold]: {values['bytes'] / 1e6:.2f} MB with {names}\n"
        "[dim]Open it in a browser: it needs no server and no network.[/dim]"
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


@as_command
def import_arpa(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    out: Path,
    tokens: str = "space",
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
