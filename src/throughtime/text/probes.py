"""What steps of the `tokenizers` library do with each character, found by trying all of them."""

from __future__ import annotations

import base64
import struct
import unicodedata
from collections.abc import Iterator

from throughtime.text.character_tables import all_characters

FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def words_and_signs() -> tuple[str, str]:
    """Return the characters of words, and others but spaces, as the pre-tokenizer Whitespace sees them."""
    from tokenizers import pre_tokenizers as library

    everything = " ".join(f"a{one}" for one in all_characters())
    found = [piece for piece, _ in library.Whitespace().pre_tokenize_str(everything)]
    return "".join(one[1:] for one in found if one[0] == "a"), "".join(one for one in found if one[0] != "a")


def digits() -> Iterator[str]:
    """Return the characters that the library takes for digits."""
    from tokenizers import pre_tokenizers as library

    cutter = library.Digits(individual_digits=False)
    for piece, _ in cutter.pre_tokenize_str("a".join(("", *all_characters(), ""))):
        if len(piece) == 1 and piece != "a":
            yield piece


def find_surrounded(kind: str, options: dict[str, bool]) -> str:
    """Return the characters that a normalizer puts spaces around."""
    from tokenizers import normalizers as library

    change = getattr(library, kind)(**options).normalize_str
    return "".join(one for one in all_characters() if one != " " and change(one) == f" {one} ")


def clusters(table: str) -> tuple[str, str]:
    """Return the characters that join the one before them, and those in a table that nothing joins.

    The table of a Precompiled normalizer is applied to a character with all that join it.
    """
    from tokenizers import normalizers as library

    # A table of one replacement, of a by X: what follows a and vanishes has joined it.
    units = [1 << 10, *([0] * 95), 1 << 10 | 1 << 8 | ord("a"), 1 << 31, *([0] * 158)]
    small = struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"X\0"
    marked = library.Precompiled(small).normalize_str
    joining = "".join(one for one in all_characters() if marked(f"a{one}") == "X")
    change = library.Precompiled(base64.b64decode(table)).normalize_str
    accent = joining[0] if joining else ""
    changed = [(one, new) for one in all_characters() if (new := change(one)) != one]
    return joining, "".join(one for one, new in changed if change(one + accent) != new)


def inert() -> str:
    """Return the characters that the library does not compose or decompose, while this Python may."""
    from tokenizers import normalizers as library

    forms = {name: getattr(library, name)().normalize_str for name in FORMS}
    inert = set()
    for one in all_characters():
        if unicodedata.category(one) == "Cn":
            inert.add(one)
        elif unicodedata.normalize("NFKD", one) != one and forms["NFKD"](one) == one:
            canonical = unicodedata.normalize("NFD", one)
            inert.update({one, *(canonical if unicodedata.normalize("NFC", one) == one else "")})
        elif (turn := unicodedata.combining(one)) and turn not in (1, 240):
            pair = "a" + ("\u0345" + one if turn < 240 else "")
            if forms["NFD"](pair) == pair:
                inert.add(one)
    return "".join(sorted(inert))
