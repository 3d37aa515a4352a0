"""Read settings from a YAML or TOML file or from `key=value` words, and write them as YAML."""

from __future__ import annotations

import json
import math
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from throughtime.config import Config, check_config
from throughtime.errors import InputError
from throughtime.files import TOO_MUCH, check_plain

MAX_FILE_BYTES = 256 << 10  # bytes; reading YAML of this size takes two seconds
MAX_DEPTH = 20
"""Maximum number of brackets around a value."""
# A name like a.b.c of more parts; the parser keeps all beginnings of a name, which fill memory.
_DEEP_NAME = re.compile(
    rf"""(?<![\w\\-])(?:(?:"(?:[^"\\\n]|\\[^\n])*"|'[^'\n]*'|[\w-]+)[ \t]*\.[ \t]*){{{MAX_DEPTH}}}""",
    re.ASCII,
)
_WIDTH = 80
_MAX_SETTING_WIDTH = 34  # the comment of a longer setting begins further to the right


def read_settings(path: Path | str) -> dict[str, Any]:
    """Read a `.yaml`, `.yml` or `.toml` file; the settings are not checked against a configuration.

    TOML has no null: there the text "null" stands for it.
    """
    path = Path(path)
    readers = {".yaml": _read_yaml, ".yml": _read_yaml, ".toml": _read_toml}
    if path.suffix.lower() not in readers:
        raise InputError(str(path), f"is not a settings file; its name must end in {', '.join(readers)}")
    check_plain(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                str(path), f"is larger than {MAX_FILE_BYTES >> 10} kB, the most that settings may have"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text") from None
    return readers[path.suffix.lower()](text, str(path))


def read_assignments(words: list[str]) -> dict[str, Any]:
    """Read the words of `--set`: `key=value`, where a value is a number, a word, null or a [list] as in YAML.

    >>> read_assignments(["lr=1e-3", "clip=null", "betas=[0.9, 0.99]", "data=a=b"])
    {'lr': 0.001, 'clip': None, 'betas': [0.9, 0.99], 'data': 'a=b'}
    """
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise InputError("set", f"{word!r} is not of the form key=value, as in epochs=2")
        settings[key.strip()] = _value(value.strip(), word)
    return settings


def format_settings(kind: type[Config], values: Mapping[str, Any] | None = None) -> str:
    """Write a whole configuration as YAML: given values or defaults, each with its description.

    >>> from pydantic import Field
    >>> class Oven(Config):
    ...     dish: str = Field(description="what is in it")
    ...     degrees: int = Field(180, description="in Celsius")
    >>> print(format_settings(Oven, {"degrees": 220}), end="")
    # dish: (required)  # what is in it
    degrees: 220        # in Celsius
    """
    values = values or {}
    check_config(kind, values, "settings")
    values = {**kind.derive_settings(values), **values}
    # The task's own settings come before the trainer's; one with a new default stays where it was declared.
    groups: dict[type[Config], list[tuple[str, str]]] = {
        group: [] for group in kind.__mro__ if issubclass(group, Config)
    }
    for name, field in kind.model_fields.items():
        owner = next(group for group in reversed(groups) if name in group.model_fields)
        if name in values:
            setting = f"{name}: {_format_value(values[name])}"
        elif field.is_required():
            setting = f"# {name}: (required)"
        else:
            setting = f"{name}: {_format_value(field.get_default(call_default_factory=True))}"
        groups[owner].append((setting, field.description or ""))
    lengths = [len(setting) for group in groups.values() for setting, _ in group]
    column = max((length for length in lengths if length <= _MAX_SETTING_WIDTH), default=0)
    return "\n".join(_group(group, column + 2) for group in groups.values() if group)


def _group(lines: list[tuple[str, str]], column: int) -> str:
    """Settings followed by their descriptions, wrapped to the width of a terminal."""
    text = ""
    for setting, description in lines:
        first, *more = textwrap.wrap(description, _WIDTH - column - 2, break_on_hyphens=False) or [""]
        start = max(column, len(setting) + 2)
        text += f"{setting:<{start}}# {first}\n" if first else f"{setting}\n"
        text += "".join(f"{'':<{column}}# {line}\n" for line in more)
    return text


def _format_value(value: Any) -> str:
    """A value on one line of YAML."""
    match value:
        case Config():
            return _format_value(value.model_dump())
        case Mapping():
            items = (f"{_format_value(key)}: {_format_value(item)}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
        case list() | tuple():
            return "[" + ", ".join(_format_value(item) for item in value) + "]"
        case float() if math.isfinite(value):
            return repr(value).replace("e-0", "e-")
        case float():
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        case None | bool() | int():
            return json.dumps(value)
    # Quoted, unless it is a plain word that YAML reads as text.
    text = str(value)
    plain = re.fullmatch(r"[\w./+][\w./+-]*", text) and _scalar(text) == text
    quoted = json.dumps(text, ensure_ascii=False)
    return text if plain else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _value(text: str, word: str) -> Any:
    """Parse only lists, tables and quoted text as YAML, since `*`, `#` and `: ` occur in file names."""
    from ruamel.yaml.error import YAMLError

    try:
        return _parse(text) if text.startswith(("[", "{", '"', "'")) else _scalar(text)
    except YAMLError as error:
        raise InputError("set", f"{_quote(word)} cannot be read as YAML: {_reason(error)}") from None
    except (ValueError, RecursionError):
        raise InputError("set", f"{_quote(word)} {TOO_MUCH}") from None


def _quote(word: str) -> str:
    """A word in quotes; a long one is shortened."""
    return repr(word) if len(word) <= _WIDTH else repr(word[:_WIDTH]) + "..."


def _read_yaml(text: str, where: str) -> dict[str, Any]:
    from ruamel.yaml.error import YAMLError

    try:
        settings = _parse(text)
    except YAMLError as error:
        raise InputError(where, _reason(error), line=_line(error, text)) from None
    except (ValueError, RecursionError):
        raise InputError(where, TOO_MUCH) from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise InputError(where, "has no settings; write one `key: value` per line", line=1)
    return settings


def _read_toml(text: str, where: str) -> dict[str, Any]:
    if deep := _DEEP_NAME.search(text):
        problem = f"has a name of more than {MAX_DEPTH} parts"
        raise InputError(where, problem, line=text.count("\n", 0, deep.start()) + 1)
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, position = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", position)
        number = int(line[1]) if line else text.rstrip("\n").count("\n") + 1
        problem = "a key is given twice" if problem == "Cannot overwrite a value" else problem
        raise InputError(where, problem[0].lower() + problem[1:], line=number) from None
    except (ValueError, RecursionError):
        raise InputError(where, TOO_MUCH) from None
    return {key: None if value == "null" else value for key, value in settings.items()}


def _reason(error: Any) -> str:
    problem = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    return f"{error.context}, {problem}" if problem.startswith("but ") else problem


def _line(error: Any, text: str) -> int:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else text.count("\n", 0, error.position) + 1


def _scalar(text: str) -> Any:
    """What a plain word of YAML means.

    >>> [_scalar(word) for word in ["1e-3", "12", "1_000", "no", "true", "~", ".5", "012"]]
    [0.001, 12, 1000, 'no', True, None, 0.5, 12]
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import ScalarNode

    yaml = YAML(typ="safe", pure=True)
    return _check_plain(ScalarNode(yaml.resolver.resolve(ScalarNode, text, (True, False)), text), yaml)


def _parse(text: str) -> Any:
    """The value of a YAML text, which has no tags, aliases or dates, and no key twice in one table.

    Aliases of aliases would let a short text stand for any number of values.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.tokens import AliasToken, TagToken

    yaml = YAML(typ="safe", pure=True)
    for token in yaml.scan(text):
        if isinstance(token, TagToken | AliasToken):
            raise MarkedYAMLError(problem="tags and aliases are not allowed", problem_mark=token.start_mark)
        if yaml.scanner.flow_level > MAX_DEPTH:  # the parser looks at all levels for each word
            raise RecursionError
    node = yaml.compose(text)
    return None if node is None else _check_plain(node, yaml)


def _check_plain(node: Any, yaml: Any) -> Any:
    from ruamel.yaml.error import MarkedYAMLError

    if node.id == "sequence":
        return [_check_plain(item, yaml) for item in node.value]
    if node.id == "scalar":
        text = node.tag.endswith((":timestamp", ":merge", ":value"))
        return node.value if text else yaml.constructor.construct_object(node)
    table: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _check_plain(key_node, yaml)
        if not isinstance(key, str) or key in table:
            problem = f"the key {key!r} {'is given twice' if isinstance(key, str) else 'is not a name'}"
            raise MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        table[key] = _check_plain(value_node, yaml)
    return table
