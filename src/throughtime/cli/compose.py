"""`throughtime compose`: a label or a vector in, texts out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from throughtime.cli.inputs import load_model, one_line, read_blocks
from throughtime.cli.options import SEED, Debug, Device, Json, Run, refuse
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.cli.translate import RULES
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.tasks.compose.predictor import Composer, Condition

LENGTH_PENALTY = 0.75


@as_command
def compose(
    run: Run,
    label: Annotated[
        list[str] | None, typer.Option(help="What the text is to be; may be given again.")
    ] = None,
    vector: Annotated[
        list[str] | None, typer.Option(help="Numbers such as 0.1,0.2; may be given again.")
    ] = None,
    num_return_sequences: Annotated[int, typer.Option(help="How many texts of each.", min=1, max=10_000)] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most likely token.")] = False,
    num_beams: Annotated[
        int | None, typer.Option(help="The likeliest texts, by a beam of so many.", min=1)
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="Of a beam, alpha: a score is log P / length^alpha; 0.75 if not given.", min=0),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 is more careful, above 1 more daring.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k most likely tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens of this mass.")] = None,
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
    from throughtime.tasks.translate.decoding_constraints import DecodingConstraints

    if num_beams is not None and greedy:
        raise InputError("--greedy", "cannot be used beside --num-beams; choose one")
    if num_beams is not None or greedy:
        refuse(
            "is for texts that are drawn; leave out --greedy and --num-beams",
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
    if num_beams is None:
        refuse("goes with --num-beams; leave it out", length_penalty=length_penalty)
    composer: Composer = load_model(run, device, "compose")
    given: list[Condition] = [*(label or []), *(_vector(one) for one in vector or [])]
    if composer.labels is not None and vector:
        raise InputError("--vector", "is given, but this model writes from a label; use --label")
    if composer.labels is None and label:
        raise InputError("--label", "is given, but this model writes from a vector; use --vector")
    if not given:
        given = from_stdin(composer)
    constraints = DecodingConstraints(prefix, tuple(forbid or ()), tuple(require or ()), no_repeat_ngram)
    constraints.check(composer.codec)
    with progress_bar("composing") as advance:
        found = composer.compose(
            given,
            num_return_sequences=num_return_sequences,
            greedy=greedy or None,
            num_beams=num_beams,
            length_penalty=LENGTH_PENALTY if length_penalty is None else length_penalty,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            max_new_tokens=max_new_tokens,
            constraints=constraints if constraints != DecodingConstraints() else None,
            progress=advance,
        )
    from rich.text import Text

    values = [
        {"condition": one, "texts": [text.to_dict() for text in own]}
        for one, own in zip(given, found, strict=True)
    ]
    shown = [Text(one_line(text.text)) for own in found for text in own]
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
