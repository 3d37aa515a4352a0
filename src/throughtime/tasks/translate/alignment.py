"""Which source word a target word was written by: attention, summed up from tokens to words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from throughtime.results import Alignment
from throughtime.text.codec import END

if TYPE_CHECKING:
    import numpy as np

    from throughtime.text.tokenizer import Tokenizer


def aligned(
    attention: np.ndarray[Any, Any],
    source: Sequence[str],
    target: Sequence[str],
    tokenizers: tuple[Tokenizer, Tokenizer],
) -> Alignment:
    """Attention [target tokens, source tokens] by words: added up over a source word, the mean of a target's.

    It has a column for the source's end mark, and where the target ended a row for its own.
    """
    import numpy as np

    source_words, source_owner = words_of(source, tokenizers[0])
    target_words, target_owner = words_of(target, tokenizers[1])
    source_words, source_owner = [*source_words, END], [*source_owner, len(source_words)]
    if len(attention) > len(target):
        target_words, target_owner = [*target_words, END], [*target_owner, len(target_words)]
    summed = np.zeros((len(target_words), len(source_words)))
    np.add.at(
        summed, (np.array(target_owner)[:, None], np.array(source_owner)), attention[:, : len(source_owner)]
    )
    weights = summed / np.bincount(target_owner, minlength=len(target_words))[:, None]
    return Alignment(tuple(source_words), tuple(target_words), tuple(map(tuple, weights.tolist())))


def words_of(tokens: Sequence[str], tokenizer: Tokenizer) -> tuple[list[str], list[int]]:
    """The words that tokens make up, and which word each token belongs to.

    A token belongs to the word in which it ends: so the bytes of one character stay together. Words that one
    token spans, of Chinese for one, are one word.

    >>> from throughtime.text.tokenizers import tokenizer
    >>> words_of(list("a cat."), tokenizer("char"))
    (['a', 'cat', '.'], [0, 1, 1, 1, 1, 2])
    """
    text = tokenizer.detokenize(tokens)
    ends = _word_ends(text)
    reached: list[int] = []  # the word in which each token ends
    for count in range(1, len(tokens) + 1):
        last, word = len(tokenizer.detokenize(tokens[:count])), reached[-1] if reached else 0
        while word + 1 < len(ends) and last > ends[word]:
            word += 1
        reached.append(word)
    owned = sorted(set(reached))
    bounds = [0, *(ends[word] for word in owned[:-1]), len(text)]
    words = [text[start:end].strip() for start, end in pairwise(bounds)] if owned else []
    return words, [owned.index(word) for word in reached]


def _word_ends(text: str) -> list[int]:
    """Where each word, mark or ideograph of a text ends."""
    from throughtime.text.unicode import UnicodeTokenizer

    ends, place = [], 0
    for word in UnicodeTokenizer().tokenize(text):
        found = text.find(word, place)
        if found >= 0:
            place = found + len(word)
            ends.append(place)
    return ends or [len(text)]
