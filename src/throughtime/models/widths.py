"""How wide the layers of a language model are. Settings ask too, so nothing here imports torch."""

from __future__ import annotations


def layer_widths(
    embedding_size: int, hidden_size: int, num_layers: int, *, tied: bool, experts: int, last_size: int | None
) -> list[int]:
    """Units of each layer, lowest first: one softmax that shares the embedding's weights sets the last.

    >>> layer_widths(400, 1150, 3, tied=True, experts=1, last_size=None)
    [1150, 1150, 400]
    """
    last = last_size or (embedding_size if tied and experts == 1 else hidden_size)
    return [hidden_size] * (num_layers - 1) + [last]
