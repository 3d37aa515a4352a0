"""`throughtime classify`: texts in, labels out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.console import print_text, stdout
from throughtime.cli.inputs import answer_texts, load_model, one_line, read_texts
from throughtime.cli.options import Device, File, Run, option
from throughtime.cli.output import Outcome, as_command, build_table, flags

if TYPE_CHECKING:
    from rich.table import Table

    from throughtime.results import Classified


@as_command
def classify(
    run: Run,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; without them, --file or stdin is read.", metavar="TEXT")
    ] = None,
    file: File = None,
    k: Annotated[
        int | None,
        option(
            "Number of labels per text; by default 5, 1 for lines of a file, all with --json.", "--k", min=1
        ),
    ] = None,
    device: Device = "auto",
) -> Outcome:
    """Label texts, and show the probabilities of the labels.

    For texts on the command line, the probabilities are drawn as bars. For a file or stdin, one line is
    printed for each input line: its label and probability, and with --k the next most likely labels,
    separated by tabs.

    [bold]Examples[/bold]

      throughtime classify runs/intents "play some jazz"

      cat requests.txt | throughtime classify runs/intents > labels.tsv

      throughtime classify runs/intents --k 2 --json "will it rain in Oslo?"
    """
    blocks = read_texts(texts, file)
    classifier = load_model(run, device, "classify")
    count = k if k or flags.json else 5 if texts else 1
    answers = answer_texts(classifier, blocks, partial(classifier.classify, k=count), lines=not texts)
    if flags.json:
        return Outcome({"run": str(run), "texts": [one.to_dict() for _, _, one in answers]})
    for _, _, one in answers:
        if texts:
            stdout().print(draw_labels(one))
        else:
            cells = [f"{one_line(label)}\t{share:.4f}" for label, share in one.ranked]
            print_text("\t".join(cells))
    return Outcome({})


def draw_labels(answer: Classified) -> Table:
    """A text above its labels, with their probabilities as bars."""
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    rows = [(label, f"{share:7.2%}", ProgressBar(1.0, share, 30)) for label, share in answer.ranked]
    title = Text(one_line(answer.text))
    style = {"show_header": False, "pad_edge": False, "padding": (0, 1)}
    return build_table("", "", "", rows=rows, title=title, title_justify="left", **style)
