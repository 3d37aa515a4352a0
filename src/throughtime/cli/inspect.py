"""`throughtime inspect`: recurrences, what they cost, and a counted model as a Markov chain."""

from __future__ import annotations

import difflib
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.inputs import load_model
from throughtime.cli.inspect_gradients import gradients, truncation
from throughtime.cli.inspect_model import InspectsRun, inspect_model
from throughtime.cli.options import Count, OptionalCount, Run, check_pictures, refuse
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, draw_figure, warn
from throughtime.cli.usage import Group, add_commands
from throughtime.errors import InputError
from throughtime.files import path_exists

if TYPE_CHECKING:
    from throughtime.ngram.markov import MarkovChain
    from throughtime.text.framing import Framing


@as_command
def cells(
    cell: list[str] | None = None,
    steps: Count = 35,
    batch_size: Count = 32,
    hidden_size: Count = 256,
    lag: Annotated[int, typer.Option(min=2)] = 200,
    repetitions: Count = 15,
) -> Outcome:
    """Compare cells: number of weights, time of a training step, and how long a gradient lasts.

    The last columns show the norm of the gradient ds_T/ds_t that is left after --lag steps of a random cell
    of 64 units: with its initial gates, and with the gates that keep the state set to 0.98.

    [bold]Examples[/bold]

      throughtime inspect cells

      throughtime inspect cells --cell lstm --cell mingru --hidden-size 512

    Args:
        cell: Cell to compare; repeatable. By default lstm, gru, gru-before and all that were added.
        steps: Number of steps of a sequence.
        batch_size: Number of sequences of a batch.
        hidden_size: Number of inputs and of units.
        lag: Number of steps to follow the gradient back.
        repetitions: Number of timed training steps.
    """
    from throughtime.inspection.cost import compare_cells

    shape = {"steps": steps, "batch_size": batch_size, "hidden_size": hidden_size, "lag": lag}
    comparison = compare_cells(list(dict.fromkeys(cell or ())), **shape, repetitions=repetitions)
    lagged = f">left at lag {lag}"
    table = build_table("cell", ">weights", ">biases", ">ms per step", lagged, ">keeping 0.98", **BOLD)
    for name, cost in comparison.items():
        sizes = (f"{cost.weights:,}", f"{cost.biases:,}", f"{cost.milliseconds:.2f}")
        left = ("-" if norm is None else f"{norm:.1e}" for norm in (cost.left, cost.left_when_kept))
        table.add_row(name, *sizes, *left)
    note = (
        f"A training step: forward and backward, {steps} steps, batch of {batch_size}, {hidden_size} units."
    )
    values = {**shape, "cells": {name: asdict(cost) for name, cost in comparison.items()}}
    return Outcome(values, [table, "", note])


@as_command
def cost(
    longest: Count = 8192,
    width: Annotated[int, typer.Option(min=1, max=4096)] = 64,
    kernel: Annotated[int, typer.Option(min=2, max=99)] = 3,
    plot: Path | None = None,
) -> Outcome:
    """Compare what convolution, recurrence and self-attention cost as sequences grow.

    The table shows operations, sequential steps and longest path in theory, and the measured time and memory
    of one training step of one layer on one thread.

    [bold]Example[/bold]

      throughtime inspect cost --longest 2048 --plot cost.png

    Args:
        longest: Longest sequence to measure; lengths double from 128.
        width: Width d of the layers.
        kernel: Kernel k of the convolution.
    """
    from throughtime.inspection.cost import LENGTHS, ORDERS, measure_layers, theory

    check_pictures(plot)
    lengths = [n for n in LENGTHS if n <= longest]
    if len(lengths) < 2:
        problem = f"is {longest}, expected at least {LENGTHS[1]}: growth needs two lengths"
        raise InputError("--longest", problem)
    measurements = measure_layers(lengths, width=width, kernel=kernel)
    rows = {name: asdict(layer) for name, layer in measurements.items()}
    draw_figure(plot, "complexity", lengths, rows)
    headings = ("layer", "operations", "sequential", "path", ">ms", ">grows as", ">MB", ">grows as")
    table = build_table(*headings, **BOLD)
    for name, layer in measurements.items():
        time = (f"{layer.milliseconds[-1]:,.1f}", f"n^{layer.milliseconds_exponent:.2f}")
        memory = (f"{layer.megabytes[-1]:,.1f}", f"n^{layer.megabytes_exponent:.2f}")
        table.add_row(name, *ORDERS[name], *time, *memory)
    last = lengths[-1]
    note = f"Measured at n = {last:,} with d = {width}, k = {kernel}; growth fitted to the longest lengths."
    layers = {name: {**row, **theory(name, last, width, kernel)._asdict()} for name, row in rows.items()}
    values = {"width": width, "kernel": kernel, "lengths": lengths, "layers": layers}
    return Outcome(values, [table, "", note])


class RunOrCommand(Group):
    """A group in which any other word is a model folder: `inspect RUN ...` is `inspect model RUN ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command that was left out before a run."""
        if args and args[0] not in ctx.help_option_names and not self._is_command(args[0]):
            args = ["model", *args]
        return super().parse_args(ctx, args)

    def _is_command(self, word: str) -> bool:
        """Whether a word is a command, or was meant to be one."""
        return word in self.commands or (
            not path_exists(word) and bool(difflib.get_close_matches(word, self.commands))
        )


