"""`throughtime score`: which sentence is likelier, and how likely a given translation is."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model, open_data, read_blocks, report_skipped, skips_bad
from throughtime.cli.options import Device, Run, SkipBad
from throughtime.cli.output import Outcome, as_command, flags, stdout, warn
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from throughtime.results import Scored
    from throughtime.tasks.language.framing import Framing

SHADES = (
    (1, ""),
    (2, "#000000 on #fff2c2"),
    (4, "#000000 on #fdd56c"),
    (8, "#000000 on #f99b32"),
    (16, "#ffffff on #c6480f"),
    (math.inf, "bold #ffffff on #6b1a06"),
)
"""Below how many bits a token has which colours. They darken: nobody needs to tell red from green."""


@as_command
def score(
    run: Run,
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences to rank; else --file or stdin.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a sentence a line.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="For a translator: a file of sentences and their translations, of any format."),
    ] = None,
    prompt: Annotated[
        str, typer.Option(help="Text to read first; what follows it is scored, the prompt itself is not.")
    ] = "",
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Show the surprisal of each token as a number, too.")
    ] = False,
    device: Device = "auto",
    skip_bad: SkipBad = False,
) -> Outcome:
    """Rank sentences by their log-probability, in total and per token, and show what is surprising in them.

    [bold]Examples[/bold]

      throughtime score runs/ptb-5gram "dog bites man" "man bites dog"

      throughtime score runs/timemachine "the time traveller" --numbers

      throughtime score runs/timemachine --prompt "the time" " machine" " traveller"

      cat candidates.txt | throughtime score runs/ptb-5gram --json

      throughtime score runs/en-fr --pairs translations.tsv
    """
    if pairs is not None:
        if sentences or file is not None:
            raise InputError("--pairs", "cannot be used beside sentences or --file; choose one")
        if prompt:
            raise InputError("--prompt", "is for language models; --pairs scores translations of a source")
        return of_pairs(run, pairs, device, numbers, skip_bad)
    if skip_bad:
        raise InputError("--skip-bad", "goes with --pairs, whose records may be bad; leave it out")
    model = load_model(run, device, "language", "ngram", "translate")
    if hasattr(model, "translate"):
        raise InputError(str(run), "translates, so it scores translations: give --pairs FILE")
    texts = given(sentences, file)
    scored: list[Scored] = model.score(texts, prompt=prompt)
    warn(model.input_warnings(texts, dropped=True, blank_lines=not sentences))
    # A text without tokens to score comes last; its log-probability of 0 would be the best.
    ranked = sorted(range(len(scored)), key=lambda i: (not scored[i].tokens, -scored[i].total))
    by_token = sorted(range(len(scored)), key=lambda i: (not scored[i].tokens, -scored[i].per_token))
    values = {
        "run": str(run),
        "prompt": prompt,
        "ranking": ranked,
        "ranking_per_token": by_token,
        "sentences": [{"text": one.text, **figures(one)} for one in scored],
    }
    if flags.json or not scored:
        return Outcome(values)
    console = stdout()
    plain = console.no_color or console.color_system is None  # shades would be lost
    told = [numbered(one) if numbers or plain else line(one, model.framing) for one in scored]
    shown: list[Any] = [table(scored, ranked, by_token, told)]
    return Outcome(values, shown if plain else [*shown, legend()])


def of_pairs(run: Path, pairs: str, device: str, numbers: bool, skip_bad: bool) -> Outcome:
    """How likely a translator finds the translations of a file, in the file's order."""
    from throughtime.metrics.likelihood import Likelihood
    from throughtime.tasks.language.framing import Framing
    from throughtime.tasks.translate.texts import SIDES

    model = load_model(run, device, "translate")
    skip_bad = skips_bad(skip_bad, run, pairs, model.config.data)
    dataset = open_data(pairs, **model.config.data_options, skip_bad=skip_bad)
    given_pairs = list(dataset.pairs("all"))
    report_skipped(dataset)
    for side, codec in zip(SIDES, model.codecs, strict=True):
        found = codec.warnings.of([getattr(pair, side) for pair in given_pairs], dropped=True)
        warn({f"{side} {kind}": f"{side} side: {sentence}" for kind, sentence in found.items()})
    scored: list[Scored] = model.score(given_pairs)
    total = Likelihood.of(p for one in scored for p in one.log_probs)
    values = {
        "run": str(run),
        "log_prob": -total.nats,
        "loss": total.cross_entropy,
        "perplexity": total.perplexity,
        "pairs": [
            {"source": pair.source, "target": pair.target, **figures(one)}
            for pair, one in zip(given_pairs, scored, strict=True)
        ],
    }
    framing = Framing(model.codecs.target, marked=True)
    console = stdout()
    plain = numbers or console.no_color or console.color_system is None
    told = [numbered(one) if plain else line(one, framing) for one in scored]
    shown: list[Any] = [pair_table([pair.source for pair in given_pairs], scored, told)]
    return Outcome(values, shown if plain else [*shown, legend()])


