"""Draw the pictures of docs/from-equation-to-code.md anew: `python docs/pictures/make.py`, about a minute."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import throughtime as tt
from throughtime.cells import CELLS, Cell
from throughtime.inspection.gates import gates
from throughtime.inspection.gradients import one_thread
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
            tt.plots.gates(chosen, SENTENCE, title=title, meanings=meanings, path=HERE / f"gates-{name}.png")
    for file, words in COMMANDS.items():
        with contextlib.suppress(SystemExit):
            inspect_app([*words, "--plot", str(HERE / file)])


if __name__ == "__main__":
    main()
