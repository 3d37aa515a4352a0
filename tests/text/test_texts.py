"""Long texts in parts, words and their tokens, wishes in tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from throughtime.text.codec import Codec
from throughtime.text.parallel import Codecs, group_into_words
from throughtime.text.texts import join_texts, split_text

TEXTS = ["the cats sat on the mat .", "she doesn't like the cats !", "我喜欢猫。", "naïve cafés 😀"]


def in_words(text):
    return len(text.split())


@given(st.text(alphabet="ab .,!?。，\t", max_size=80), st.integers(1, 6))
def test_parts_hold_the_whole_text_in_its_order(text, limit):
    found = split_text(text, limit, in_words)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert in_words(text) <= limit or all(in_words(part) <= 2 * limit for part in found)


def test_cuts_fall_where_they_hurt_least():
    assert split_text("a. b. c.", 3, in_words) == ["a. b. c."]
    assert split_text("a b. c d, e f. g", 4, in_words) == ["a b.", "c d, e f.", "g"]
    assert split_text("a b c, d e, f g. h", 3, in_words) == ["a b c,", "d e,", "f g.", "h"]
    assert split_text("3.14 is pi. so", 3, in_words) == ["3.14 is pi.", "so"]
    assert split_text("他来了。她走了。", 4, len) == ["他来了。", "她走了。"]
    assert split_text("abcdefghi", 4, len) == ["abcd", "efgh", "i"]


def test_translated_parts_are_joined_as_the_language_has_it():
    assert join_texts(["Un.", "", "Deux."]) == "Un. Deux."
    assert join_texts(["一。", "二。"]) == "一。二。"
    assert join_texts([]) == ""


@pytest.mark.parametrize("tokens", ["bpe", "unigram", "wordpiece", "space", "char"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_token_belongs_to_its_word(tokens, text):
    tokenizer = Codec.build(TEXTS, tokens, max_size=320).tokenizer
    pieces = tokenizer.tokenize(text)
    words, owner = group_into_words(pieces, tokenizer)
    assert len(owner) == len(pieces)
    assert owner == sorted(owner)
    assert set(owner) == set(range(len(words)))
    assert "".join(words) == text.replace(" ", "")
    for number, word in enumerate(words):
        own = tokenizer.detokenize([piece for piece, at in zip(pieces, owner, strict=True) if at == number])
        assert own.strip() == word


def test_attention_is_added_up_over_source_tokens_and_averaged_over_target_tokens():
    letters = Codec.build(["cat he"], "char")
    codecs = Codecs(letters, letters)
    attention = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [0.0, 0.0, 0.0, 1.0]])
    found = codecs.align_words(attention, list("cat"), list("he"))
    assert (found.source, found.target) == (("cat", "⟨end⟩"), ("he", "⟨end⟩"))
    assert np.array(found.weights) == pytest.approx(np.array([[0.6, 0.4], [0.0, 1.0]]))
    cut = codecs.align_words(attention[:2], list("cat"), list("he"))
    assert cut.target == ("he",)
    nothing = codecs.align_words(attention[2:, 3:], [], [])
    assert (nothing.target, nothing.weights) == (("⟨end⟩",), ((1.0,),))
