"""Put the inline tags of a sentence around the words of its translation.

A tag goes around the target words that are linked to the source words it enclosed. Elements stay inside the
elements that they were in, and each encloses one contiguous part of the translation.
"""

from __future__ import annotations

import html
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from throughtime.text.unicode import UnicodeTokenizer

_FARTHEST = 64
"""Maximum number of characters between two words; it bounds the search for a word that is missing."""
MAX_DEPTH = 100
"""Maximum depth of nested elements; deeper ones are left empty, which bounds the time."""


class TokenKind(Enum):
    """The role of a token in its sentence."""

    TEXT = "text"
    START = "start"  # of an inline element
    END = "end"
    ATOM = "atom"  # stays as it is, inside a sentence: an image, a comment, code
    BREAK = "break"  # stays as it is, and separates sentences


class Token(NamedTuple):
    """A piece of the source; `name` is the name of a tag in lower case."""

    kind: TokenKind
    source: str
    name: str = ""


class Link(NamedTuple):
    """Start and end of a word in the translation, and of its source word."""

    start: int
    end: int
    source_start: int
    source_end: int


def word_links(
    source: str,
    translation: str,
    source_words: Sequence[str],
    target_words: Sequence[str],
    origins: Sequence[int | None],
) -> list[Link]:
    """Build links; `origins` holds the index of the source word of each target word, or None.

    >>> word_links("a white cat", "chat", ["a", "white", "cat"], ["chat"], [2])
    [Link(start=0, end=4, source_start=8, source_end=11)]
    """
    places = _places(source_words, source)
    return [
        Link(start, end, *places[origin])
        for (start, end), origin in zip(_places(target_words, translation), origins, strict=True)
        if origin is not None and start < end
    ]


