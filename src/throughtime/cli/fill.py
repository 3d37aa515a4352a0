"""`throughtime fill`: what stands in the blanks of a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model, one_line, read_blocks, warn_about
from throughtime.cli.options import Debug, Device, Json, Run
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.results import Filling
    from throughtime.tasks.fill.predictor import Filler

SHOWN = 5


@as_command
def fill(
    run: Run,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences with blanks; else --file or stdin.", metavar="SENTENCE"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a sentence a line.")] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", help="Number of fillings of each sentence; 5, or for lines 1.", min=1),
    ] = None,
    num_beams: Annotated[
        int, typer.Option(help="Number of partial fillings to keep where there are several blanks.", min=1)
    ] = 10,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Fill the blanks of a sentence: the best words with their probabilities.

    A blank is written ___ (two or more underscores) or [MASK] and stands for one token. Several blanks are
    filled together, the most certain one first and the others in its light; --num-beams fillings are kept.

    Lines of a file or of stdin give a line each, the best filling; with --k, lines `number ||| text |||
    probability`. With --json each of the `sentences` has its best filling and the others as `alternatives`.

    [bold]Examples[/bold]

      throughtime fill runs/blanks "I am ___ hungry and I can eat half a cow." --k 10

      throughtime fill runs/blanks "She ___ the ___ every day." --num-beams 50

      throughtime fill runs/blanks --file blanks.txt > filled.txt
    """
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    filler: Filler = load_model(run, device, "fill")
    if sentences:
        check(sentences, "SENTENCE")
    if sentences or json:
        texts = sentences or [text for block in checked_lines(file) for text in block]
        found = filled(filler, texts, k or SHOWN, num_beams, "filling")
        warn_about(filler, texts, None if sentences else 0)
        values = [{"sentence": text, **one.to_dict()} for text, one in zip(texts, found, strict=True)]
        return Outcome({"run": str(run), "sentences": values}, [shown(own) for own in found])
    done = 0
    for block in checked_lines(file):
        found = filled(filler, block, k or 1, num_beams, f"lines {done + 1:,} to {done + len(block):,}")
        warn_about(filler, block, done)
        for number, own in enumerate(found, done):
            print_lines(number, own, numbered=k is not None)
        done += len(block)
    return Outcome({})


def check(texts: list[str], where: str, first_line: int | None = None) -> None:
    """Refuse texts without a blank; an empty line has nothing to fill and stays empty."""
    from throughtime.text.blanks import BLANK, NO_BLANK

    for number, text in enumerate(texts):
        if text.strip() and not BLANK.search(text):
            raise InputError(where, NO_BLANK, line=None if first_line is None else first_line + number)


def checked_lines(file: Path | None) -> Iterator[list[str]]:
    """The lines of the file or of stdin, many at a time, each with a blank."""
    done = 0
    for block in read_blocks(file):
        check(block, "stdin" if file is None else str(file), done + 1)
        yield block
        done += len(block)


def filled(filler: Filler, texts: list[str], k: int, num_beams: int, title: str) -> list[Filling]:
    """The best filling of each text, with others as its alternatives."""
    with progress_bar(title) as advance:
        return filler.fill(texts, k=k, num_beams=num_beams, progress=advance)


def shown(found: Filling) -> Any:
    """A line for each filling of a sentence, the likeliest first."""
    from rich.text import Text

    return Text(
        "\n".join(f"{one.probability:6.2%}  {one_line(one.text)}" for one in (found, *found.alternatives))
    )


def print_lines(number: int, found: Filling, *, numbered: bool) -> None:
    """The best filling of a line, or several with the line's number and their probabilities."""
    if not numbered:
        print(one_line(found.text), flush=True)
    for one in (found, *found.alternatives) if numbered and found.tokens else ():
        print(f"{number} ||| {one_line(one.text)} ||| {one.probability:.6f}")
