"""Errors are checked by their class, their place and the values that they contain, not by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from throughtime.errors import InputError


def lacks(text: str, *facts: object) -> list[str]:
    """Return the facts that do not occur in the text as whole words.

    >>> lacks("error: --num-beams: is 12, expected 1 to 10", "--num-beams:", 12, 10)
    []
    >>> lacks("beam_size: is 1.25, expected '13a' or -3", "size", "1", "1.2", "2", "3", "13a", "'13'")
    ['size', '1', '1.2', '2', '3', "'13'"]
    """
    return [str(fact) for fact in facts if not re.search(_whole(str(fact)), text)]


def _whole(fact: str) -> str:
    """Return a pattern that finds a fact, but neither a part of a longer word nor of a longer number."""
    before = r"(?<![\w-])(?<!\d[.,])" if fact[:1].isdigit() else r"(?<!\w)" if re.match(r"\w", fact) else ""
    after = r"(?!\w)(?![.,]\d)" if fact[-1:].isdigit() else r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    return before + re.escape(fact) + after


@contextmanager
def refuses(
    where: object, *facts: object, error: type[Exception] = InputError
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of one line that names a place (a parameter, a file and line) and contains these facts.

    A place may be given by its end, such as `a.csv:4` for the fourth line of a file in any folder. An error
    without a place, such as that of an unknown name, contains `where` like any other fact.

    >>> with refuses("hidden_size", "0"):
    ...     raise InputError("hidden_size", "is 0, expected 1 or more")
    >>> with refuses("a.csv:4", "'y'"):
    ...     raise InputError("data/a.csv", "has no column 'y'", line=41)
    Traceback (most recent call last):
    AssertionError: "data/a.csv:41: has no column 'y'" does not name the place a.csv:4
    """
    with pytest.raises(error) as caught:
        yield caught
    value, sentence = caught.value, str(caught.value)
    end = ""
    if isinstance(value, InputError) and value.problem is not None:
        end = re.escape(f": {value.problem}") + r"\Z"
    if "\n" in sentence:
        raise AssertionError(f"{sentence!r} is more than one line")
    if not re.search(_whole(str(where)) + end, sentence):
        raise AssertionError(f"{sentence!r} does not name the place {where}")
    if missing := lacks(sentence, *facts):
        raise AssertionError(f"{sentence!r} lacks {', '.join(missing)}")
