"""Blanks in a text: found, read as masks, filled, and all else left as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.text.codec import Codec
from throughtime.text.framing import Blanks, draw_blank, token_text
from throughtime.text.subword import TRAINED

TEXTS = ["I am tired .", "I am very hungry .", "you are tired and hungry ."]
WHOLE = Codec.build(TEXTS, "unicode", reserved=("<unk>", "[MASK]"))
PARTS = {kind: Codec.build(TEXTS * 3, kind, max_size=300) for kind in TRAINED}


def words(blanks, codec):
    return codec.vocabulary.tokens(blanks.ids)


def test_what_is_not_blank_stays_as_it_was_written():
    text = "Zounds!  I am ___ , and VERY  ___…"
    read = Blanks.of(text, WHOLE)
    assert "<unk>" in words(read, WHOLE)
    assert (
        read.fill(WHOLE.vocabulary[["tired", "hungry"]], WHOLE) == "Zounds!  I am tired , and VERY  hungry…"
    )


@pytest.mark.parametrize("kind", TRAINED)
def test_parts_of_words_carry_their_spaces(kind):
    codec = PARTS[kind]
    whole = codec.encode("I am tired .")
    read = Blanks.of("I am ___ .", codec)
    assert read.ids == tuple(codec.vocabulary.mask_id if n == 2 else one for n, one in enumerate(whole))
    assert token_text(whole[2], codec) == " tired"
    assert read.fill([whole[2]], codec) == "I am tired ."
    assert read.fill([whole[2]], codec) == codec.decode(whole)
    both = Blanks.of("I ___ ___ .", codec)
    assert both.ids == (whole[0], codec.vocabulary.mask_id, codec.vocabulary.mask_id, whole[3])
    assert both.fill(whole[1:3], codec) == "I am tired ."


@pytest.mark.parametrize("kind", TRAINED)
def test_a_part_inside_a_word_is_one_with_what_stands_before(kind):
    codec = PARTS[kind]
    mark = codec.encode("I am tired.")[-1]
    assert token_text(mark, codec) == "."
    assert Blanks.of("I am tired ___", codec).fill([mark], codec) == "I am tired."


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([WHOLE, *PARTS.values()]), st.sampled_from(TEXTS), st.integers(0, 10))
def test_a_drawn_blank_is_read_back(codec, text, place):
    ids = codec.encode(text)
    place %= len(ids)
    read = Blanks.of(draw_blank(ids, place, codec), codec)
    hidden = [codec.vocabulary.mask_id if number == place else one for number, one in enumerate(ids)]
    assert list(read.ids) == hidden
    assert read.places == (place,)


def test_a_tokenizer_without_a_mask_is_refused():
    with refuses("tokenizer 'unicode'", "[MASK]"):
        Blanks.of("I am ___.", Codec.build(TEXTS, "unicode"))
