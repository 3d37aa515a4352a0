"""`throughtime import`: an n-gram model of another program as a model folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.command_line import command_name
from throughtime.cli.output import Outcome, as_command, say


@as_command
def import_arpa(
    file: Annotated[Path, typer.Argument(help="ARPA file, plain or packed (.gz, .xz).", metavar="FILE")],
    out: Path,
    tokens: str = "space",
) -> Outcome:
    """Turn the ARPA file of another program, such as KenLM or SRILM, into the folder of an n-gram model.

    Other commands use this folder like that of a model from `throughtime train ngram`.

    [bold]Examples[/bold]

      throughtime import kenlm.arpa --out runs/kenlm

      throughtime score runs/kenlm "dog bites man" "man bites dog"

    Args:
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
