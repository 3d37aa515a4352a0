"""Which columns of a table hold what: one choice for files of every format and for Python objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypedDict

from throughtime.data.readers.layout import like_number
from throughtime.data.readers.tables import LABELS, PAIRS, TEXTS, DataTable, shown_names
from throughtime.errors import InputError, unknown
from throughtime.text.languages import find_language

Column = str | int


class ColumnRoles(TypedDict, total=False):
    """The columns of a table, by name or by number from 0; source and target may be languages instead."""

    source: Column | None
    target: Column | None
    text: Column | None
    label: Column | None
    words: Column | None
    tags: Column | None
    condition: Column | None
    id: str | None
    time: str | None
    features: tuple[str, ...] | None


ROLES: dict[str, tuple[str, ...]] = {
    "pairs": ("source", "target"),
    "text": ("text",),
    "labelled": ("text", "label"),
    "tags": ("words", "tags"),
    "described": ("condition", "text"),
    "series": ("id", "time"),
    "vectors": ("id", "label"),
    "sequences": ("id",),
}
"""What the columns of each kind of data hold; the first kind with the roles that are given is meant."""
USUAL: dict[str, frozenset[str]] = {
    "source": frozenset(source for source, _ in PAIRS),
    "target": frozenset(target for _, target in PAIRS),
    "text": TEXTS,
    "label": LABELS,
    "words": frozenset({"words", "tokens"}),
    "tags": frozenset({"tags", "ner_tags", "pos_tags"}),
    "condition": LABELS | {"vector", "condition"},
    "id": frozenset("id unique_id sequence sequence_id series recording trial".split()),
}
"""Usual names of columns in lower case."""
USUAL_WORDS = {
    "words": USUAL["words"] | {"word", "token", "form"},
    "tags": USUAL["tags"] | {"tag", "pos", "upos", "ner"},
}
"""Usual names where each line has one word."""
FIRST = {"condition": ("vector", "condition", "label")}
"""Names that are preferred to other usual ones; by default the role itself."""
OPTIONAL = {
    "tags": ("label",),
    "series": ("target",),
    "vectors": ("time", "features"),
    "sequences": ("time",),
}
"""Further columns that a table may have."""
MAX_WORDS = 3
MAX_LIKE_NAMES = 0.1
"""Share of the other rows up to which those that look like names are exceptions."""
_NAME = re.compile(r"[^\W\d_]([\w ()/.,:#&-]{0,38}[\w)#])?")
"""What may be a name of a column: it does not end as a sentence does."""
ATTRIBUTION = "CC-BY"


@dataclass(frozen=True)
class ChosenColumns:
    """The chosen columns of a table: the name of each by its role, none without a header, and its place."""

    names: dict[str, str]
    places: tuple[int, ...]
    header: bool


def choose_columns(
    table: DataTable, kind: str, given: Mapping[str, Column | None], header: bool | None = None
) -> ChosenColumns:
    """Return the columns that were given, else those with usual names, else the only ones that are left.

    `header` says whether the first row holds names; None: decide by the names and the other rows.
    """
    chosen = {role: _column(value, table.first) for role, value in given.items() if value is not None}
    header = True if table.has_names else header
    if header is None:
        header = has_header(table, kind, chosen)
        if header is None and chosen and all(isinstance(column, int) for column in chosen.values()):
            header = False
    roles = ROLES[kind]
    if header is not True:
        chosen = _drop_languages(table, chosen)
    places = {role: _place(table, kind, role, column, header) for role, column in chosen.items()}
    if header:
        places |= _usual_places(table.first, roles, places)
    num_columns = width(table)
    free = [each for each in range(num_columns) if each not in places.values()]
    missing = [role for role in roles if role not in places]
    text = _text_columns(table, header)
    sides = kind == "pairs" or (kind == "labelled" and (header is False or names_pairs(table.first)))
    if missing and len(free) == len(missing) and (header or header is False):
        if len(missing) == 1 or sides:
            places |= dict(zip(missing, free, strict=True))
    elif missing == list(roles) == ["source", "target"]:
        languages = [each for each in free if header and each in text and is_language(table.first[each])]
        places |= dict(zip(roles, languages, strict=True)) if len(languages) == 2 else {}
        if table.format == ".tsv" and num_columns < 2:
            places, header = {"source": 0, "target": 1}, False  # each row that has no tab is a bad record
    missing = [role for role in roles if role not in places]
    if missing:
        raise _unclear(table, roles, header, places)
    more = [role for role in OPTIONAL.get(kind, ()) if header and role in table.first and role not in places]
    places |= {role: table.first.index(role) for role in more}
    order = [*roles, *(role for role in places if role not in roles)]
    names = {role: table.first[places[role]] for role in order} if header else {}
    return ChosenColumns(names, tuple(places[role] for role in order), bool(header))


def has_header(table: DataTable, kind: str | None, given: Mapping[str, Column] = {}) -> bool | None:
    """Return whether the first row of a table holds names, or None if that is not clear.

    It does if it contains a name that was given, or usual names; or if none of its cells recurs in its
    column, and some column holds numbers below it where it does not. It does not if a cell recurs, or if the
    first row looks like a sentence, or like other rows that have a word in common with it.
    """
    first, rows = table.first, [row for row in table.sample[1:] if len(row) == len(table.first)]
    lowered = [cell.lower() for cell in first]
    if any(isinstance(name, str) and name.lower() in lowered for name in given.values()):
        return True
    usual = [bool(find_usual(first, role)) for role in ROLES.get(kind or "", ())]
    if usual and (all(usual) or (any(usual) and kind in ("labelled", "described"))):
        return True
    if len(first) > 1 and all(map(is_language, first)):
        return True
    columns = [(cell, [str(row[each]).strip() for row in rows]) for each, cell in enumerate(first) if cell]
    if not rows or any(cell in column for cell, column in columns):
        return False
    if any(not like_number(cell) and all(map(like_number, column)) for cell, column in columns):
        return True
    alike = sum(map(_like_names, rows)) > MAX_LIKE_NAMES * len(rows)
    if not _like_names(first) or (alike and any(_shares_word(cell, column) for cell, column in columns)):
        return False
    return None


def choose_word_columns(table: DataTable, given: Mapping[str, Column]) -> ChosenColumns | None:
    """Return the columns of words and tags, one word a line; None if the first row is a word, as it often is.

    It holds names if one was given, or if two are usual. Otherwise it is asked, if no other word has its tag
    though most share theirs.
    """
    usual = [next((n for n in table.first if n.lower() in USUAL_WORDS[role]), None) for role in ROLES["tags"]]
    if all(usual):
        return choose_columns(table, "tags", {**dict(zip(ROLES["tags"], usual, strict=True)), **given}, True)
    if any(isinstance(column, str) for column in given.values()):
        return choose_columns(table, "tags", given)
    tags = Counter(row[-1] for row in table.sample)
    alone, single = bool(table.first) and tags[table.sample[0][-1]] == 1, [*tags.values()].count(1)
    if not given and alone and _like_names(table.first) and single < min(tags.total(), tags.total() / 2 + 1):
        raise _unclear(table, ROLES["tags"], None, {})
    return None


def kind_of(given: Mapping[str, Any]) -> str | None:
    """Return the kind of data that the given roles of columns suggest, or None if none is given."""
    roles = {role for role in ColumnRoles.__annotations__ if given.get(role) is not None}
    if not roles:
        return None
    kind = next((kind for kind, known in ROLES.items() if roles <= {*known, *OPTIONAL.get(kind, ())}), None)
    if kind is None:
        raise InputError(" and ".join(sorted(roles)), "do not go together; leave out one of them")
    return kind


def languages_of(names: Mapping[str, str], source: Column | None, target: Column | None) -> tuple[str, ...]:
    """Return the languages of pairs: those that were given, else the names of the columns, if they tell."""
    if names and (names["source"].lower(), names["target"].lower()) not in PAIRS:
        return names["source"], names["target"]
    given = [str(side) for side in (source, target) if side is not None and not str(side).isdecimal()]
    return tuple(given) if len(given) == 2 else ()


def _column(value: Column, names: Sequence[str]) -> Column:
    """Return the number of a column that is given as text, unless a column has that name."""
    return int(value) if isinstance(value, str) and value.isdecimal() and value not in names else value


def _place(table: DataTable, kind: str, role: str, column: Column, header: bool | None) -> int:
    """Return the position of a column; its name may differ in case alone from one of the names."""
    if isinstance(column, int):
        if table.format == ".tsv" and not header and column >= 0:
            return column  # rows may be shorter: each is checked
        if 0 <= column < len(table.first):
            return column
        problem = f"has {len(table.first)} columns, counted from 0, so there is no column {column}"
        raise InputError(str(table.path), problem, line=1)
    if column in table.first:
        if table.first.count(column) > 1:
            raise InputError(str(table.path), f"names the column {column!r} twice; rename one", line=1)
        return table.first.index(column)
    near = [each for each, name in enumerate(table.first) if name.lower() == column.lower()]
    if len(near) == 1:
        return near[0]
    if header is False:
        choices: dict[str, Any] = {role: each for each, role in enumerate(ROLES[kind])}
        problem = f"has no column {column!r}: its first row, {shown_names(table.first)}, holds no names; "
        raise _question(table, f"{problem}choose columns by number", choices)
    close: dict[str, Any] = dict(zip([role], get_close_matches(column, table.first, n=1), strict=False))
    raise _question(table, str(unknown(f"column for {role}", column, table.first)), close)


def _drop_languages(table: DataTable, chosen: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns without source and target if they name the languages of a table of two columns."""
    if not {*chosen} <= {"source", "target"} or width(table) > 2:
        return dict(chosen)
    return {
        role: column
        for role, column in chosen.items()
        if isinstance(column, int) or column in table.first or not find_language(column)
    }


