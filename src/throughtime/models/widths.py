"""The widths of the layers of a language model. Settings use them too, so nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NARROWER = "lstm-projected"
"""The cell whose output is narrower than its width, so that it cannot share weights with the embedding."""


def layer_widths(
    embedding_size: int, hidden_size: int, num_layers: int, *, tied: bool, experts: int, last_size: int | None
) -> list[int]:
    """Units of each layer, lowest first; a single tied softmax sets the width of the last one.

    >>> layer_widths(400, 1150, 3, tied=True, experts=1, last_size=None)
    [1150, 1150, 400]
    """
    last = last_size or (embedding_size if tied and experts == 1 else hidden_size)
    return [hidden_size] * (num_layers - 1) + [last]


def tied_widths(settings: Mapping[str, Any], layer: str = "hidden_size") -> dict[str, Any]:
    """Return the settings that follow from the widths given, if the output may share the embedding's weights.

    If only one of the widths of the embedding and of `layer` is given, the other one is set to it. If both
    are given and differ, the output gets its own weights, unless `tied` is given too.

    >>> tied_widths({"hidden_size": 64}), tied_widths({"embedding_size": 32})
    ({'embedding_size': 64}, {'hidden_size': 32})
    >>> tied_widths({"embedding_size": 32, "hidden_size": 64})
    {'tied': False}
    """
    if not settings.get("tied", True):
        return {}
    if settings.get("cell") == NARROWER:
        return {} if "tied" in settings else {"tied": False}
    match settings.get("embedding_size"), settings.get(layer):
        case None, int(width) if width > 0:  # other values are refused later, by name
            return {"embedding_size": width}
        case int(width), None if width > 0:
            return {layer: width}
        case int(embedding), int(width) if embedding != width and "tied" not in settings:
            return {"tied": False}
    return {}
