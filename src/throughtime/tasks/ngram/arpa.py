"""The names of a model's tokens in ARPA files, where sentences stand between <s> and </s>."""

from __future__ import annotations

from collections.abc import Sequence

from throughtime.errors import InputError
from throughtime.ngram.arpa import BEGIN, END, UNKNOWN
from throughtime.tasks.language.framing import Framing
from throughtime.text.vocabulary import ROLES, Vocabulary

OWN_NAMES = {BEGIN: "<bos>", END: "<eos>", UNKNOWN: "<unk>"}


def arpa_words(framing: Framing) -> list[str | None]:
    """The word for each id; None for marks that never occur in a text, such as padding."""
    vocabulary = framing.codec.vocabulary
    marks = {vocabulary.bos_id: BEGIN, vocabulary.eos_id: END, vocabulary.unk_id: UNKNOWN}
    silent = set(framing.never_predicted) - marks.keys()
    return [None if number in silent else marks.get(number, token) for number, token in enumerate(vocabulary)]


def build_vocabulary(words: Sequence[str], where: str) -> Vocabulary:
    """The vocabulary of the words of an ARPA file, whose marks get the names that they have here."""
    taken = {name for names in ROLES.values() for name in names} - OWN_NAMES.keys()
    for word in words:
        if word in taken:
            raise InputError(where, f"has the word {word!r}, which is the name of a mark here; rename it")
    return Vocabulary([OWN_NAMES.get(word, word) for word in words], reserved=OWN_NAMES.values())
