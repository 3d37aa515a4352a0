"""`throughtime tag`: sentences in, the same with tags out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.inputs import load_model, read_blocks, warn_about
from throughtime.cli.options import Debug, Device, Json, Run
from throughtime.cli.output import Outcome, as_command, progress_bar, stdout
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from throughtime.results import Tagged
    from throughtime.tasks.tag.predictor import Tagger

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green")
PLAIN = frozenset({"O", "PUNCT"})


@as_command
def tag(
    run: Run,
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences; else --file or stdin.", metavar="SENTENCE")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a sentence a line.")] = None,
    tokenize: Annotated[
        str,
        typer.Option(help="What cuts a line into words: space, or for raw text unicode, word, ..."),
    ] = "space",
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Tag the words of sentences, of lines of a file, or of stdin: as many lines come out as went in.

    A line has its words as word/tag, and the label of the whole sentence behind a tab where the model gives
    one. With --json each word has its probability and its most likely tags.

    [bold]Examples[/bold]

      throughtime tag runs/ewt "The old man the boats ."

      throughtime tag runs/ewt --tokenize unicode "Don't panic!"

      throughtime tag runs/snips --json "play some jazz"

      cat words.txt | throughtime tag runs/ewt > tagged.txt
    """
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    tagger: Tagger = load_model(run, device, "tag")

    def tagged(texts: list[str], title: str) -> list[Tagged]:
        with progress_bar(title) as advance:
            return tagger.tag(texts, tokenize=tokenize, progress=advance)

    if json:
        texts = sentences or [text for block in read_blocks(file) for text in block]
        found = tagged(texts, "tagging")
        warn_about(tagger, texts, None if sentences else 0)
        values = [{"text": text, **one.to_dict()} for text, one in zip(texts, found, strict=True)]
        return Outcome({"run": str(run), "sentences": values})
    console, done = stdout(), 0
    for block in [sentences] if sentences else read_blocks(file):
        found = tagged(block, f"lines {done + 1:,} to {done + len(block):,}")
        warn_about(tagger, block, None if sentences else done)
        for one in found:
            print_one(console, one)
        done += len(block)
    return Outcome({})


def print_one(console: Console, sentence: Tagged) -> None:
    """The line of a sentence, on a terminal with a colour for each tag."""
    if not console.is_terminal:
        print(sentence.text, flush=True)
        return
    from rich.text import Text

    text = Text()
    for number, word in enumerate(sentence.words):
        text.append(" " if number else "")
        text.append(word.word)
        text.append(f"/{word.tag}", style=colour(word.tag))
    text.append(f"\t{sentence.label}" if sentence.label else "", style="bold")
    console.print(text, soft_wrap=True)


def colour(tag: str) -> str:
    """The same for a tag wherever it stands, and for the beginning and the rest of a chunk.

    >>> colour("B-PER") == colour("I-PER"), colour("O")
    (True, 'dim')
    """
    if tag in PLAIN:
        return "dim"
    return COLOURS[sum(tag.partition("-")[2].encode() or tag.encode()) % len(COLOURS)]
