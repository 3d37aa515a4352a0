"""Errors belong to the layer that raises them: the library names parameters, not options."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import throughtime
from throughtime.cli.evaluate import evaluate
from throughtime.cli.output import name_options
from throughtime.cli.train import train_app
from throughtime.errors import InputError

ROOT = Path(throughtime.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
MARKUP = re.compile(r"\[/?(?:bold|dim|italic|red|green|yellow|blue|cyan|magenta)\b[^\]]*\]")
FILES = sorted(path for path in ROOT.rglob("*.py") if "cli" not in path.relative_to(ROOT).parts)
COMMAND = re.compile(r"`throughtime [^`]*`")
"""A whole command, which an error may quote."""


def strings(node):
    """All text inside a node; what an f-string puts in is left out."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(one.value) for one in node.values if isinstance(one, ast.Constant))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.JoinedStr) or not isinstance(child, ast.Constant):
            yield from strings(child)


def calls_of_errors(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith("Error") or name in ("unknown", "refuse_options"):
                yield node


def options_in_errors(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = [COMMAND.sub("", text) for call in calls_of_errors(tree) for text in strings(call)]
    return [text for text in texts if OPTION.search(text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_error_of_the_library_names_an_option(path):
    assert not options_in_errors(path)


def test_no_markup_of_the_terminal_outside_the_command_line():
    found = [
        (str(path.relative_to(ROOT)), text)
        for path in FILES
        for text in strings(ast.parse(path.read_text(encoding="utf-8")))
        if MARKUP.search(text)
    ]
    assert not found


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("lr", "--lr"),
        ("hidden_size", "--hidden-size"),
        ("clip", "--set clip"),
        ("set", "--set"),
        ("out", "--out"),
        ("settings", "settings"),
        ("pairs.tsv", "pairs.tsv"),
    ],
)
def test_train_names_options_and_settings(where, expected):
    (command,) = [one.callback for one in train_app.registered_commands if one.name == "translate"]
    error = name_options(InputError(where, "is wrong, unlike num_layers"), command)
    assert str(error) == f"{expected}: is wrong, unlike num_layers"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("others", "--with"),
        ("measures", "--measure"),
        ("num_beams", "--num-beams"),
        ("run", "run"),
        ("clip", "clip"),
    ],
)
def test_a_parameter_is_called_by_its_option(where, expected):
    assert str(name_options(InputError(where, "is wrong", line=3), evaluate)) == f"{expected}:3: is wrong"
