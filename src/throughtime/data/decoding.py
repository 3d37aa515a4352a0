"""The lines of a block of bytes: decoded from UTF-8 and checked for control characters."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from throughtime.errors import InputError

MIN_CHARACTERS = 6
"""For each control character that is dropped, a line must have as many characters."""
# Deleting these bytes and comparing lengths checks a block many times faster than a regular expression.
_CONTROL_BYTES = bytes(set(range(32)) - {9, 10} | {127})
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n?|\n)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_IN_NUMBER = re.compile(rf"[\d.,+-]{_CONTROL.pattern}+[\d.,+-]")
_LATE_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_NOT_WINDOWS = frozenset(b"\x81\x8d\x8f\x90\x9d")


def split_lines(
    block: bytes, where: str, number: int, offset: int, dropped: list[int] | None
) -> Iterator[str | InputError]:
    """Yield the lines of a block of whole lines after line `number`, or the errors of those that are bad.

    The lines of control characters that are left out are added to `dropped`; None refuses all of them.
    """
    plain = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    clean = len(plain.translate(None, _CONTROL_BYTES)) == len(plain)
    if clean and not (b"\xc2" in plain and _LATE_CONTROL.search(plain)):
        with contextlib.suppress(UnicodeDecodeError):
            yield from plain.decode("utf-8").split("\n")[:-1]
            return
    # Something is wrong in this block: go line by line to say where.
    for line in _LINE.finditer(block):
        number += 1
        text = _decode(line[1], where, number, offset + line.start())
        yield text if isinstance(text, InputError) else _check_controls(text, where, number, dropped)


def _decode(raw: bytes, where: str, number: int, offset: int) -> str | InputError:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        position = offset + error.start
        # Not Latin-1: it accepts any byte, and turns the quotes of Windows into control characters.
        cure = "convert the file to UTF-8, for example with `iconv -f WINDOWS-1252 -t UTF-8`"
        if not _NOT_WINDOWS.isdisjoint(raw):
            cure = "nor Windows-1252; find out its encoding and convert it with `iconv -f ENCODING -t UTF-8`"
        if not position and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            cure = "it looks like UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`"
        problem = f"is not UTF-8, byte 0x{raw[error.start]:02X} at offset {position:,}; {cure}"
        return InputError(where, problem, line=number)
    return text


def _check_controls(text: str, where: str, number: int, dropped: list[int] | None) -> str | InputError:
    """Return a line without control characters, or the error if it must have none or seems not to be text."""
    if not (control := _CONTROL.search(text)):
        return text
    clean = _CONTROL.sub("", text)
    many = MIN_CHARACTERS * (len(text) - len(clean)) > len(text)
    if dropped is None or many or _IN_NUMBER.search(text):
        character = f"U+{ord(control[0]):04X} at column {control.start() + 1}"
        return InputError(where, f"holds a control character, {character}; remove it", line=number)
    dropped += [number] * (len(text) - len(clean))
    return clean
