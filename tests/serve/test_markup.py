"""Texts inside HTML, cut out and put back."""

from __future__ import annotations

import pytest

from throughtime.serve.markup import Markup


@pytest.mark.parametrize("before", ["I", "\u0130", "stra\u00dfe", "\ufb01"])
@pytest.mark.parametrize("tag", ["code", "CODE", "Script"])
def test_letters_that_grow_when_made_small_move_no_place(before, tag):
    source = f"{before * 9} <{tag}>x > y</{tag.swapcase()}> hello <b>world</b>"
    page = Markup(source)
    assert page.texts == [before * 9, "hello", "world"]
    assert page.with_texts(page.texts) == source


def test_a_raw_tag_that_never_ends_hides_nothing():
    assert Markup("a <code>b <i>c</i>").texts == ["a", "b", "c"]
