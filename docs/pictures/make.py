"""Draw the pictures of docs/from-equation-to-code.md anew: `python docs/pictures/make.py`, about a minute."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import throughtime as tt
from throughtime.cells import CELLS, Cell
from throughtime.inspection.gates import gates
from throughtime.inspection.gradients import one_thread
from throughtime.plots.heatmaps import heat_map
from throughtime.plots.style import INK, figure
from throughtime.recurrence import scan

HERE = Path(__file__).parent
SENTENCE = "she reads a long letter"
UNITS, STEPS, BATCH, UPDATES = 24, 32, 32, 400

# Of each cell, what is drawn, and what it is called.
SHOWN = {
    "rnn": {"h": "state"},
    "gru": {"z": "update", "r": "reset", "n": "candidate", "h": "state"},
    "gru-before": {"z": "update", "r": "reset", "n": "candidate", "h": "state"},
    "lstm": {"f": "forget", "i": "input", "o": "output", "g": "candidate", "c": "memory", "h": "state"},
    "mingru": {"z": "update", "h": "state"},
}
TITLES = {
    "gru": "GRU, reset after the product",
    "gru-before": "GRU, reset before the product",
    "mingru": "minGRU",
}
COMMANDS = {
    "gradients.png": ["gradients", "--cell", "all", "--steps", "200"],
    "graph.png": ["graph", "--cell", "gru", "--steps", "3"],
    "graph-lstm.png": ["graph", "--cell", "lstm", "--steps", "3"],
    "truncation.png": ["truncation", "--steps", "256", "--tau", "32", "--pi", "0.9"],
}


def characters() -> tuple[Tensor, dict[str, int]]:
    """The embedded English as ids of small letters and spaces."""
    text = " ".join(tt.open_dataset("embedded/english").texts("train")).lower()
    kept = " ".join("".join(mark if mark.isalpha() else " " for mark in text).split())
    ids = {character: number for number, character in enumerate(sorted(set(kept)))}
    return torch.tensor([ids[character] for character in kept]), ids


def trained(name: str, text: Tensor, symbols: int) -> Cell:
    """A cell that has learned a little to guess the next character."""
    torch.manual_seed(0)
    cell, head = CELLS[name](symbols, UNITS), nn.Linear(UNITS, symbols)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.02)
    for _ in range(UPDATES):
        starts = torch.randint(len(text) - STEPS - 1, (BATCH,))
        window = text[starts + torch.arange(STEPS + 1)[:, None]]  # [T + 1, B]
        outputs = scan(cell, one_hot(window[:-1], symbols)).outputs
        loss = nn.functional.cross_entropy(head(outputs).flatten(0, 1), window[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
        optimizer.step()
    print(f"{name}: {loss.item():.2f} nats a character", file=sys.stderr)
    return cell


def one_hot(ids: Tensor, symbols: int) -> Tensor:
    """One column a symbol."""
    return nn.functional.one_hot(ids, symbols).float()


def draw_gates(
    arrays: Mapping[str, NDArray[Any]],
    tokens: Sequence[str],
    *,
    title: str = "",
    units: int = 12,
    meanings: Mapping[str, str],
    path: Path,
) -> None:
    """Draw values [time, units] by name, as `gates` returns them.

    The `units` whose first values vary most over time are drawn.
    """
    chosen = most_varying(next(iter(arrays.values())), units)
    with figure(7.0, 0.75 + 1.02 * len(arrays), path) as drawing:
        rows = drawing.subplots(len(arrays), sharex=True, squeeze=False)[:, 0]
        for axes, (name, value) in zip(rows, arrays.items(), strict=True):
            heat_map(drawing, axes, value[:, chosen], aspect=6, pad=0.015, fraction=0.03)
            axes.set_yticks([])
            meaning = meanings.get(name, "")
            axes.set_ylabel(f"${name}$\n{meaning}".rstrip(), rotation=0, ha="right", va="center", fontsize=10)
        rows[0].set_title(title)
        marks = [token if token.strip() else "␣" for token in tokens]
        rows[-1].set_xticks(range(len(marks)), marks, family="monospace", color=INK, fontsize=11)


def most_varying(value: NDArray[Any], units: int) -> NDArray[np.int64]:
    """The units that vary most over time, ordered by the time of their maximum."""
    chosen = np.sort(np.argsort(-value.var(axis=0), kind="stable")[:units])
    return chosen[np.argsort(value[:, chosen].argmax(axis=0), kind="stable")]


def main() -> None:
    """Draw them all."""
    from throughtime.cli.inspect import inspect_app

    text, ids = characters()
    read = one_hot(torch.tensor([ids[character] for character in SENTENCE]), len(ids))
    with one_thread():
        for name, meanings in SHOWN.items():
            found = gates(trained(name, text, len(ids)), read)
            chosen = {letter: found[letter].numpy() for letter in meanings}
            title = f"{TITLES.get(name, name.upper())}, after {UPDATES} updates"
            draw_gates(chosen, SENTENCE, title=title, meanings=meanings, path=HERE / f"gates-{name}.png")
    for file, words in COMMANDS.items():
        with contextlib.suppress(SystemExit):
            inspect_app([*words, "--plot", str(HERE / file)])


if __name__ == "__main__":
    main()
