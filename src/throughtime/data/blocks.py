"""Running text in blocks that a tokenizer can take one at a time, as if it had the whole text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BLOCK = 1 << 20
# Past this a text offers no good place (Chinese lines never begin with a Latin letter): cut at the next line.
FACTOR = 8


def blocks(lines: Iterable[str], size: int = BLOCK) -> Iterator[str]:
    r"""Join lines with line breaks into blocks of about `size` characters, which joined are the whole text.

    A cut lies after a line that ends in a visible character and before one that begins with a letter a-z:
    there no tokenizer joins what the line break parts, and no run of other characters that some rule replaces
    by one space is cut in two.

    >>> list(blocks(["one", "two", "", "(three)", "four"], size=1))
    ['one\n', 'two\n\n(three)\n', 'four']
    """
    held: list[str] = []
    length = 0
    for line in lines:
        if length >= size and (_good_cut(held[-1], line) or length >= FACTOR * size):
            yield "\n".join(held) + "\n"
            held, length = [], 0
        held.append(line)
        length += len(line) + 1
    if held:
        yield "\n".join(held)


def _good_cut(before: str, after: str) -> bool:
    return after[:1].isascii() and after[:1].isalpha() and before == before.rstrip() != ""
