"""`throughtime score`: which sentence is likelier, and how likely a given translation is."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from throughtime.cli.console import stdout
from throughtime.cli.inputs import (
    load_language_model,
    load_model,
    open_like_training,
    read_task_name,
    read_texts,
    report_skipped,
    report_weights,
)
from throughtime.cli.options import InterpolationOptions, Run, refuse
from throughtime.cli.output import Outcome, as_command, build_table, flags, warn
from throughtime.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from throughtime.results import Scored
    from throughtime.text.framing import Framing

SHADES = (
    (1, ""),
    (2, "#000000 on #fff2c2"),
    (4, "#000000 on #fdd56c"),
    (8, "#000000 on #f99b32"),
    (16, "#ffffff on #c6480f"),
    (math.inf, "bold #ffffff on #6b1a06"),
)
"""The colours of tokens below each number of bits. They darken, so that nobody has to tell red from green."""


@as_command
def score(
    run: Run,
    sentences: Annotated[list[str] | None, typer.Argument(metavar="SENTENCE")] = None,
    file: Path | None = None,
    pairs: str | None = None,
    prompt: str = "",
    numbers: bool = False,
    device: str = "auto",
    skip_bad: bool = False,
    **mixing: Unpack[InterpolationOptions],
) -> Outcome:
    """Rank sentences by their log-probability, in total and per token, and show how surprising each token is.

    [bold]Examples[/bold]

      throughtime score runs/ptb-5gram "dog bites man" "man bites dog"

      throughtime score runs/timemachine "the time traveller" --numbers

      throughtime score runs/timemachine --prompt "the time" " machine" " traveller"

      throughtime score runs/timemachine --with runs/6gram --weights 0.7,0.3 "the time machine"

      cat candidates.txt | throughtime score runs/ptb-5gram --json

      throughtime score runs/en-fr --pairs translations.tsv

    Args:
        sentences: Sentences to rank; without them, --file or stdin is read.
        file: Read the sentences from a file, one per line.
        pairs: For a translator: a file of sentence pairs, in any format that can be read.
        prompt: Text to read before each sentence; it is not scored itself.
        numbers: Show the surprisal of each token as a number, too.
    """
    if pairs is not None:
        if sentences or file is not None:
            raise InputError("--pairs", "cannot be used together with sentences or --file; choose one")
        problem = "is for language models, and --pairs scores translations of a source; leave it out"
        refuse(problem, **{"prompt": prompt or None, "with": mixing["others"], "weights": mixing["weights"]})
        return score_pairs(run, pairs, device, numbers, skip_bad)
    if skip_bad:
        raise InputError("--skip-bad", "goes with --pairs, whose records may be bad; leave it out")
    if read_task_name(run) == "translate":
        raise InputError(str(run), "translates, so it scores translations: give --pairs FILE")
    model = load_language_model(run, device, **mixing)
    if not sentences and file is None and sys.stdin.isatty():
        raise InputError("score needs sentences: as arguments, in a --file, or on stdin, one per line")
    texts = [text for block in read_texts(sentences, file) for text in block]
    mixed = report_weights(model)
    scored: list[Scored] = model.score(texts, prompt=prompt)
    warn(model.input_warnings(texts, blank_lines=not sentences))
    # A text without tokens to score comes last; its log-probability of 0 would be the best.
    ranked = sorted(range(len(scored)), key=lambda i: (not scored[i].tokens, -scored[i].total))
    by_token = sorted(range(len(scored)), key=lambda i: (not scored[i].tokens, -scored[i].per_token))
    values = {
        "run": str(run),
        "prompt": prompt,
        **mixed,
        "ranking": ranked,
        "ranking_per_token": by_token,
        "sentences": [{"text": score.text, **figures(score)} for score in scored],
    }
    if flags.json or not scored:
        return Outcome(values)
    lines, legend = draw_tokens(scored, model.framing, numbers)
    rows = [
        (str(rank), *figures_shown(scored[i]), str(by_token.index(i) + 1), lines[i])
        for rank, i in enumerate(ranked, start=1)
    ]
    about = "sentence, and the surprisal of each token in bits"
    return Outcome(values, [build_table(">rank", ">ln P", ">per token", ">rank", about, rows=rows), *legend])


def score_pairs(run: Path, pairs: str, device: str, numbers: bool, skip_bad: bool) -> Outcome:
    """How likely a translator finds the translations of a file, in the file's order."""
    from rich.text import Text

    from throughtime.metrics.measures import Likelihood
    from throughtime.text.framing import Framing
    from throughtime.text.parallel import SIDES

    model = load_model(run, device, "translate")
    dataset = open_like_training(model, pairs, skip_bad=skip_bad)
    given_pairs = list(dataset.pairs("all"))
    report_skipped(dataset)
    for side, codec in zip(SIDES, model.codecs, strict=True):
        warnings = codec.warnings.of([getattr(pair, side) for pair in given_pairs], dropped=True)
        warn({f"{side} {kind}": f"{side} side: {sentence}" for kind, sentence in warnings.items()})
    scored: list[Scored] = model.score(given_pairs)
    total = Likelihood.of(p for score in scored for p in score.log_probs)
    values = {
        "run": str(run),
        "log_prob": -total.nats,
        "loss": total.cross_entropy,
        "perplexity": total.perplexity,
        "pairs": [
            {"source": pair.source, "target": pair.target, **figures(score)}
            for pair, score in zip(given_pairs, scored, strict=True)
        ],
    }
    lines, legend = draw_tokens(scored, Framing(model.codecs.target, marked=True), numbers)
    rows = [
        (*figures_shown(score), Text.assemble((pair.source, "dim"), "\n", line))
        for score, pair, line in zip(scored, given_pairs, lines, strict=True)
    ]
    about = "source, and how surprising each token of its translation is"
    return Outcome(values, [build_table(">ln P", ">per token", about, rows=rows), *legend])


