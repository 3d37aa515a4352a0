"""`throughtime fill`: words for the blanks of a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.console import print_text
from throughtime.cli.inputs import answer_texts, load_model, one_line, read_texts
from throughtime.cli.options import Device, File, Run, option
from throughtime.cli.output import Outcome, as_command, flags
from throughtime.errors import InputError


@as_command
def fill(
    run: Run,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sentences with blanks; without them, --file or stdin is read.", metavar="SENTENCE"
        ),
    ] = None,
    file: File = None,
    k: Annotated[
        int | None,
        option("Number of fillings per sentence; by default 5, or 1 for lines of a file.", "--k", min=1),
    ] = None,
    num_beams: Annotated[
        int, option("Number of partial fillings to keep if there are several blanks.", min=1)
    ] = 10,
    device: Device = "auto",
) -> Outcome:
    """Fill the blanks of a sentence with the best words, and show their probabilities.

    A blank is written ___ (two or more underscores) or [MASK] and stands for one token. Several blanks are
    filled one after another, the most certain one first; after each, the --num-beams best partial fillings
    are kept.

    For each line of a file or of stdin, the best filling is printed; with --k, several lines `number ||| text
    ||| probability`. With --json each of the `sentences` has its best filling, and the others as
    `alternatives`.

    [bold]Examples[/bold]

      throughtime fill runs/blanks "I am ___ hungry and I can eat half a cow." --k 10

      throughtime fill runs/blanks "She ___ the ___ every day." --num-beams 50

      throughtime fill runs/blanks --file blanks.txt > filled.txt
    """
    blocks = check_blanks(read_texts(sentences, file), file, lines=not sentences)
    filler = load_model(run, device, "fill")
    count = k or (5 if sentences or flags.json else 1)
    predict = partial(filler.fill, k=count, num_beams=num_beams)
    answers = answer_texts(filler, blocks, predict, lines=not sentences)
    if flags.json:
        values = [{"sentence": text, **one.to_dict()} for _, text, one in answers]
        return Outcome({"run": str(run), "sentences": values})
    for number, _, best in answers:
        if sentences:
            for one in (best, *best.alternatives):
                print_text(f"{one.probability:6.2%}  {one_line(one.text)}")
        elif k is None:
            print_text(one_line(best.text))
        else:
            for one in (best, *best.alternatives) if best.tokens else ():
                print_text(f"{number} ||| {one_line(one.text)} ||| {one.probability:.6f}")
    return Outcome({})


def check_blanks(blocks: Iterator[list[str]], file: Path | None, *, lines: bool) -> Iterator[list[str]]:
    """The texts, each of which has a blank; an empty line has nothing to fill and stays empty."""
    from throughtime.text.blanks import BLANK, NO_BLANK

    done = 0
    for block in blocks:
        for number, text in enumerate(block, done + 1):
            if text.strip() and not BLANK.search(text):
                where = ("stdin" if file is None else str(file)) if lines else "SENTENCE"
                raise InputError(where, NO_BLANK, line=number if lines else None)
        yield block
        done += len(block)
