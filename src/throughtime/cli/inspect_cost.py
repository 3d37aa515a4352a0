"""`throughtime inspect cells` and `inspect cost`: what cells and layers cost, in theory and measured."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.options import Count, check_pictures
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, draw_figure
from throughtime.errors import InputError


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
        cell: Cell to compare; repeatable. By default lstm, gru, gru-before and those of other packages.
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
    for name, measured in comparison.items():
        left = "-" if measured.left_when_kept is None else f"{measured.left_when_kept:.1e}"
        table.add_row(
            name,
            f"{measured.weights:,}",
            f"{measured.biases:,}",
            f"{measured.milliseconds:.2f}",
            f"{measured.left:.1e}",
            left,
        )
    note = (
        f"A training step: forward and backward, {steps} steps, batch of {batch_size}, {hidden_size} units."
    )
    return Outcome(
        {**shape, "cells": {name: asdict(measured) for name, measured in comparison.items()}},
        [table, "", note],
    )


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
        raise InputError(
            "--longest", f"is {longest}, expected at least {LENGTHS[1]}: growth needs two lengths"
        )
    measurements = measure_layers(lengths, width=width, kernel=kernel)
    rows = {name: asdict(layer) for name, layer in measurements.items()}
    draw_figure(plot, "complexity", lengths, rows)
    headings = ("layer", "operations", "sequential", "path", ">ms", ">grows as", ">MB", ">grows as")
    table = build_table(*headings, **BOLD)
    for name, layer in measurements.items():
        table.add_row(
            name,
            *ORDERS[name],
            f"{layer.milliseconds[-1]:,.1f}",
            f"n^{layer.milliseconds_exponent:.2f}",
            f"{layer.megabytes[-1]:,.1f}",
            f"n^{layer.megabytes_exponent:.2f}",
        )
    last = lengths[-1]
    note = f"Measured at n = {last:,} with d = {width}, k = {kernel}; growth fitted to the longest lengths."
    values = {
        "width": width,
        "kernel": kernel,
        "lengths": lengths,
        "layers": {
            name: {**row, **theory(name, last, width, kernel)._asdict()} for name, row in rows.items()
        },
    }
    return Outcome(values, [table, "", note])
