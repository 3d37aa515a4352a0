"""`throughtime compose`: a label or a vector in, texts out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.generate import refuse_unused
from throughtime.cli.inputs import load_model, one_line, read_blocks
from throughtime.cli.options import SEED, Debug, Device, Json, Run
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.cli.translate import RULES
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.tasks.compose.predictor import Composer, Condition


@as_command
def compose(
    run: Run,
    label: Annotated[list[str] | None, typer.Option(help="Label to write a text from; repeatable.")] = None,
    vector: Annotated[
        list[str] | None, typer.Option(help="Vector to write a text from, such as 0.1,0.2; repeatable.")
    ] = None,
    num_return_sequences: Annotated[
        int, typer.Option(help="Number of texts for each label or vector.", min=1, max=10_000)
    ] = 1,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Take the most likely token at each step.")
    ] = False,
    num_beams: Annotated[
        int | None, typer.Option(help="Search for likely texts with this number of beams.", min=1)
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help="With --num-beams: the power of the length that log P is divided by; 0.75 by default.", min=0
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 likelier tokens become likelier still, above 1 less so.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from this number of likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest tokens that have this probability together.")
    ] = None,
    seed: Annotated[int | None, SEED] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of tokens; 100 unless the model sets another.", min=1)
    ] = None,
    prefix: Annotated[str, typer.Option(help="What the text begins with.", rich_help_panel=RULES)] = "",
    forbid: Annotated[
        list[str] | None, typer.Option(help="Words that must not appear; repeatable.", rich_help_panel=RULES)
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="Words that must appear; repeatable.", rich_help_panel=RULES)
    ] = None,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(help="Do not repeat any n-gram of this length.", min=1, rich_help_panel=RULES),
    ] = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Write texts from a label or a vector, a line each.

    Without --label and --vector every line of stdin is one of them, and gets as many lines as texts were
    asked for.

    [bold]Examples[/bold]

      throughtime compose runs/requests --label GetWeather --num-return-sequences 3 --temperature 0.8

      throughtime compose runs/reports --vector 0.1,-2,30 --num-beams 5

      throughtime compose runs/reviewer --label good --require food --seed 1 --json
    """
    refuse_unused(greedy, num_beams, length_penalty, temperature, top_k, top_p, seed)
    composer: Composer = load_model(run, device, "compose")
    given: list[Condition] = [*(label or []), *(_vector(one) for one in vector or [])]
    if composer.labels is not None and vector:
        raise InputError("--vector", "is given, but this model writes from a label; use --label")
    if composer.labels is None and label:
        raise InputError("--label", "is given, but this model writes from a vector; use --vector")
    if not given:
        given = from_stdin(composer)
    with progress_bar("composing") as advance:
        found = composer.compose(
            given,
            num_return_sequences=num_return_sequences,
            greedy=greedy or None,
            num_beams=num_beams,
            length_penalty=length_penalty,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            max_new_tokens=max_new_tokens,
            prefix=prefix,
            forbid=forbid or (),
            require=require or (),
            no_repeat_ngram=no_repeat_ngram,
            progress=advance,
        )
    from rich.text import Text

    values = [{"condition": one, **own.to_dict()} for one, own in zip(given, found, strict=True)]
    shown = [Text(one_line(one.text)) for own in found for one in (own, *own.alternatives)]
    return Outcome({"run": str(run), "seed": seed, "composed": values}, [*shown])


def from_stdin(composer: Composer) -> list[Condition]:
    """A label or a vector from each line; a person at a keyboard is told what to give."""
    if sys.stdin.isatty():
        if composer.labels is None:
            raise InputError("--vector", f"is missing: give {composer.width} numbers such as 0.1,0.2")
        raise InputError("--label", f"is missing: give one of {', '.join(composer.labels.names)}")
    read = [line.strip() for block in read_blocks(None) for line in block]
    if composer.labels is None:
        return [_vector(line, "stdin", number) for number, line in enumerate(read, 1)]
    for number, line in enumerate(read, 1):
        if line not in composer.labels:
            known = ", ".join(composer.labels.names)
            raise InputError("stdin", f"holds no label but {line!r}; give one of {known}", line=number)
    return [*read]


def _vector(text: str, where: str = "--vector", line: int | None = None) -> list[float]:
    try:
        return [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(where, f"is {text!r}, expected numbers such as 0.1,0.2", line=line) from None
