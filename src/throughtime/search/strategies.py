"""Search strategies by name, with the options that the command line, Python and the server offer.

A strategy's constructor takes the id of the end token, `max_length` if it can use it (an attribute, which may
change between searches), and its options: every keyword that is annotated `Annotated[type, "help"]`. Another
package adds one with an entry point of the group `throughtime.strategies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from throughtime.errors import InputError, check_whole, suggest
from throughtime.registry import Registry
from throughtime.runtime.search import MAX_BEAMS
from throughtime.search.generate import Strategy

STRATEGIES = Registry[Callable[..., Strategy]](
    "search strategy",
    "throughtime.strategies",
    {
        "greedy": "throughtime.search.sampling:Greedy",
        "sampling": "throughtime.search.sampling:Sampling",
        "beam": "throughtime.search.beam:Beam",
        "diverse": "throughtime.search.beam_variants:DiverseBeam",
        "stochastic": "throughtime.search.beam_variants:StochasticBeam",
        "exhaustive": "throughtime.search.exhaustive:Exhaustive",
        "exact": "throughtime.search.exact:Exact",
    },
)

NumBeams = Annotated[int, "Number of hypotheses kept at each step"]
LengthPenalty = Annotated[float, "Power of the length that log-probabilities are divided by"]
NumReturnSequences = Annotated[int, "Number of results to return"]
OptionalNumReturnSequences = Annotated[int | None, "Number of results to return; by default all"]
Limit = Annotated[float | None, "Drop candidates whose probability is this far below the best one's"]
Eager = Annotated[bool, "Stop as soon as no hypothesis looks better than the results"]
OptionalNumBeams = Annotated[int | None, "Number of hypotheses of all groups; by default 3 for each group"]
Groups = Annotated[int | None, "Number of groups of beams; by default one for each result"]
DiversityPenalty = Annotated[float, "Penalty on tokens that earlier groups chose at the same step"]
PerGroup = Annotated[int, "Number of results per group; more if num_return_sequences needs them"]
Temperature = Annotated[float, "Values below 1 make likely tokens likelier, values above 1 less likely"]
TopK = Annotated[int | None, "Draw only from this number of likeliest tokens"]
TopP = Annotated[float | None, "Draw only from the smallest set of tokens with this total probability"]
Seed = Annotated[int | None, "Seed of the random numbers; the same seed gives the same draws"]


@dataclass(frozen=True)
class Option:
    """One option of a strategy; its value is a `kind` (int, float, bool or str), or None if `optional`."""

    name: str
    kind: type
    optional: bool
    default: Any
    help: str

    def read(self, value: Any) -> Any:
        """Check a value, and convert it if it is text, as on a command line or in a query.

        >>> Option("groups", int, False, 3, "Number of groups").read("2")
        2
        >>> Option("groups", int, False, 3, "Number of groups").read("two")
        Traceback (most recent call last):
        throughtime.errors.InputError: groups: is 'two', expected a whole number
        """
        if value is None and self.optional:
            return None
        if isinstance(value, str) and self.kind is not str:
            try:
                return _BOOLEANS[value.lower()] if self.kind is bool else self.kind(value)
            except (KeyError, ValueError):
                raise self._refusal(value) from None
        exact = type(value) is self.kind or (self.kind is float and type(value) is int)
        if not exact:
            raise self._refusal(value)
        return value

    def _refusal(self, value: Any) -> InputError:
        expected = {int: "a whole number", float: "a number", bool: "true or false"}.get(self.kind, "a text")
        return InputError(self.name, f"is {value!r}, expected {expected}")


COUNT = "num_return_sequences"
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def strategy_options(name: str) -> dict[str, Option]:
    """The options of a strategy, in the order of its constructor.

    >>> list(strategy_options("sampling"))
    ['temperature', 'top_k', 'top_p', 'num_return_sequences', 'seed']
    """
    return dict(_declared_options(STRATEGIES[name]))


@cache
def _declared_options(constructor: Callable[..., Strategy]) -> Mapping[str, Option]:
    function = constructor.__init__ if isinstance(constructor, type) else constructor  # type: ignore[misc]
    hints = get_type_hints(function, include_extras=True)
    options = {}
    for parameter in inspect.signature(constructor).parameters.values():
        hint = hints.get(parameter.name)
        if get_origin(hint) is not Annotated:
            continue
        value_type, text = get_args(hint)[:2]
        optional = get_origin(value_type) in (Union, UnionType)
        kind = (
            next(member for member in get_args(value_type) if member is not type(None))
            if optional
            else value_type
        )
        options[parameter.name] = Option(parameter.name, kind, optional, parameter.default, text)
    return options


def build_strategy(
    name: str, end_id: int | None, *, max_length: int | None = None, **options: Any
) -> Strategy:
    """Build the strategy of this name. `max_length` is the maximum number of tokens of a result.

    `num_return_sequences` may be given for every strategy, and is refused if it finds fewer results.

    >>> build_strategy("beam", 2, num_beams=3).num_beams
    3
    >>> build_strategy("beam", 2, groups=3)
    Traceback (most recent call last):
    throughtime.errors.InputError: groups: is not an option of beam search, which takes eager, length_penalty,
    limit, num_beams, num_return_sequences; diverse search has it
    """
    constructor = STRATEGIES[name]
    known = _declared_options(constructor)
    count = 1 if COUNT in known else check_whole(COUNT, options.pop(COUNT, 1))
    for option in options:
        if option not in known:
            raise InputError(option, f"is not an option of {name} search, {describe_options(option, known)}")
    values = {option: known[option].read(value) for option, value in options.items()}
    for option in (COUNT, "num_beams") if "num_beams" in known else ():
        if values.get(option) is not None:
            check_whole(option, values[option], 1, MAX_BEAMS)
    if "max_length" in inspect.signature(constructor).parameters:
        values["max_length"] = max_length
    strategy = constructor(end_id, **values)
    if count > (most := getattr(strategy, "num_beams", 1) if "num_beams" in known else 1):
        raise InputError(COUNT, f"is {count}, but {name} search finds {most}")
    return strategy


def set_max_length(strategy: Any, max_length: int) -> None:
    """Set the maximum number of tokens of a result, if the strategy uses it, for its next search."""
    if hasattr(strategy, "max_length"):
        strategy.max_length = max_length


def describe_options(option: str, known: Iterable[str]) -> str:
    """What a strategy takes instead of an option, or which strategies have it."""
    takes = f"which takes {', '.join(sorted(known))}" if known else "which takes none"
    if option in STRATEGIES:
        return f"{takes}; it is a strategy of its own: search={option}"
    if near := suggest(option, known):
        return f"{takes}{near}"
    others = [name for name in STRATEGIES.own if option in strategy_options(name)]
    has = f"; {' and '.join(others)} search {'have' if len(others) > 1 else 'has'} it"
    return takes + has if others else takes