def figures(one: Scored) -> dict[str, Any]:
    """What is known of a scored text, ready for JSON."""
    return {
        "log_prob": one.total,
        "log_prob_per_token": one.per_token if one.tokens else None,
        "tokens": list(one.tokens),
        "surprisal_bits": [bits(p) for p in one.log_probs],
    }


def given(sentences: list[str] | None, file: Path | None) -> list[str]:
    """The sentences of the arguments, of the file or of stdin."""
    if sentences and file is not None:
        raise InputError("--file", "cannot be used beside sentences on the command line; choose one")
    if sentences:
        return sentences
    if file is None and sys.stdin.isatty():
        raise InputError("score needs sentences: as arguments, in a --file, or on stdin, one a line")
    return [text for block in read_blocks(file) for text in block]


def bits(log_prob: float) -> float:
    """Surprisal of a token in bits."""
    return -log_prob / math.log(2)


def shade(surprise: float) -> str:
    """The colours of a token of so many bits."""
    return next(style for below, style in SHADES if surprise < below or below == math.inf)


def table(scored: list[Scored], ranked: list[int], by_token: list[int], told: list[Text]) -> Table:
    """Best first, each sentence with its line."""
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
            str(place), f"{one.total:.2f}", f"{one.per_token:.2f}", str(by_token.index(i) + 1), told[i]
        )
    return shown


def pair_table(sources: list[str], scored: list[Scored], told: list[Text]) -> Table:
    """Each source above its translation."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("ln P", justify="right")
    shown.add_column("per token", justify="right")
    shown.add_column("source, and how surprising each token of its translation is")
    for source, one, words in zip(sources, scored, told, strict=True):
        both = Text.assemble((source, "dim"), "\n", words)
        shown.add_row(f"{one.total:.2f}", f"{one.per_token:.2f}", both)
    return shown


def line(one: Scored, framing: Framing) -> Text:
    """The sentence as one reads it, each token on the shade of its surprisal; ⏎ is the end of a line."""
    from rich.text import Text

    ids = framing.codec.vocabulary[one.tokens]
    told = list(zip(framing.pieces(ids), one.log_probs, strict=True))
    shown = Text()
    for piece, log_prob in reversed(told) if framing.backward else told:
        visible = piece.replace("\n", "⏎") or "⏎"
        gap = len(visible) - len(visible.lstrip()) if visible.strip() else 0
        shown.append(visible[:gap]).append(visible[gap:], style=shade(bits(log_prob)))
    return shown


def numbered(one: Scored) -> Text:
    """The tokens in the order in which the model reads them, each with its surprisal in bits."""
    from rich.text import Text

    shown = Text()
    for token, log_prob in zip(one.tokens, one.log_probs, strict=True):
        surprise = bits(log_prob)
        shown.append(token.replace("\n", "⏎").replace(" ", "␣"), style=shade(surprise))
        shown.append(f" {surprise:.1f}  ", style="dim")
    return shown


def legend() -> Text:
    """What the shades mean."""
    from rich.text import Text

    shown = Text("\nbits of surprise: ")
    least = 0
    for below, style in SHADES:
        shown.append(f" {least}+ " if below == math.inf else f" {least}-{below} ", style=style).append(" ")
        least = int(min(below, 16))
    return shown