def even_links(source: str, translation: str) -> list[Link]:
    """Links without attention: each word is linked to the word at the same relative position.

    >>> [(link.start, link.source_start) for link in even_links("one two", "un deux")]
    [(0, 0), (3, 4)]
    """
    tokenizer = UnicodeTokenizer()
    places = _places(tokenizer.tokenize(source), source)
    starts = [start for start, _ in places]
    size = max(1, len(translation))
    links = []
    for start, end in _places(tokenizer.tokenize(translation), translation):
        at = bisect_right(starts, (start + end) * len(source) // (2 * size)) - 1
        if start < end and at >= 0:
            links.append(Link(start, end, *places[at]))
    return links


def _places(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Start and end of each word, in order; an empty range for a word that is not found."""
    lowered = _lower_letters(text)
    places, reached = [], 0
    for word in words:
        start = lowered.find(_lower_letters(word), reached, reached + len(word) + _FARTHEST) if word else -1
        if start < 0:
            while reached < len(text) and text[reached].isspace():
                reached += 1
            places.append((reached, reached))
        else:
            reached = start + len(word)
            places.append((start, reached))
    return places


def _lower_letters(text: str) -> str:
    """Lower case with unchanged length: letters whose lower case is longer stay as they are."""
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)


@dataclass(eq=False)
class Element:
    """An element, or something between words, such as an image.

    An element that begins before the sentence has no start tag; one that continues after it has no end tag.
    """

    start: str = ""
    end: str = ""
    name: str = ""
    first: int = 0  # where it begins and ends in the source text
    last: int = 0
    children: list[Element] = field(default_factory=list)
    spaced: bool = False  # stands between two spaces
    low: int = 0  # the words of the translation that it encloses
    high: int = 0
    placed: list[Element] = field(default_factory=list)  # the children in the order of the translation

    @property
    def continues(self) -> bool:
        """Whether only its start is here; an atom, which has no words, does not count."""
        return not self.end and self.first < self.last

    def set(self, low: int, high: int) -> None:
        """Enclose these words."""
        self.low, self.high = low, high


def build_tree(tokens: Iterable[Token], decoded: Sequence[str]) -> tuple[Element, str]:
    """The elements of a sentence under one root, and its text; `decoded` are the texts, without entities."""
    root = Element()
    stack, open_names = [root], Counter[str]()
    texts, length, ends_in_space = [], 0, False
    atoms: list[Element] = []  # since the last text
    rest = iter(decoded)

    def close() -> Element:
        node = stack.pop()
        node.last = length
        open_names[node.name] -= 1
        stack[-1].children.append(node)
        return node

    for token in tokens:
        if token.kind is TokenKind.TEXT:
            text = next(rest)
            if ends_in_space and text[:1].isspace():
                text = text.lstrip()
                for atom in atoms:
                    atom.spaced = True
            if text:
                texts.append(text)
                length += len(text)
                ends_in_space = text[-1].isspace()
            atoms = []
        elif token.kind is TokenKind.START:
            stack.append(Element(token.source, name=token.name, first=length))
            open_names[token.name] += 1
        elif token.kind is TokenKind.ATOM:
            atom = Element(token.source, first=length, last=length)
            stack[-1].children.append(atom)
            atoms.append(atom)
        elif open_names[token.name]:
            while stack[-1].name != token.name:
                close()
            close().end = token.source
        else:  # the end of an element that began before the sentence: it encloses all until here
            around = stack[-1]
            before = Element("", token.source, first=around.first, last=length, children=around.children)
            around.children = [before]
    while len(stack) > 1:
        close()
    root.last = length
    return root, "".join(texts)


def insert_tags(root: Element, source: str, translation: str, links: Sequence[Link]) -> str:
    """The translation as HTML with the tags of the tree. Links are in the order of the translation.

    >>> start, end = Token(TokenKind.START, "<b>", "b"), Token(TokenKind.END, "</b>", "b")
    >>> a, white, cat = (Token(TokenKind.TEXT, text) for text in ("a ", "white", " cat"))
    >>> tokens = [a, start, white, end, cat]
    >>> root, text = build_tree(tokens, ["a ", "white", " cat"])
    >>> insert_tags(root, text, "un chat blanc", [Link(0, 2, 0, 1), Link(3, 7, 8, 11), Link(8, 13, 2, 7)])
    'un chat <b>blanc</b>'
    """
    root.set(0, len(links))
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        only = node.children[0] if len(node.children) == 1 else None
        if only is not None and (only.first, only.last) == (node.first, node.last):
            only.set(node.low, node.high)  # however deep, it costs nothing
            node.placed = [only]
            waiting.append((only, depth))
            continue
        if depth < MAX_DEPTH and node.low < node.high:
            _divide(node, links)
        else:
            node.placed = node.children
            for child in node.children:
                child.set(node.low, node.low)
        waiting += [(child, depth + 1) for child in node.children if child.children]
    return _write_segment(root, source, translation, links)


def _divide(node: Element, links: Sequence[Link]) -> None:
    """Assign words to each child, and sort the children in the order of the translation."""
    low, high = node.low, node.high
    middle = list(node.children)
    if middle and not middle[0].start:
        child = middle.pop(0)
        scores = [1 if link.source_start < child.last else -1 for link in links[low:high]]
        child.set(low, low := low + _best_prefix(scores))
    if middle and middle[-1].continues:
        child = middle.pop()
        scores = [1 if link.source_end > child.first else -1 for link in reversed(links[low:high])]
        child.set(high := high - _best_prefix(scores), node.high)
    with_text = [child for child in middle if child.first < child.last]
    for child, (first, last) in zip(with_text, _find_ranges(with_text, links, low, high), strict=True):
        child.set(first, last)
    placed = sorted((child for child in with_text if child.low < child.high), key=lambda child: child.low)
    points = [child for child in middle if child.first == child.last or child.low == child.high]
    if points:
        _place(points, placed, links, low, high)
    node.placed = sorted(node.children, key=lambda child: (child.low, child.low < child.high))


def _best_prefix(scores: Sequence[int]) -> int:
    """The length of the shortest prefix with the largest sum."""
    best = total = length = 0
    for count, score in enumerate(scores, 1):
        total += score
        if total > best:
            best, length = total, count
    return length


def _find_ranges(
    children: Sequence[Element], links: Sequence[Link], low: int, high: int
) -> list[tuple[int, int]]:
    """For each child a range with many of its own words, few words of no child, and none of other children.

    The range is empty if the child has no words.
    """
    firsts = [child.first for child in children]
    best = [(0, 0, 0)] * len(children)  # score, first word, place after the last
    latest = -1  # the child that the last owned word belongs to, with its stretch so far
    score = start_word = before = 0
    for word in range(low, high):
        owner = bisect_right(firsts, links[word].source_start) - 1
        if owner < 0 or links[word].source_start >= children[owner].last:
            # A tag may enclose the end of a word only.
            owner = bisect_right(firsts, links[word].source_end - 1) - 1
            if owner < 0 or links[word].source_start >= children[owner].last:
                continue
        bridged = score - (word - before - 1)
        score, start_word = (bridged + 1, start_word) if owner == latest and bridged > 0 else (1, word)
        latest, before = owner, word
        if score > best[owner][0]:
            best[owner] = (score, start_word, word + 1)
    return [(first, last) for _, first, last in best]


def _place(
    points: Sequence[Element], placed: Sequence[Element], links: Sequence[Link], low: int, high: int
) -> None:
    """Place nodes without words after the word that precedes them, but never inside another element."""
    order = sorted((links[word].source_start, word) for word in range(low, high))
    lows = [child.low for child in placed]
    for point in points:
        earlier = bisect_left(order, (point.first, -1))
        place = low if earlier == 0 else high if earlier == len(order) else order[earlier - 1][1] + 1
        number = bisect_left(lows, place) - 1
        if number >= 0 and place < placed[number].high:
            place = placed[number].high if point.first >= placed[number].last else placed[number].low
        point.set(place, place)


def _write_segment(root: Element, source: str, translation: str, links: Sequence[Link]) -> str:
    """Join all tags and words in order; without recursion, as elements may be nested deeply."""
    out: list[str] = []
    reached, after_space = 0, True

    def write_to(place: int) -> None:
        nonlocal reached, after_space
        if place > reached:
            out.append(html.escape(translation[reached:place], quote=False))
            reached, after_space = place, translation[place - 1].isspace()

    def point(node: Element, around: Element) -> int:
        """The position of an empty node in the text."""
        if node.low == around.low:
            return links[node.low].start if node.low < around.high else reached
        if node.low == around.high:
            return len(translation) if around is root else links[node.low - 1].end
        spaced = node.first > 0 and source[node.first - 1].isspace()
        return links[node.low].start if spaced else links[node.low - 1].end

    waiting: list[tuple[Element, Element] | tuple[Element, None]] = [
        (child, root) for child in reversed(root.placed)
    ]
    while waiting:
        node, around = waiting.pop()
        empty = node.low == node.high
        if around is None:
            if not empty:
                write_to(links[node.high - 1].end)
            out.append(node.end)
            continue
        write_to(point(node, around) if empty else links[node.low].start)
        if node.spaced and not after_space:
            out.append(" ")
        out.append(node.start)
        if node.spaced and translation[reached : reached + 1].isalnum():
            out.append(" ")
            after_space = True
        waiting.append((node, None))
        waiting += [(child, node) for child in reversed(node.placed)]
    write_to(len(translation))
    return "".join(out)