@as_command
def graph(
    cell: str = "gru", steps: Annotated[int, typer.Option(min=1, max=8)] = 3, plot: Path | None = None
) -> Outcome:
    """Draw the computation graph of a recurrence, unrolled through time, with a loss at every step.

    [bold]Example[/bold]

      throughtime inspect graph --cell gru --steps 3 --plot graph.png

    Args:
        cell: {throughtime.cells:CELLS}.
        steps: Number of steps to unroll.
    """
    from throughtime.inspection.graph import UnrolledNode, unroll
    from throughtime.text.texts import format_count

    check_pictures(plot)
    drawn = unroll(cell, steps)
    title = f"{cell.upper().replace('MIN', 'min')}, unrolled over {format_count(steps, 'step')}"
    draw_figure(plot, "graph", drawn, title=title)
    values = {
        "cell": cell,
        "steps": steps,
        "nodes": [[node.letter, node.step, node.kind] for node in drawn.nodes],
        "edges": [[_label(source), _label(target)] for source, target in drawn.edges],
        "weight_uses": drawn.uses(UnrolledNode("w_h", None, "weight")),
        "longest_path": drawn.depth(),
    }
    sentence = (
        f"{cell} over {format_count(steps, 'step')}: {len(drawn.nodes)} values, {len(drawn.edges)} arrows. "
        f"All steps use the same weights w_h: their gradient is the sum of what each step adds. "
        f"The longest way back from the loss has {drawn.depth()} arrows."
    )
    return Outcome(values, [sentence])


def _label(node: Any) -> str:
    return node.letter if node.step is None else f"{node.letter}_{node.step}"


SHOWN = 10


@as_command
def markov(
    run: Run,
    after: str | None = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000)] = None,
    most_likely: OptionalCount = None,
    top: OptionalCount = None,
) -> Outcome:
    """Look beyond the next word of an n-gram model, as a Markov chain over its last words.

    Both answers are exact, by dynamic programming: --steps K sums over all words that may come in between,
    and --most-likely T finds the best of all sequences of T tokens, which need not begin with the most likely
    next word.

    [bold]Examples[/bold]

      throughtime inspect markov runs/words --after time --steps 3

      throughtime inspect markov runs/words --after "the time" --most-likely 8

    Args:
        after: Words that come before; by default the beginning of a text.
        steps: Show which words are likely this many steps later.
        most_likely: Show the most likely sequence of this many tokens.
        top: With --steps: number of words to show; 10 by default.
    """
    from throughtime.ngram.markov import MarkovChain

    if (steps is None) == (most_likely is None):
        raise InputError("--steps and --most-likely", "give exactly one of these two options")
    if steps is None:
        refuse("goes with --steps; leave it out", top=top)
    model = load_model(run, "cpu", "ngram")
    framing: Framing = model.framing
    if framing.backward:
        raise InputError(str(run), "reads from right to left, so nothing comes after; use another model")
    if not model.config.holds_counts:
        problem = "holds probabilities (it is pruned or from an ARPA file); use a model of counts"
        raise InputError(str(run), problem)
    context = framing.ids(after or "", end=False)
    chain = MarkovChain(model.model, end_id=framing.end_id)
    facts = {"run": str(run), "order": chain.order, "states": chain.num_states, "after": after}
    if steps is not None:
        values, shown = _steps_ahead(chain, framing, context, steps, top or SHOWN)
    else:
        values, shown = _sequence(chain, framing, context, most_likely or 1)
    if after:
        warn(model.input_warnings([after]))
    return Outcome(facts | values, shown)


def _steps_ahead(
    chain: MarkovChain, framing: Framing, context: list[int], steps: int, top: int
) -> tuple[dict[str, Any], list[Any]]:
    """The likeliest words some steps later, and how uncertain the word is."""
    from throughtime.text.codec import END

    chances = chain.after(context, steps)
    best = [int(word) for word in (-chances).argsort(kind="stable")[:top] if chances[word] > 0]
    words = [END if word == framing.end_id else framing.codec.vocabulary.token(word) for word in best]
    entropy = -sum(chance * math.log2(chance) for chance in chances.tolist() if chance > 0)
    likely = dict(zip(words, chances[best].tolist(), strict=True))
    shown = [(word, f"{chance:.4f}") for word, chance in likely.items()]
    table = build_table("word", ">probability", rows=shown, **BOLD)
    listed = [{"word": word, "probability": chance} for word, chance in likely.items()]
    values = {"steps": steps, "entropy_bits": entropy, "words": listed}
    note = f"Entropy of the word {steps} steps ahead: {entropy:.2f} bits; {chain.num_states:,} states."
    return values, [table, "", note]


def _sequence(
    chain: MarkovChain, framing: Framing, context: list[int], length: int
) -> tuple[dict[str, Any], list[Any]]:
    """The most likely sequence, up to the end of the text if it reaches one."""
    try:
        ids, log_prob = chain.most_likely(length, context)
    except InputError as error:
        raise InputError("--most-likely", error.problem) from None
    if log_prob == -math.inf:
        problem = f"is {length}, but no sequence of that length can follow here; give a smaller number"
        raise InputError("--most-likely", problem)
    if framing.end_id in ids:
        ids = ids[: ids.index(framing.end_id) + 1]
    text = framing.text(ids)
    tokens = framing.codec.vocabulary.tokens(ids)
    values = {"most_likely": length, "text": text, "tokens": tokens, "log_prob": log_prob}
    return values, [text, f"ln P {log_prob:.3f}, {chain.num_states:,} states"]


inspect_app = typer.Typer(
    cls=RunOrCommand,
    no_args_is_help=True,
    help='Look inside a trained model (`inspect RUN "sentence"`), or at recurrence itself: gradients through '
    "time, the unrolled graph, truncation.",
)
inspect_app.command("model", cls=InspectsRun)(inspect_model)
add_commands(inspect_app, gradients, graph, truncation, cells, cost, markov)
