"""The grammar of the embedded sentences writes the file of the package, and divides them as promised."""

from __future__ import annotations

import gzip
import re

import pytest
from tools.embedded import corpus, split

from throughtime.data import embedded

NAMES = ("en-fr", "en-zh")


def test_the_grammar_writes_the_sentences_of_the_package() -> None:
    packed = corpus.FILE.read_bytes()
    assert gzip.decompress(packed).decode() == corpus.table()
    assert packed[4:8] == bytes(4), "a date would change the bytes at every run"
    assert len(packed) < 400_000


def test_the_package_reads_the_sentences_in_the_order_of_the_grammar() -> None:
    for part, sentences in corpus.parts().items():
        assert [tuple(pair) for pair in embedded.pairs("en-fr", part)] == [one[:2] for one in sentences]
        assert [pair.target for pair in embedded.pairs("en-zh", part)] == [
            one.chinese.replace(" ", "") for one in sentences
        ]


def test_held_out_pairs_are_nowhere_in_the_text_of_train() -> None:
    """The same promise, judged by the English words rather than by what the grammar says of itself."""
    held = split.held_out(corpus.sentences())
    forms = {
        "eat": "eat|eats|ate|eaten|eating",
        "buy": "buy|buys|bought|buying",
        "read": "read|reads|reading",
    }
    judged = [(verb, thing) for verb, thing in held if verb in forms and " " not in thing]
    assert judged
    text = "\n".join(pair.source for part in ("train", "valid") for pair in embedded.pairs("en-fr", part))
    for verb, thing in judged:
        found = re.search(rf"\b({forms[verb]}) (?:\w+ )?{thing}s?\b", text)
        assert found is None, found


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_test_occurs_in_train(name: str) -> None:
    sides = {sentence.english: sentence for sentence in corpus.sentences()}

    def words(part: str) -> set[str]:
        found: set[str] = set()
        for pair in embedded.pairs(name, part):
            sentence = sides[pair.source]
            found.update(split.english_words(sentence.english))
            found.update(split.french_words(pair.target) if name == "en-fr" else sentence.chinese.split())
        return found

    assert words("test") <= words("train")
    assert words("valid") <= words("train")
