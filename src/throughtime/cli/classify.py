"""`throughtime classify`: texts in, labels out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.inputs import load_model, one_line, read_blocks, warn_about
from throughtime.cli.options import Debug, Device, Json, Run
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.results import Classified
    from throughtime.tasks.classify.predictor import Classifier

WIDTH = 30
SHOWN = 5


@as_command
def classify(
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts; else --file or stdin, a text a line.", metavar="TEXT"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a text a line.")] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", help="The k likeliest labels; 5 as bars, 1 a line, all in JSON.", min=1),
    ] = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Label texts, with probabilities.

    Texts on the command line are shown with bars. Of a file or stdin every line gets one line: its label and
    probability, and the next ones with --k, all separated by tabs.

    [bold]Examples[/bold]

      throughtime classify runs/intents "play some jazz"

      cat requests.txt | throughtime classify runs/intents > labels.tsv

      throughtime classify runs/intents --k 2 --json "will it rain in Oslo?"
    """
    if texts and file is not None:
        raise InputError("--file", "cannot be used beside texts on the command line; choose one")
    classifier: Classifier = load_model(run, device, "classify")
    if json:
        given = texts or [text for block in read_blocks(file) for text in block]
        with progress_bar("classifying") as advance:
            found = classifier.classify(given, k=k, progress=advance)
        warn_about(classifier, given, None if texts else 0)
        return Outcome({"run": str(run), "texts": [one.to_dict() for one in found]})
    if texts:
        found = classifier.classify(texts, k=k or SHOWN)
        warn_about(classifier, texts)
        return Outcome({}, [shown(one) for one in found])
    done = 0
    for block in read_blocks(file):
        found = classifier.classify(block, k=k or 1)
        warn_about(classifier, block, done)
        done += len(block)
        for one in found:
            cells = [f"{one_line(label)}\t{share:.4f}" for label, share in one.ranked]
            print("\t".join(cells), flush=True)
    return Outcome({})


def shown(found: Classified) -> Table:
    """A text above its labels with their probabilities as bars."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, show_header=False, pad_edge=False, title=Text(one_line(found.text)), title_justify="left"
    )
    for label, share in found.ranked:
        table.add_row(Text(label), f"{share:7.2%}", ProgressBar(1.0, share, WIDTH))
    return table
