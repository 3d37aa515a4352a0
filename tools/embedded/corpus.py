"""The sentences that the grammar makes, and the file that holds them in the package."""

from __future__ import annotations

import functools
import gzip
from pathlib import Path

from tools.embedded.chinese import unspaced
from tools.embedded.dice import Dice
from tools.embedded.frames import FRAMES
from tools.embedded.sentences import Sentence
from tools.embedded.split import divide, english_words, french_words

FILE = Path(__file__).parents[2] / "src/throughtime/data/embedded/sentences.tsv.gz"
_MAX_LENGTH = 14


@functools.cache
def sentences() -> tuple[Sentence, ...]:
    """Every sentence of the corpus; an English sentence keeps the first translation it gets."""
    found: dict[str, Sentence] = {}
    for name, (make, wanted) in FRAMES.items():
        dice, before = Dice(name), len(found)
        for _ in range(4 * wanted):
            if len(found) - before == wanted:
                break
            made = make(dice)
            if len(made.english.split()) <= _MAX_LENGTH:
                found.setdefault(made.english, made)
    return tuple(found.values())


@functools.cache
def parts() -> dict[str, list[Sentence]]:
    """The sentences of each split."""
    return divide(sentences())


def words() -> tuple[set[str], set[str], set[str]]:
    """The English, French and Chinese words of all splits.

    >>> [word in known for word, known in zip(("bread", "pain", "面包"), words())]
    [True, True, True]
    """
    every = [sentence for part in parts().values() for sentence in part]
    return (
        {word for sentence in every for word in english_words(sentence.english)},
        {word for sentence in every for word in french_words(sentence.french)},
        {word for sentence in every for word in sentence.chinese.split() if word not in "，。？！"},
    )


def table() -> str:
    """One line per sentence: its split, English, French and Chinese, separated by tabs."""
    split_of = {sentence.english: split for split, part in parts().items() for sentence in part}
    return "".join(
        f"{split_of[one.english]}\t{one.english}\t{one.french}\t{unspaced(one.chinese)}\n"
        for one in sentences()
        if one.english in split_of
    )


def write(path: Path = FILE) -> int:
    """Write the file of the package, without a date, so that the same sentences give the same bytes."""
    return path.write_bytes(gzip.compress(table().encode(), 9, mtime=0))
