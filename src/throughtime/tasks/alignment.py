"""Which source word a target word was written by: attention, summed up from tokens to words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from throughtime.text.codec import Codec

END = "<eos>"


@dataclass(frozen=True)
class Alignment:
    """How much each target word looked at each source word; both sides end with their end mark."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # [target words][source words], rows sum to 1

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        weights = [[round(weight, 4) for weight in row] for row in self.weights]
        return {"source": list(self.source), "target": list(self.target), "weights": weights}

    def best(self, word: int) -> str:
        """The source word that a target word looked at most, the end mark apart.

        >>> Alignment(("go", "home", END), ("rentre",), ((0.2, 0.5, 0.3),)).best(0)
        'home'
        """
        row = self.weights[word][: len(self.source) - 1]
        return self.source[row.index(max(row))] if row else ""


def joined(parts: Sequence[Alignment]) -> Alignment:
    """The alignment of a text that was translated in parts.

    >>> one = Alignment(("a",), ("b",), ((1.0,),))
    >>> joined([one, one]).weights
    ((1.0, 0.0), (0.0, 1.0))
    """
    source = tuple(word for part in parts for word in part.source)
    target = tuple(word for part in parts for word in part.target)
    rows: list[tuple[float, ...]] = []
    before = 0
    for part in parts:
        after = len(source) - before - len(part.source)
        rows += [(0.0,) * before + row + (0.0,) * after for row in part.weights]
        before += len(part.source)
    return Alignment(source, target, tuple(rows))


def aligned(
    attention: np.ndarray[Any, Any], source: Sequence[int], target: Sequence[int], codecs: tuple[Codec, Codec]
) -> Alignment:
    """Attention [target tokens, source tokens] by words: added up over a source word, the mean of a target's.

    Both sides may have the end mark as their last id.
    """
    import numpy as np

    sides = [words_of(ids, codec) for ids, codec in zip((source, target), codecs, strict=True)]
    (source_words, source_owner), (target_words, target_owner) = sides
    summed = np.zeros((len(target_words), len(source_words)))
    np.add.at(
        summed,
        (np.array(target_owner)[:, None], np.array(source_owner)),
        attention[: len(target), : len(source)],
    )
    tokens = np.bincount(target_owner, minlength=len(target_words))
    weights = summed / np.maximum(tokens, 1)[:, None]
    return Alignment(tuple(source_words), tuple(target_words), tuple(map(tuple, weights.tolist())))


def words_of(ids: Sequence[int], codec: Codec) -> tuple[list[str], list[int]]:
    """The words of some ids, and which word each id belongs to.

    A token belongs to the word in which it ends: so the bytes of one character stay together.
    """
    from throughtime.text.unicode import UnicodeTokenizer

    ended = bool(ids) and ids[-1] == codec.vocabulary.eos_id
    inner = list(ids[:-1] if ended else ids)
    text = codec.decode(inner)
    words, ends, place = [], [], 0
    for word in UnicodeTokenizer().tokenize(text):
        found = text.find(word, place)
        if found >= 0:
            place = found + len(word)
            words.append(word)
            ends.append(place)
    owner, word_number = [], 0
    for count in range(1, len(inner) + 1):
        last = len(codec.decode(inner[:count]))  # where the token ends
        while word_number + 1 < len(words) and last > ends[word_number]:
            word_number += 1
        owner.append(word_number)
    if not words and inner:
        words = [text]
    return ([*words, END], [*owner, len(words)]) if ended else (words, owner)
