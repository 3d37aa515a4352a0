"""Text to tokens and back, by rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.text.subword import SUBWORDS
from throughtime.text.tokenizer import NORMALISERS, TOKENIZERS, Tokenizer, tokenizer

RULES = [
    *(tokenizer(name) for name in TOKENIZERS if name not in SUBWORDS),
    *(tokenizer("char", normaliser=name) for name in NORMALISERS),
    tokenizer("unicode", lower=True),
    tokenizer("unicode", french=True),
]
IDS = [f"{rule.name} {rule.options()}" for rule in RULES]

# Characters that meet in a text in surprising ways: quotes, joiners, marks without letters, halves of flags.
AWKWARD = "abl1Σİ'’\"“”„‘«»-–.,:;!?…/@#$€%&_()[¿ \t\n\x00\x1c\u00a0\u202f\u3000\u200b\u200d\ufe0f\u20e3\u0301"
AWKWARD += "我中、。「」ーが한\u1100\u1161\u11a8㊗😀👍🏽👩🇫🇷<br/>"
TEXTS = st.one_of(
    st.text(), st.text(AWKWARD), st.lists(st.sampled_from(["<br", " />", ";", '"', "a"])).map("".join)
)


@pytest.mark.parametrize("rule", RULES, ids=IDS)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_round_trip_is_normalising_and_normalising_twice_changes_nothing(rule: Tokenizer, text: str) -> None:
    # R23
    tokens = rule.tokenize(text)
    assert all(tokens), "an empty token cannot be seen"
    normal = rule.normalise(text)
    assert rule.detokenize(tokens) == normal
    assert rule.tokenize(normal) == tokens
    assert rule.normalise(normal) == normal


@pytest.mark.parametrize("name", NORMALISERS)
@given(text=TEXTS)
def test_a_normaliser_does_its_work_at_once(name: str, text: str) -> None:
    once = NORMALISERS[name](text)
    assert NORMALISERS[name](once) == once


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("char", "Ab c", ["A", "b", " ", "c"]),
        ("word", "Don't panic, 42!", ["don", "t", "panic"]),
        ("space", "the <unk> N  years\n", ["the", "<unk>", "N", "years"]),
        (
            "basic-english",
            'He said: "no (way)!"<br />OK.',
            ["he", "said", "no", "(", "way", ")", "!", "ok", "."],
        ),
        ("basic-english", "can't", ["can", "'", "t"]),
        ("translation", "Go.", ["go", "."]),
        ("translation", "Va\u202f!", ["va", "!"]),
        ("translation", "Ça va\u00a0? Oui, merci...", ["ça", "va", "?", "oui", ",", "merci", ".", ".", "."]),
    ],
)
def test_rules(name: str, text: str, tokens: list[str]) -> None:
    # R74 (the basic English rule)
    assert tokenizer(name).tokenize(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's 3.14, at 10:30!", ["It's", "3.14", ",", "at", "10:30", "!"]),
        ("我爱你。ありがとう", list("我爱你。ありがとう")),
        ("我有3本Python书", ["我", "有", "3", "本", "Python", "书"]),
        ("안녕 세계", ["안녕", "세계"]),
        ("L'homme qu’on aime", ["L'", "homme", "qu’", "on", "aime"]),
        ("aujourd'hui o'clock", ["aujourd'hui", "o'clock"]),
        ("👨‍👩‍👧 👍🏽🇫🇷🇩🇪 ❤️", ["👨‍👩‍👧", "👍🏽", "🇫🇷", "🇩🇪", "❤️"]),
        ("x = -5 (-6)", ["x", "=", "-5", "(", "-6", ")"]),
        ("cafe\u0301", ["café"]),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_unicode_tokens(text: str, tokens: list[str]) -> None:
    assert tokenizer("unicode").tokenize(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world! It's well-known (really): 50% of $5.50...",
        'She said "no" and \'yes\', then "maybe" "not".',
        "My parents' house is in the U.S. and/or at a@b.com.",
        "“Quoted,” he said; ‘twice’.",
        "„Haus“, sagte er.",
        "¿Qué tal? ¡Bien!",
        "他说：“我有3本书。”「はい」",
        "Fine 😀😀 #1",
    ],
)
def test_unicode_gives_well_set_text_back_as_it_was(text: str) -> None:
    assert tokenizer("unicode").normalise(text) == text


def test_unknown_names_and_options_are_one_clear_sentence() -> None:
    with refuses("tokenizer", "'wrod'", "'word'"):
        tokenizer("wrod")
    with refuses("normaliser", "'leters'", "'letters'"):
        tokenizer("char", normaliser="leters")
    with refuses("tokenizer 'word'", "'lower'"):
        tokenizer("word", lower=True)
    with refuses("tokenizer 'char'", "'lower'"):
        tokenizer("char", lower=True)
    with refuses("tokenizer 'bpe'", "tokenizer.json"):
        tokenizer("bpe")
