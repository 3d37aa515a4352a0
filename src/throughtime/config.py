"""Typed configuration: an error for an unknown key suggests a known one, and idle settings are refused."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from throughtime.errors import InputError, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


@dataclass(frozen=True)
class Effect:
    """The setting `key` has an effect if `counts` is true of the whole configuration.

    `without` completes an error that begins with "has no effect": it says when, and what to do instead. The
    name of a setting in braces stands for its value.
    """

    key: str
    counts: Callable[[Any], bool]
    without: str


def only_with(key: str, other: str, *values: str) -> Effect:
    """The setting `key` has an effect only if the setting `other` has one of these values."""
    choice = " or ".join(values)
    comma = "," if len(values) > 1 else ""
    return Effect(
        key,
        lambda config: getattr(config, other) in values,
        f"with {other}={{{other}}}; set {other}={choice}{comma} or leave it out",
    )


class Config(BaseModel):
    """The settings of a task. Only the functions that build its parts see it; classes take plain arguments.

    Settings in `SUGGESTED` may be null: the data then decide. `EFFECTS` lists settings that have an effect
    only together with others.
    """

    SUGGESTED: ClassVar[frozenset[str]] = frozenset()
    EFFECTS: ClassVar[tuple[Effect, ...]] = ()

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def derive_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of other settings that depend on those given, instead of their defaults."""
        return {}

    @classmethod
    def fields_with_role(cls, role: str) -> set[str]:
        """The settings that were declared with this role, by `architecture` or `initialisation`."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {
            name for name, extra in extras.items() if isinstance(extra, dict) and extra.get("role") == role
        }

    def arguments_for(self, function: Callable[..., Any]) -> dict[str, Any]:
        """The settings that are parameters of a function, by name.

        >>> class Oven(Config):
        ...     degrees: int = 180
        ...     dish: str = "pie"
        >>> Oven().arguments_for(lambda degrees, minutes: degrees)
        {'degrees': 180}
        """
        names = signature(function).parameters
        return {name: getattr(self, name) for name in type(self).model_fields if name in names}

    @model_validator(mode="before")
    @classmethod
    def _follow(cls, given: Any) -> Any:
        return {**cls.derive_settings(given), **given} if isinstance(given, Mapping) else given


Kind = TypeVar("Kind", bound=Config)


def architecture(default: Any = ..., **options: Any) -> Any:
    """A field that determines the shape of the network or the meaning of its inputs.

    A model that starts from the weights of another model also has that model's values of these settings.
    """
    return Field(default, json_schema_extra={"role": "architecture"}, **options)


def initialisation(default: Any = ..., **options: Any) -> Any:
    """A field that determines the first weights; it has no effect on a model that starts from another's."""
    return Field(default, json_schema_extra={"role": "initialisation"}, **options)


def one_of(table: str, *others: str) -> AfterValidator:
    """A check for the type of a field: the value is a name in a table (`module:TABLE`) or one of the others.

    The table is imported when a value that is not one of the others is checked; a default is not checked.
    """

    def check(name: str) -> str:
        if name in others:
            return name  # without importing the table
        module, _, attribute = table.partition(":")
        names = getattr(importlib.import_module(module), attribute)
        if name not in names:
            known = [*others, *names]
            raise ValueError(f"{', '.join(known[:-1])} or {known[-1]}{suggest(name, known)}")
        return name

    return AfterValidator(check)


SYNONYMS = {
    "learning_rate": "lr",
    "gradient_clipping": "clip",
    "patience": "early_stopping",
    "vocab_size": "max_size",
    "vocabulary_size": "max_size",
    "bptt": "num_steps",
    "random_state": "seed",
}
"""Names that other libraries use for settings; an error suggests our name instead."""

# What was expected, for each of pydantic's kinds of error; the words follow "expected".
_EXPECTED = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "finite_number": "a finite number",
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table of keys and values",
    "model": "a table of keys and values",
    "none": "null",
}


def build_config(kind: type[Kind], values: Mapping[str, Any], where: str) -> Kind:
    """Build a configuration, or say in one sentence which key of `where` is wrong.

    >>> class Oven(Config):
    ...     degrees: int = 180
    >>> build_config(Oven, {"degres": 200}, "oven.yaml")
    Traceback (most recent call last):
    throughtime.errors.InputError: oven.yaml: unknown key 'degres'; did you mean 'degrees'?
    >>> build_config(Oven, {"degrees": "hot"}, "oven.yaml")
    Traceback (most recent call last):
    throughtime.errors.InputError: oven.yaml: degrees is 'hot', expected a whole number
    """
    try:
        return kind(**values)
    except ValidationError as error:
        raise _refusal(kind, values, error.errors(), where) from None