def width(table: DataTable) -> int:
    """Return the number of columns, without those at the end that name a licence in every row."""
    last = len(table.first) - 1
    while last > 1 and all(str(row[last]).startswith(ATTRIBUTION) for row in table.sample if row[last:]):
        last -= 1
    return last + 1


def _usual_places(names: Sequence[str], roles: Sequence[str], chosen: Mapping[str, int]) -> dict[str, int]:
    left = ["" if each in chosen.values() else name for each, name in enumerate(names)]
    usual = {role: find_usual(left, role) for role in roles if role not in chosen}
    places = {role: left.index(name) for role, name in usual.items() if name}
    return places if len({*places.values()}) == len(places) else {}


def find_usual(names: Sequence[str], role: str) -> str | None:
    """Return the column called like its role, else the only one with a usual name, ignoring case."""
    first = next((name for name in FIRST.get(role, (role,)) if name in names), None)
    usual = [name for name in names if name.lower() in USUAL.get(role, ())]
    return first or (usual[0] if len(usual) == 1 else None)


def is_language(name: str) -> bool:
    """Return whether the name of a column is that of a language."""
    return bool(name) and name.lower() != "id" and find_language(name) is not None


def names_pairs(names: Sequence[str]) -> bool:
    """Return whether columns are named source and target, or similarly."""
    return any({*sides} <= {name.lower() for name in names} for sides in PAIRS)


