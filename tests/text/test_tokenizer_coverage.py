"""What a tokenizer leaves of a text is told where it is little, and refused where it is nothing."""

from __future__ import annotations

import pytest
from tests.refusals import refuses

from throughtime.text.codec import Codec
from throughtime.text.subword_training import train_subword
from throughtime.text.tokenizer import tokenizer

RUSSIAN = ["Привет мир", "как дела"] * 3


def test_dropping_most_letters_is_told() -> None:
    codec = Codec.build([*RUSSIAN, "hello"], "word", where="mixed.txt")
    assert codec.notes == (
        "mixed.txt: the tokenizer 'word' drops 91% of the letters; other tokens, such as unicode, keep them",
    )
    letters = Codec.build([*RUSSIAN, "hello"], "char", normaliser="letters")
    assert "the tokenizer 'char' with 'letters' drops 91%" in letters.notes[0]


@pytest.mark.parametrize("name", ["unicode", "char", "space", "translation", "basic-english", "bpe"])
def test_dropping_nothing_is_no_news(name: str) -> None:
    assert Codec.build(["我不知道。", *RUSSIAN, "!!! 42 ...", "l'été"], name, max_size=300).notes == ()


@pytest.mark.parametrize("texts", [RUSSIAN, ["1895", "7 8"], ["我"]])
def test_nothing_left_is_refused(texts: list[str]) -> None:
    with refuses("mine", "'word'", "unicode"):
        Codec.build(texts, "word", where="mine")


@pytest.mark.parametrize("name", ["unicode", "char", "bpe", "wordpiece", "unigram"])
@pytest.mark.parametrize("texts", [[], ["", " "], ["\n\t\n"]])
def test_blank_texts_are_refused(name: str, texts: list[str]) -> None:
    with refuses("the training text"):
        Codec.build(texts, name)


@pytest.mark.parametrize("name", ["word", "space", "unicode", "bpe"])
def test_a_normaliser_goes_with_characters(name: str) -> None:
    with refuses("normaliser", "'lower'", "char", name):
        Codec.build(["A text"], name, normaliser="lower")
    with refuses("normaliser", "'lowr'", "'lower'"):
        Codec.build(["A text"], name, normaliser="lowr")


def test_a_tokenizer_that_is_there_already_takes_no_normaliser() -> None:
    for ready in (tokenizer("word"), train_subword("bpe", ["a text"], 300)):
        with refuses("normaliser", "'lower'"):
            Codec.build(["A text"], ready, normaliser="lower")
