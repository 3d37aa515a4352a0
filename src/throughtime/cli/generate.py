"""`throughtime generate`: a language model writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.inputs import load_model, task_of
from throughtime.cli.options import SEED, Debug, Device, Json, Run, refuse
from throughtime.cli.output import Outcome, as_command, warn
from throughtime.errors import InputError


@as_command
def generate(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(help="What the text begins with.", metavar="PROMPT", show_default=False)
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The same, given as an option.")] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Maximum number of tokens to add; 100 unless the model sets another.", min=1),
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most likely token.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 is more careful, above 1 more daring.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k most likely tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens of this mass.")] = None,
    num_return_sequences: Annotated[int, typer.Option(help="How many texts.", min=1, max=10_000)] = 1,
    seed: Annotated[int | None, SEED] = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Continue a prompt, one token at a time.

    [bold]Examples[/bold]

      throughtime generate runs/ptb-5gram "the stock market" --seed 1

      throughtime generate runs/letters "the time " --max-new-tokens 300 --temperature 0.8
    """
    prompt = choose_prompt(text, prompt)
    if greedy:
        refuse(
            "is for texts that are drawn; leave out --greedy",
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            num_return_sequences=num_return_sequences if num_return_sequences > 1 else None,
            seed=seed,
        )
    model = opened(run, device)
    strategy = model.strategy(
        greedy=greedy or None,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        num_return_sequences=num_return_sequences,
        seed=seed,
    )
    if prompt:
        warn(model.input_warnings([prompt]))
    if sys.stdout.isatty() and not json and num_return_sequences == 1 and not model.framing.backward:
        for piece in model.stream(prompt, max_new_tokens=max_new_tokens, strategy=strategy):
            print(piece, end="", flush=True)
        print()
        return Outcome({})
    texts = model.generate(prompt, max_new_tokens=max_new_tokens, strategy=strategy)
    values = {
        "run": str(run),
        "prompt": prompt,
        "seed": seed,
        "texts": [{"text": one.text, "log_prob": one.log_prob, "ended": one.ended} for one in texts],
    }
    from rich.text import Text

    return Outcome(values, [Text(one.text) for one in texts])


def choose_prompt(text: str | None, prompt: str | None) -> str:
    """The prompt, from the argument or the option."""
    if text is not None and prompt is not None and text != prompt:
        raise InputError("--prompt", "differs from the prompt given as an argument; give one of them")
    return text or prompt or ""


def opened(run: Path, device: str) -> Any:
    """The language model of a run; one that reads from both ends says why it cannot write."""
    from throughtime.tasks.base import load

    if task_of(run) == "fill":
        raise InputError(str(run), load(run, device).refuses_generation)
    return load_model(run, device, "language", "ngram")
