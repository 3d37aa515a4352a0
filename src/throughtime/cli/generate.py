"""`throughtime generate`: a language model writes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer

from throughtime.cli.console import print_text
from throughtime.cli.inputs import load_language_model, load_model, read_task_name, report_weights
from throughtime.cli.options import InterpolationOptions, Run, StrategyOptions, search_arguments
from throughtime.cli.output import Outcome, as_command, flags, warn
from throughtime.errors import InputError
from throughtime.runtime.keywords import WritingOptions, WritingRules, split_options


class GenerateOptions(WritingOptions, StrategyOptions, WritingRules, InterpolationOptions):
    """Options of `generate`."""


@as_command
def generate(
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="PROMPT", show_default=False)] = None,
    prompt: str | None = None,
    device: str = "auto",
    **options: Unpack[GenerateOptions],
) -> Outcome:
    """Continue a prompt, one token at a time.

    Tokens are drawn at random, unless --search names another strategy; --greedy and --num-beams choose
    greedy and beam search.

    [bold]Examples[/bold]

      throughtime generate runs/ptb-5gram "the stock market" --seed 1

      throughtime generate runs/letters "the time " --max-new-tokens 300 --temperature 0.8

      throughtime generate runs/timemachine "time traveller" --with runs/6gram --weights 0.7,0.3

      throughtime generate runs/ptb-lstm "the" --search diverse --num-return-sequences 3 --forbid unk

    Args:
        text: Beginning of the text.
        prompt: Beginning of the text, given as an option.
    """
    if text is not None and prompt is not None and text != prompt:
        raise InputError("--prompt", "differs from the prompt given as an argument; give one of them")
    prompt = text or prompt or ""
    arguments = search_arguments(options)
    others, weights = arguments.pop("others", None), arguments.pop("weights", None)
    rules, arguments = split_options(arguments, WritingRules)
    model = load_writer(run, device, others, weights)
    max_new_tokens, count = options["max_new_tokens"], arguments.pop("num_return_sequences", 1)
    strategy = model.strategy(num_return_sequences=count, **arguments)
    mixed = report_weights(model)
    if prompt:
        warn(model.input_warnings([prompt]))
    alone = count == 1 and not rules and not model.framing.backward
    if sys.stdout.isatty() and not flags.json and alone and getattr(strategy, "streams", False):
        for piece in model.stream(prompt, max_new_tokens=max_new_tokens, strategy=strategy):
            print_text(piece, end="")
        print_text()
        return Outcome({})
    [answer] = model.generate(prompt, max_new_tokens=max_new_tokens, strategy=strategy, **rules)
    from rich.text import Text

    values = {"run": str(run), "prompt": prompt, "seed": options["seed"], **mixed, **answer.to_dict()}
    return Outcome(values, [Text(text.text) for text in (answer, *answer.alternatives)])


def load_writer(run: Path, device: str, others: list[Path] | None, weights: str | None) -> Any:
    """The language model of a run; one that reads from both ends says why it cannot write."""
    if read_task_name(run) == "fill":
        raise InputError(str(run), load_model(run, device).refuses_generation)
    return load_language_model(run, device, others, weights)