def figures(score: Scored) -> dict[str, Any]:
    """The figures of a scored text, ready for JSON."""
    return {
        "log_prob": score.total,
        "log_prob_per_token": score.per_token if score.tokens else None,
        "tokens": list(score.tokens),
        "surprisal_bits": [bits(p) for p in score.log_probs],
    }


def bits(log_prob: float) -> float:
    """Surprisal of a token in bits."""
    return -log_prob / math.log(2)


def shade(surprise: float) -> str:
    """The colours of a token with this surprisal in bits."""
    return next(style for below, style in SHADES if surprise < below or below == math.inf)


def figures_shown(score: Scored) -> tuple[str, str]:
    """The same for people."""
    return f"{score.total:.2f}", f"{score.per_token:.2f}"


def draw_tokens(scored: list[Scored], framing: Framing, numbers: bool) -> tuple[list[Text], list[Text]]:
    """The tokens of each text, and what their shades mean; with numbers where shades would be lost."""
    console = stdout()
    plain = console.no_color or console.color_system is None
    lines = [draw_numbers(score) if numbers or plain else draw_shades(score, framing) for score in scored]
    return lines, [] if plain else [draw_legend()]


def draw_shades(score: Scored, framing: Framing) -> Text:
    """The sentence as one reads it, each token on the shade of its surprisal; ⏎ is the end of a line."""
    from rich.text import Text

    ids = framing.codec.vocabulary[score.tokens]
    pieces = list(zip(framing.pieces(ids), score.log_probs, strict=True))
    shown = Text()
    for piece, log_prob in reversed(pieces) if framing.backward else pieces:
        visible = piece.replace("\n", "⏎") or "⏎"
        gap = len(visible) - len(visible.lstrip()) if visible.strip() else 0
        shown.append(visible[:gap]).append(visible[gap:], style=shade(bits(log_prob)))
    return shown


def draw_numbers(score: Scored) -> Text:
    """The tokens in the order in which the model reads them, each with its surprisal in bits."""
    from rich.text import Text

    shown = Text()
    for token, log_prob in zip(score.tokens, score.log_probs, strict=True):
        surprise = bits(log_prob)
        shown.append(token.replace("\n", "⏎").replace(" ", "␣"), style=shade(surprise))
        shown.append(f" {surprise:.1f}  ", style="dim")
    return shown


def draw_legend() -> Text:
    """What the shades mean."""
    from rich.text import Text

    shown = Text("\nbits of surprise: ")
    for (least, _), (below, style) in pairwise([(0, ""), *SHADES]):
        shown.append(f" {least}+ " if below == math.inf else f" {least}-{below} ", style=style).append(" ")
    return shown
