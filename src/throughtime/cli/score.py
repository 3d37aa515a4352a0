"""`throughtime score`: which sentence is likelier."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.evaluate import Run
from throughtime.cli.output import Debug, Json, Outcome, reported
from throughtime.errors import InputError


@reported
def score(
    run: Run,
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences to rank; else --file or stdin.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a sentence a line.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Rank sentences by their log-probability, in total and per token, with the surprisal of every token.

    [bold]Examples[/bold]

      throughtime score runs/ptb-5gram "dog bites man" "man bites dog"

      cat candidates.txt | throughtime score runs/ptb-5gram --json
    """
    from throughtime.tasks import load

    texts = given(sentences, file)
    scored = load(run).score(texts)
    ranked = sorted(range(len(scored)), key=lambda i: -scored[i].total)
    by_token = sorted(range(len(scored)), key=lambda i: -scored[i].per_token)
    values = {
        "run": str(run),
        "ranking": ranked,
        "ranking_per_token": by_token,
        "sentences": [
            {
                "text": one.text,
                "log_prob": one.total,
                "log_prob_per_token": one.per_token,
                "tokens": list(one.tokens),
                "surprisal_bits": [bits(p) for p in one.log_probs],
            }
            for one in scored
        ],
    }
    return Outcome(values, [table(scored, ranked, by_token)])


def given(sentences: list[str] | None, file: Path | None) -> list[str]:
    """The sentences of the arguments, of the file or of stdin."""
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    if file is not None:
        from throughtime.data.source import read_lines

        return [line for _, line in read_lines(file)]
    if sentences:
        return sentences
    if sys.stdin.isatty():
        raise InputError("score needs sentences: as arguments, in a --file, or on stdin, one a line")
    lines = sys.stdin.read().splitlines()
    if not lines:
        raise InputError("stdin", "is empty; give a sentence a line")
    return lines


def bits(log_prob: float) -> float:
    """Surprisal of a token in bits."""
    import math

    return -log_prob / math.log(2)


def table(scored: list[Any], ranked: list[int], by_token: list[int]) -> Any:
    """Best first, each token coloured by how surprising it is."""
    from rich.table import Table

    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("rank", justify="right")
    shown.add_column("ln P", justify="right")
    shown.add_column("per token", justify="right")
    shown.add_column("rank", justify="right")
    shown.add_column("sentence, and the surprisal of each token in bits")
    for place, i in enumerate(ranked, start=1):
        one = scored[i]
        shown.add_row(
            str(place), f"{one.total:.2f}", f"{one.per_token:.2f}", str(by_token.index(i) + 1), coloured(one)
        )
    return shown


def coloured(one: Any) -> Any:
    """Tokens from calm to alarming, with the number beside the colour for those who do not see it."""
    from rich.text import Text

    line = Text()
    for token, log_prob in zip(one.tokens, one.log_probs, strict=True):
        surprise = bits(log_prob)
        style = "green" if surprise < 4 else "yellow" if surprise < 9 else "bold red"
        line.append(token.replace("\n", "⏎").replace(" ", "␣"), style=style)
        line.append(f" {surprise:.1f}  ", style="dim")
    return line
