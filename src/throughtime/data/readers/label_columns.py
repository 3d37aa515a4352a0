"""Which columns of a table, or fields of JSON lines, hold texts and their labels."""

from __future__ import annotations

import json
from collections.abc import Sequence

from throughtime.data.readers.csv_pairs import USUAL_NAMES
from throughtime.data.readers.labelled import LABEL, TEXT, tab_rows
from throughtime.data.readers.rows import csv_rows
from throughtime.data.source import MemoryFile, Place, lines_or_errors, text_suffix
from throughtime.errors import InputError

TABLES = (".csv", ".tsv", ".jsonl")
TEXTS = frozenset(
    "text sentence review comment content body message document utterance tweet question query".split()
)
LABELS = frozenset(
    "label labels class category stars rating sentiment polarity intent topic emotion genre score".split()
)
SHOWN = 8


def column_names(path: Place) -> list[str]:
    """The column names in a table's header, or the fields of the first JSON object; empty for other files."""
    if isinstance(path, MemoryFile):
        return list(path.items[0])
    suffix = text_suffix(path)
    if suffix in (".csv", ".tsv"):
        rows = tab_rows(path) if suffix == ".tsv" else csv_rows(path)
        _, header = next(rows, (1, []))
        return [name.strip() for name in header] if isinstance(header, list) else []
    if suffix == ".jsonl":
        _, line = next(lines_or_errors(path))
        try:
            fields = json.loads(line) if isinstance(line, str) else None
        except (ValueError, RecursionError):
            fields = None
        return list(fields) if isinstance(fields, dict) else []
    return []


def label_columns(path: Place, text: str | None, label: str | None) -> tuple[str, str] | None:
    """The columns of text and label: those given, else those with a usual name, else the only one left.

    None if the file has no header, or columns named source and target: its reader then finds both.
    """
    names = column_names(path)
    shown = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
    text, label = (_named(path, names, name, shown) for name in (text, label))
    found_text = text or _usual([name for name in names if name != label], TEXT, TEXTS)
    found_label = label or _usual([name for name in names if name != text], LABEL, LABELS)
    if len(names) == 2 and (found_text is None) != (found_label is None):
        (left,) = (name for name in names if name not in (found_text, found_label))
        found_text, found_label = found_text or left, found_label or left
    if found_text is not None and found_label is not None and found_text != found_label:
        return found_text, found_label
    named = text is not None or label is not None
    pairs = any({*sides} <= {name.lower() for name in names} for sides in USUAL_NAMES)
    if not named and (
        pairs or (text_suffix(str(path)) == ".tsv" and found_text is None and found_label is None)
    ):
        return None
    missing = [role for role, found in (("text", found_text), ("label", found_label)) if found is None]
    roles = " and which the ".join(missing) or "text and which the label"
    raise InputError(
        str(path),
        f"has the columns {shown}, and it is not clear which holds the {roles}; choose them with the "
        "settings text and label, as in text=review and label=stars",
        line=1,
    )


def usual_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of text and label, if both have usual names."""
    text, label = _usual(names, TEXT, TEXTS), _usual(names, LABEL, LABELS)
    return (text, label) if text is not None and label is not None else None


def _named(path: Place, names: Sequence[str], name: str | None, shown: str) -> str | None:
    """The column with this name, or the only one that differs from it in case alone."""
    if name is None or name in names:
        return name
    fitting = [one for one in names if one.lower() == name.lower()]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"has no column {name!r}, its columns are {shown}; choose with the settings text and label"
    raise InputError(str(path), problem, line=1)


def _usual(names: Sequence[str], first: str, usual: frozenset[str]) -> str | None:
    """The column called `first`, else the only one with a usual name, in any case."""
    if first in names:
        return first
    fitting = [name for name in names if name.lower() in usual]
    return fitting[0] if len(fitting) == 1 else None
