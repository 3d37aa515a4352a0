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
        str | None, typer.Argument(help="Beginning of the text.", metavar="PROMPT", show_default=False)
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The same, given as an option.")] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Maximum number of tokens to add; 100 unless the model sets another.", min=1),
    ] = None,
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
    num_return_sequences: Annotated[int, typer.Option(help="Number of texts.", min=1, max=10_000)] = 1,
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
    refuse_unused(greedy, num_beams, length_penalty, temperature, top_k, top_p, seed)
    model = opened(run, device)
    strategy = model.strategy(
        max_new_tokens=max_new_tokens,
        greedy=greedy or None,
        num_beams=num_beams,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        num_return_sequences=num_return_sequences,
        seed=seed,
    )
    if prompt:
        warn(model.input_warnings([prompt]))
    if (
        sys.stdout.isatty()
        and not json
        and num_return_sequences == 1
        and num_beams is None
        and not model.framing.backward
    ):
        for piece in model.stream(prompt, max_new_tokens=max_new_tokens, strategy=strategy):
            print(piece, end="", flush=True)
        print()
        return Outcome({})
    [found] = model.generate(prompt, max_new_tokens=max_new_tokens, strategy=strategy)
    from rich.text import Text

    values = {"run": str(run), "prompt": prompt, "seed": seed, **found.to_dict()}
    return Outcome(values, [Text(one.text) for one in (found, *found.alternatives)])


def refuse_unused(
    greedy: bool, num_beams: int | None, length_penalty: float | None, *drawing: float | None
) -> None:
    """Refuse options that the chosen search would ignore."""
    if num_beams is not None and greedy:
        raise InputError("--greedy", "cannot be used beside --num-beams; choose one")
    if num_beams is not None or greedy:
        names = ("temperature", "top_k", "top_p", "seed")
        given = dict(zip(names, drawing, strict=True))
        refuse("is for texts that are drawn; leave out --greedy and --num-beams", **given)
    if num_beams is None:
        refuse("goes with --num-beams; leave it out", length_penalty=length_penalty)


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