def _like_names(cells: Sequence[Any]) -> bool:
    texts = [str(cell).strip() for cell in cells]
    return all(_NAME.fullmatch(text) and len(text.split()) <= MAX_WORDS for text in texts)


def _shares_word(cell: str, column: Sequence[str]) -> bool:
    words = {*cell.lower().split()}
    return any(not words.isdisjoint(other.lower().split()) for other in column)


def _text_columns(table: DataTable, header: bool | None) -> list[int]:
    """Return the columns that hold more than numbers."""
    rows = table.sample[bool(header is not False) :]
    columns = [[str(row[each]) for row in rows if len(row) > each] for each in range(len(table.first))]
    return [each for each, cells in enumerate(columns) if not cells or not all(map(like_number, cells))]


def _unclear(
    table: DataTable, roles: Sequence[str], header: bool | None, places: Mapping[str, int]
) -> InputError:
    """Return the question which columns to read; `choices` of the error are columns that may be meant."""
    missing = [role for role in roles if role not in places]
    others = [each for each in range(len(table.first)) if each not in places.values()]
    text = [each for each in _text_columns(table, header) if each not in places.values()]
    guesses = _guess(table, missing, text if len(text) >= len(missing) else others)
    order = {role: {**places, **guesses}[role] for role in roles if role in places or role in guesses}
    choices: dict[str, Any] = order if header is False else {r: table.first[p] for r, p in order.items()}
    shown, what = shown_names(table.first), f"which holds the {' and which the '.join(missing)}"
    problem = f"has the columns {shown}, and it is not clear {what}; choose with {' and '.join(roles)}"
    if header is None and len(table.first) == len(roles):
        numbers = " and ".join(f"{role}={each}" for each, role in enumerate(roles))
        problem = f"begins with {shown}, and it is not clear whether these are names of columns; choose them "
        problem += f"by number if they are not, as in {numbers}, or else by name"
    return _question(table, problem, choices)


def _guess(table: DataTable, missing: Sequence[str], columns: Sequence[int]) -> dict[str, int]:
    """Return columns that may be meant, in their order; labels recur, and differ."""
    order, rows = [*columns], table.sample[1:]
    kinds = {each: len({str(row[each]) for row in rows if len(row) > each}) for each in order}
    labels = [each for each in order if 1 < kinds[each] <= len(rows) / 2]
    role = next((role for role in missing if role in ("label", "condition")), None)
    if labels and role is not None:
        least = min(labels, key=lambda each: kinds[each])
        order.remove(least)
        order.insert(missing.index(role), least)
    return dict(zip(missing, order, strict=False))


def _question(table: DataTable, problem: str, choices: dict[str, Any]) -> InputError:
    """Return an error that shows the columns that may be meant, which the command line makes a command of."""
    plain = {role: str(column) for role, column in choices.items()}
    example = " and ".join(f"{role}={one if one.isalnum() else repr(one)}" for role, one in plain.items())
    error = InputError(str(table.path), f"{problem}, as in {example}" if example else problem, line=1)
    error.choices = choices
    return error
