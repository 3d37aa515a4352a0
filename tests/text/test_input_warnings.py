"""Warnings come for what a model's tokens miss, and never for plain text."""

from __future__ import annotations

import itertools

import pytest

from throughtime.data.datasets import open_dataset
from throughtime.text.codec import Codec

ENGLISH = [
    "The cat sleeps on the chair.",
    "A dog runs in the garden!",
    "Where is the old station?",
    "My mother reads a long letter, and my brother listens.",
] * 5
TOKENS = ["unicode", "translation", "basic-english", "space", "char", "word", "bpe", "wordpiece", "unigram"]


def codec(tokens: str, texts: list[str] = ENGLISH) -> Codec:
    return Codec.build(texts, tokens, max_size=400 if tokens in ("bpe", "wordpiece", "unigram") else None)


@pytest.mark.parametrize("tokens", TOKENS)
def test_plain_text_with_a_rare_word_is_no_news(tokens: str) -> None:
    texts = ["The cat sleeps on the zyzzyva.", "The cat 你 sleeps on the dog", "where is the café?", *ENGLISH]
    for text in texts:
        assert codec(tokens).warnings.of([text]) == {}, text


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("猫在椅子上睡觉。", "Chinese characters"),
        ("Где находится старый вокзал?", "Cyrillic letters"),
        ("これはねこです", "Japanese kana"),
        ("Πού είναι ο σταθμός;", "Greek letters"),
        ("어디에 있습니까", "Hangul letters"),
    ],
)
def test_a_strange_script_is_named(tokens: str, text: str, script: str) -> None:
    found = codec(tokens).warnings.of([text])
    assert list(found) == ["script"]
    assert script in found["script"]


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("text", ["", " \t", "\u3000"])
def test_an_empty_text_is_told(tokens: str, text: str) -> None:
    assert list(codec(tokens).warnings.of([text])) == ["empty"]


@pytest.mark.parametrize("tokens", TOKENS)
def test_unknown_characters_alone_are_told(tokens: str) -> None:
    kind = "nothing" if tokens == "word" else "unknown"
    assert list(codec(tokens).warnings.of(["☃☃☃ ♥"])) == [kind]


@pytest.mark.parametrize("tokens", ["unicode", "space", "translation"])
def test_more_than_half_of_the_words_unknown_is_told_and_half_is_not(tokens: str) -> None:
    warnings = codec(tokens).warnings
    assert "3 of 4" in warnings.of(["the qux zork blub"])["unknown"]
    assert warnings.of(["the cat zork blub"]) == {}


def test_bytes_that_are_half_a_character_show_its_script() -> None:
    warnings = codec("bpe", ["猫犬鸟鱼马牛羊猪鸡虎"] * 3).warnings  # too few repeats for whole characters
    assert warnings.of(["猫和犬"]) == {}


def test_what_is_dropped_is_named_on_request() -> None:  # R17
    warnings = codec("word").warnings
    texts = ["my mother, my cat", "my mother my cat"]
    assert warnings.of(texts) == {}
    found = warnings.of(texts, dropped=True)
    assert list(found) == ["dropped"]
    assert "text 1 " in found["dropped"]
    assert "'word'" in found["dropped"]
    assert found["dropped"].endswith(": ,")
    assert warnings.of(["my mother 7\x1b\x07: my cat?"], dropped=True)["dropped"].endswith(
        ": 7 U+001B U+0007 : ?"
    )


@pytest.mark.parametrize("tokens", [one for one in TOKENS if one not in ("word", "basic-english")])
def test_what_is_kept_is_not_called_dropped(tokens: str) -> None:
    texts = ["The CAT, the Dog!", "Where is «my» mother?", "the garden's chair - 7", *ENGLISH]
    assert "dropped" not in codec(tokens).warnings.of(texts, dropped=True)


def test_letters_lost_to_the_tokenizer_are_told() -> None:
    warnings = codec("word").warnings
    found = warnings.of(["éèêàù the"])  # 5 letters of 8
    assert list(found) == ["letters"]
    assert "62%" in found["letters"]
    assert warnings.of(["éèê the"]) == {}


def test_several_texts_give_one_sentence_of_a_kind() -> None:
    warnings = codec("unicode").warnings
    found = warnings.of(["the cat", "你好吗", "", "на вокзале", ""])
    assert list(found) == ["script", "empty"]
    assert found["script"].startswith("text 2 ")
    assert found["script"].endswith("(and 1 more)")
    assert found["empty"].startswith("text 3 ")
    assert warnings.of(["你好吗"], numbers=[12])["script"].startswith("text 12 ")
    assert warnings.of(["你好吗"])["script"].startswith("the text ")


@pytest.mark.parametrize("tokens", ["unicode", "word", "char", "bpe", "unigram"])
def test_real_sentences_are_no_news(corpora, tokens: str) -> None:
    dataset = open_dataset("multi30k/tok", source="en", target="de")
    texts = list(itertools.islice(dataset.texts("train", "source"), 4000))
    subword = tokens in ("bpe", "unigram")
    built = Codec.build(texts, tokens, min_freq=1 if subword else 2, max_size=1000 if subword else None)
    judged = list(itertools.islice(dataset.texts("test", "source"), 500))
    assert sum(bool(built.warnings.of([text])) for text in judged) <= 1
