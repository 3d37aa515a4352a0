"""`throughtime tag`: sentences in, the same with tags out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.console import print_text, stdout
from throughtime.cli.inputs import answer_texts, load_model, read_texts
from throughtime.cli.options import Device, File, Run, option
from throughtime.cli.output import Outcome, as_command, flags

if TYPE_CHECKING:
    from rich.console import Console

    from throughtime.results import Tagged

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green")
PLAIN = frozenset({"O", "PUNCT"})


@as_command
def tag(
    run: Run,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences; without them, --file or stdin is read.", metavar="SENTENCE"),
    ] = None,
    file: File = None,
    tokenize: Annotated[
        str, option("How to split a line into words: space, or for raw text unicode, word, ...")
    ] = "space",
    device: Device = "auto",
) -> Outcome:
    """Tag the words of sentences, of the lines of a file, or of stdin; print one line for each input line.

    A line has its words as word/tag, and after a tab the label of the whole sentence if the model gives one.
    With --json each word has its probability and its most likely tags.

    [bold]Examples[/bold]

      throughtime tag runs/ewt "The old man the boats ."

      throughtime tag runs/ewt --tokenize unicode "Don't panic!"

      throughtime tag runs/snips --json "play some jazz"

      cat words.txt | throughtime tag runs/ewt > tagged.txt
    """
    blocks = read_texts(sentences, file)
    tagger = load_model(run, device, "tag")
    answers = answer_texts(tagger, blocks, partial(tagger.tag, tokenize=tokenize), lines=not sentences)
    if flags.json:
        values = [{"text": text, **one.to_dict()} for _, text, one in answers]
        return Outcome({"run": str(run), "sentences": values})
    console = stdout()
    for _, _, one in answers:
        print_tags(console, one)
    return Outcome({})


def print_tags(console: Console, sentence: Tagged) -> None:
    """Print a sentence with its tags; on a terminal each tag has a colour."""
    if not console.is_terminal:
        print_text(sentence.text)
        return
    from rich.text import Text

    text = Text()
    for number, word in enumerate(sentence.words):
        text.append(" " if number else "")
        text.append(word.word)
        text.append(f"/{word.tag}", style=choose_colour(word.tag))
    text.append(f"\t{sentence.label}" if sentence.label else "", style="bold")
    console.print(text, soft_wrap=True)


def choose_colour(tag: str) -> str:
    """The colour of a tag, the same for the beginning and the rest of a chunk.

    >>> choose_colour("B-PER") == choose_colour("I-PER"), choose_colour("O")
    (True, 'dim')
    """
    if tag in PLAIN:
        return "dim"
    return COLOURS[sum(tag.partition("-")[2].encode() or tag.encode()) % len(COLOURS)]
