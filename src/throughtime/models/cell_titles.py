"""The names of a network's cells, as inspections and pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from throughtime.cells.base import Cell
from throughtime.models.seq2seq import EncoderDecoder


def find_reader(network: Any) -> tuple[Any, Any]:
    """Return the layers that read tokens and the embedding of the tokens; None for what is missing."""
    reader = getattr(network, "encoder", network)
    return getattr(reader, "stack", None), getattr(reader, "embedding", None)


def title_cells(names: Sequence[str], layer: str) -> list[str]:
    """Return titles for cells with these names inside a module that is called `layer`.

    >>> title_cells(["layers.0.from_left", "layers.0.from_right"], "encoder layer")
    ['encoder layer 1 from the left', 'encoder layer 1 from the right']
    >>> title_cells(["first", "second"], "decoder layer")
    ['decoder layer, first cell', 'decoder layer, second cell']
    """
    both = any(name.endswith("from_right") for name in names)
    titles = []
    for name in names:
        number = next((int(word) + 1 for word in name.split(".") if word.isdigit()), None)
        title = f"{layer} {number}" if number is not None else f"{layer}, {name} cell"
        way = " from the right" if name.endswith("from_right") else " from the left"
        titles.append(title + way if both else title)
    return titles


def find_titles(network: Any) -> dict[int, str]:
    """Return the titles of the cells that read or write tokens, by the `id` of the cell.

    >>> from throughtime.layers.stack import Stack
    >>> network = nn.Module()
    >>> network.stack = Stack("gru", 3, 4, 2)
    >>> list(find_titles(network).values())
    ['layer 1', 'layer 2']
    """
    stack, _ = find_reader(network)
    modules = {"layer": stack}
    if isinstance(network, EncoderDecoder):
        modules = {"encoder layer": stack, "decoder layer": network.decoder}
    titles: dict[int, str] = {}
    for layer, module in modules.items():
        if isinstance(module, nn.Module):
            cells = {name: cell for name, cell in module.named_modules() if isinstance(cell, Cell)}
            titles |= {
                id(cells[name]): title
                for name, title in zip(cells, title_cells(list(cells), layer), strict=True)
            }
    return titles
