"""Texts as a caller in Python gives them, before anything reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from throughtime.errors import InputError


def checked_texts(texts: str | Iterable[str], where: str = "texts") -> list[str]:
    """The texts as a list; one text alone is a list of one.

    >>> checked_texts("the cat")
    ['the cat']
    """
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Iterable):
        raise InputError(where, f"is of type {type(texts).__name__}; give a list of texts")
    return [checked_text(text, f"{where}[{number}]") for number, text in enumerate(texts)]


def checked_sentences(sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Sentences that are cut into words; one that is not is refused: its letters would be its words.

    >>> checked_sentences([["the", "cat"], "the dog"])
    Traceback (most recent call last):
    throughtime.errors.InputError: sentences[1]: is one text; give a list of its words
    """
    if isinstance(sentences, str):
        raise InputError("sentences", "is one text; give a list of sentences, each a list of its words")
    for number, words in enumerate(sentences):
        if isinstance(words, str):
            raise InputError(f"sentences[{number}]", "is one text; give a list of its words")
    return sentences


def checked_text(text: str, where: str) -> str:
    r"""The text, or a sentence that says why it is none.

    >>> checked_text("\ud83d", "prompt")
    Traceback (most recent call last):
    throughtime.errors.InputError: prompt: is no valid text: it has half a surrogate pair
    """
    if not isinstance(text, str):
        raise InputError(where, f"is of type {type(text).__name__}, expected a text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(where, "is no valid text: it has half a surrogate pair") from None
    return text
