"""HTML pages through a translator that attends."""

from __future__ import annotations

import asyncio

import pytest

from throughtime.results import Alignment, Translation
from throughtime.serve.markup import Aligned, LinkedText, link_parts, translate_pages
from throughtime.text.codec import END


def told(text, source, weights):
    """A translation whose words looked at the words of its source like this."""
    return Translation(text, 0.0, 0.0, True, Alignment((*source, END), (*text.split(), END), weights))


def find_links(source, *parts):
    return link_parts(source, [Aligned.by_attention(part) for part in parts]).links


def test_links_follow_attention_and_never_point_to_the_end():
    one = told("Chat BLANC", ["a", "white", "cat"], ((0.1, 0, 0.9, 0), (0, 0.3, 0.1, 0.6), (0, 0, 0, 1)))
    assert [(link.start, link.source_start) for link in find_links("A white cat", one)] == [(0, 8), (5, 2)]
    assert find_links("a", Translation("b", 0.0, 0.0, True)) == []


def test_words_that_are_spelled_otherwise_do_not_move_the_others():
    one = told("x y z", ["<unk>", "cat", "sees"], ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))
    assert [link.source_start for link in find_links("Zoë  cat sees", one)] == [0, 5, 9]


def test_links_of_a_text_in_parts_lead_to_its_words():
    first = told("Le chat.", ["the", "cat"], ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    second = told("Un chat.", ["a", "cat"], ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    links = find_links("the cat a cat", first, second)
    assert [(link.start, link.source_start) for link in links] == [(0, 0), (3, 4), (9, 8), (12, 10)]


@pytest.mark.parametrize("alternatives", [0, 2])
def test_pages_have_as_many_alternatives_as_a_sentence_of_theirs(alternatives):
    asked = []

    async def write(texts, linked):
        asked.append((list(texts), linked))
        return [
            [LinkedText(f"{text}{rank}") for rank in range(min(len(text), alternatives + 1))]
            for text in texts
        ]

    pages = ["<p>a</p><p>b<i>b</i>b</p>", "a", "<hr>"]
    found = asyncio.run(translate_pages(pages, write))
    assert asked == [(["a", "a"], False), (["bbb"], True)]
    assert [len(own) for own in found] == [alternatives + 1, 1, 1]
    assert found[0][-1] == f"<p>a0</p><p><i>bbb{alternatives}</i></p>"
    assert found[1:] == [["a0"], ["<hr>"]]
