"""English text: a short story of our own, and the English sides of the sentence pairs."""

from __future__ import annotations

from importlib.resources import files

from throughtime.data.embedded.corpus import LANGUAGE_PAIRS, pairs


def story() -> list[str]:
    """A summer at grandma's, a sentence a line."""
    return files(__package__).joinpath("story.txt").read_text("utf-8").splitlines()


def english(split: str = "train") -> list[str]:
    """The different English sentences of a split; the story is for training.

    >>> english("train")[0]
    'My grandma lives in a small house near the beach.'
    """
    told = story() if split == "train" else []
    return list(
        dict.fromkeys([*told, *(pair.source for name in LANGUAGE_PAIRS for pair in pairs(name, split))])
    )
