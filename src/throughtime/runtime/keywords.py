"""The keyword options of predictions, each declared once: its type, what it is for and the values it takes.

A task declares its options as a `TypedDict` whose types are `Annotated[type, Keyword(...)]`. The model and
its export take them as keywords (`**options: Unpack[...]`), the command line and the HTTP endpoint derive
theirs from the declaration. Nothing here imports more than the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, cast, get_args, get_type_hints

from throughtime.errors import InputError, check_whole, suggest

Options = TypeVar("Options", bound=Mapping[str, Any])
MAX_SEED = 2**63 - 1
"""The largest seed that torch and numpy both take."""
SEARCH, RULES = "Search", "Constraints"
"""Titles of groups of options in a help."""


class Keyword(NamedTuple):
    """What an option is for, its value if it is not given, and its bounds, both included."""

    help: str
    default: Any = None
    min: int | None = None
    max: int | None = None
    group: str | None = None


class SearchOptions(TypedDict, total=False):
    """Which strategy searches for texts, and how; see `throughtime.runtime.search.choose_search`."""

    search: Annotated[
        str | None, Keyword("Strategy: {throughtime.search.strategies:STRATEGIES}.", group=SEARCH)
    ]
    num_beams: Annotated[int | None, Keyword("Number of beams; 1 is greedy search.", min=1, group=SEARCH)]
    length_penalty: Annotated[
        float | None, Keyword("Score texts by log P / length^X; 0 prefers short ones.", min=0, group=SEARCH)
    ]
    temperature: Annotated[
        float | None,
        Keyword("sampling: below 1 for likelier texts, above 1 for more varied ones.", group=SEARCH),
    ]
    top_k: Annotated[int | None, Keyword("sampling: draw from the N most likely tokens.", group=SEARCH)]
    top_p: Annotated[
        float | None,
        Keyword("sampling: draw from the fewest tokens with this total probability.", group=SEARCH),
    ]
    seed: Annotated[
        int | None,
        Keyword("sampling, stochastic: seed of the random numbers.", min=0, max=MAX_SEED, group=SEARCH),
    ]


class WritingOptions(SearchOptions, total=False):
    """How a text is written, token by token."""

    max_new_tokens: Annotated[
        int | None,
        Keyword("Maximum number of tokens to write; by default 100, or the model's own setting.", min=1),
    ]
    num_return_sequences: Annotated[
        int | None, Keyword("Number of texts to return; by default 1.", min=1, max=10_000)
    ]
    greedy: Annotated[
        bool | None, Keyword("Same as --search greedy: take the most likely token each time.", group=SEARCH)
    ]


class WritingRules(TypedDict, total=False):
    """What a text must and must not contain."""

    forbid: Annotated[Sequence[str], Keyword("Words that must not appear; repeatable.", (), group=RULES)]
    require: Annotated[Sequence[str], Keyword("Words that must appear; repeatable.", (), group=RULES)]
    no_repeat_ngram: Annotated[
        int | None, Keyword("Do not repeat any n-gram of this length.", min=1, group=RULES)
    ]


class PrefixRules(WritingRules, total=False):
    """The same, for a text that does not continue a prompt."""

    prefix: Annotated[str, Keyword("Words that the text begins with.", "", group=RULES)]


@cache
def read_keywords(kind: Any) -> dict[str, Keyword]:
    """Return the keywords of a `TypedDict` of options, by name.

    >>> read_keywords(WritingRules)["no_repeat_ngram"].min
    1
    """
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: next(arg for arg in get_args(hint) if isinstance(arg, Keyword)) for name, hint in hints.items()
    }


def complete_options(kind: type[Options], options: Options) -> Options:
    """Return options with the defaults of those that are missing; refuse unknown ones and bad numbers.

    >>> class FillOptions(TypedDict, total=False):
    ...     k: Annotated[int, Keyword("Number of results.", 5, min=1)]
    >>> complete_options(FillOptions, {}), complete_options(FillOptions, {"k": 2})
    ({'k': 5}, {'k': 2})
    >>> complete_options(FillOptions, {"k": 0})
    Traceback (most recent call last):
    throughtime.errors.InputError: k: is 0, expected a whole number of 1 or more
    """
    declared = read_keywords(kind)
    for name, value in options.items():
        if name not in declared:
            known = ", ".join(declared)
            raise InputError(name, f"is not an option; there are {known}{suggest(name, declared)}")
        lowest, highest = declared[name].min, declared[name].max
        if value is not None and lowest is not None:
            check_whole(name, value, lowest, highest)
    defaults = {name: keyword.default for name, keyword in declared.items()}
    return cast(Options, {**defaults, **options})


def split_options(options: Mapping[str, Any], kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that a `TypedDict` declares, and the others.

    >>> split_options({"forbid": ["no"], "top_k": 2}, WritingRules)
    ({'forbid': ['no']}, {'top_k': 2})
    """
    inside = {name: value for name, value in options.items() if name in kind.__annotations__}
    return inside, {name: value for name, value in options.items() if name not in inside}
