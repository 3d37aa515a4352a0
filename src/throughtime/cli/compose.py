"""`throughtime compose`: a label or a vector in, texts out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Unpack

from throughtime.cli.inputs import load_model, one_line, read_blocks
from throughtime.cli.options import (
    ComposingOptions,
    Device,
    MaxNewTokens,
    NumReturnSequences,
    Run,
    option,
    search_arguments,
)
from throughtime.cli.output import Outcome, as_command, progress_bar
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.tasks.compose.model import Composer
    from throughtime.tasks.compose.runner import Condition


@as_command
def compose(
    run: Run,
    label: Annotated[list[str] | None, option("Label to write a text from; repeatable.")] = None,
    vector: Annotated[
        list[str] | None, option("Vector to write a text from, such as 0.1,0.2; repeatable.")
    ] = None,
    num_return_sequences: NumReturnSequences = 1,
    max_new_tokens: MaxNewTokens = None,
    device: Device = "auto",
    **options: Unpack[ComposingOptions],
) -> Outcome:
    """Write texts from a label or a vector, one per line.

    Without --label and --vector, each line of stdin is a label or a vector. Tokens are drawn at random,
    unless --search names another strategy; --greedy and --num-beams choose greedy and beam search.

    [bold]Examples[/bold]

      throughtime compose runs/requests --label GetWeather --num-return-sequences 3 --temperature 0.8

      throughtime compose runs/reports --vector 0.1,-2,30 --num-beams 5

      throughtime compose runs/reviewer --label good --require food --seed 1 --json
    """
    arguments = search_arguments(options)
    composer: Composer = load_model(run, device, "compose")
    conditions: list[Condition] = [*(label or []), *(_vector(one) for one in vector or [])]
    if composer.labels is not None and vector:
        raise InputError("--vector", "is given, but this model writes from a label; use --label")
    if composer.labels is None and label:
        raise InputError("--label", "is given, but this model writes from a vector; use --vector")
    if not conditions:
        conditions = read_conditions(composer)
    with progress_bar("composing") as advance:
        answers = composer.compose(
            conditions,
            num_return_sequences=num_return_sequences,
            max_new_tokens=max_new_tokens,
            progress=advance,
            **arguments,
        )
    from rich.text import Text

    values = [{"condition": one, **own.to_dict()} for one, own in zip(conditions, answers, strict=True)]
    shown = [Text(one_line(one.text)) for own in answers for one in (own, *own.alternatives)]
    return Outcome({"run": str(run), "seed": options["seed"], "composed": values}, [*shown])


def read_conditions(composer: Composer) -> list[Condition]:
    """A label or a vector from each line of stdin; at a keyboard an error says what to give."""
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
            raise InputError("stdin", f"is {line!r}, which is not a label; give one of {known}", line=number)
    return [*read]


def _vector(text: str, where: str = "--vector", line: int | None = None) -> list[float]:
    try:
        return [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(where, f"is {text!r}, expected numbers such as 0.1,0.2", line=line) from None
