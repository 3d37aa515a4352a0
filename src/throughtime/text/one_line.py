"""What a model says, fit for a line of a terminal or of a file."""

from __future__ import annotations

import unicodedata


def one_line(text: str) -> str:
    r"""Never more than one line, and no sign that a terminal would obey, whatever a model says.

    A line break becomes a space; other control characters but the tab are left out. What joins or turns
    letters, as scripts and emoji need it, stays.

    >>> one_line("one\ntwo\x1b[31m\x07")
    'one two[31m'
    """
    return "".join(
        character
        for character in " ".join(text.splitlines())
        if character == "\t" or unicodedata.category(character) != "Cc"
    )