def check_config(kind: type[Config], values: Mapping[str, Any], where: str) -> None:
    """Refuse what `build_config` would refuse, except that required keys may still be missing."""
    try:
        kind(**values)
    except ValidationError as error:
        wrong = [e for e in error.errors() if not (e["type"] == "missing" and len(e["loc"]) == 1)]
        if wrong:
            raise _refusal(kind, values, wrong, where) from None


def refuse_idle(config: Config, keys: Collection[str]) -> None:
    """Refuse settings that were given but have no effect; giving the default value is allowed.

    >>> from throughtime.fit.config import TrainingConfig
    >>> refuse_idle(TrainingConfig(ema_decay=0.9), ["ema_decay"])
    Traceback (most recent call last):
    throughtime.errors.InputError: ema_decay: has no effect with average=none; set average=ema or leave it out
    """
    for effect in config.EFFECTS:
        default = type(config).model_fields[effect.key].get_default(call_default_factory=True)
        if effect.key not in keys or getattr(config, effect.key) == default or effect.counts(config):
            continue
        raise InputError(effect.key, f"has no effect {effect.without.format(**dict(config))}")


GIVEN = "settings"
"""The place of settings that are given as keywords or options; errors name the setting itself."""


def _refusal(
    kind: type[Config], values: Mapping[str, Any], errors: Sequence[ErrorDetails], where: str
) -> InputError:
    name, problem = _describe_problem(kind, values, errors)
    if name is None:
        return InputError(where, problem)
    return InputError(name, problem) if where == GIVEN else InputError(where, f"{name} {problem}")


def _describe_problem(
    kind: type[Config], values: Mapping[str, Any], errors: Sequence[ErrorDetails]
) -> tuple[str | None, str]:
    """The setting that has a bad value, or None for an unknown or missing one, and what is wrong."""
    first = errors[0]
    key, index = _place(first)
    if first["type"] == "extra_forbidden":
        meant = name if (name := SYNONYMS.get(key)) in kind.model_fields else key
        hint = suggest(meant, kind.model_fields) or f"; known: {', '.join(kind.model_fields)}"
        return None, f"unknown key {key!r}{hint}"
    if first["type"] == "missing" and index is None:
        return None, f"the key {key!r} is missing"
    if first["type"] == "missing":  # an item of a list whose length is fixed
        value_of_key = values[key]
        return key, f"is {value_of_key!r}, expected more than {_items(len(value_of_key))}"
    # A union fails once for each of its types, and any of them would be right.
    same_place = [error for error in errors if _place(error) == (key, index)]
    expected = list(dict.fromkeys(_describe_expected(error) for error in same_place))
    if index is None and _may_be_null(kind, key) and "null" not in expected:
        expected.append("null")
    name = key if index is None else f"item {index + 1} of {key}"
    value, hint = _format_value(first["input"]), _suggest_word(same_place)
    return name, f"is {value}, expected {_either(expected)}{hint}"


def _place(error: ErrorDetails) -> tuple[str, int | None]:
    """The key, and the number of the item in its list; pydantic also names the members of a union."""
    key, *inner = error["loc"] or ("",)
    return str(key), next((number for number in inner if isinstance(number, int)), None)


def _describe_expected(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        return str(context["expected"]).replace("'", "")
    if kind == "too_short":
        return f"at least {_items(context['min_length'])}"
    if kind == "too_long":
        return f"at most {_items(context['max_length'])}"
    if kind in _EXPECTED:
        return _EXPECTED[kind].format(**{name: _number(value) for name, value in context.items()})
    # int_type, int_parsing, int_from_float and so on: all say that it is not an int.
    plain = _TYPES.get(kind.split("_")[0])
    return plain or error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")


def _suggest_word(errors: Sequence[ErrorDetails]) -> str:
    """The nearest of the words that would have been right."""
    for error in errors:
        words = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
        if near := suggest(error["input"], words):
            return near
    return ""


def _may_be_null(kind: type[Config], key: str) -> bool:
    return key in kind.model_fields and NoneType in get_args(kind.model_fields[key].annotation)


def _format_value(value: object) -> str:
    """A value as it is written in a file."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def _either(choices: Sequence[str]) -> str:
    """Join alternatives; with a comma if one of them contains "or" itself."""
    joint = ", or " if any(" or " in choice for choice in choices) else " or "
    return joint.join(choices)


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
