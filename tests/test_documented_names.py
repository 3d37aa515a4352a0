"""Every Python name that README.md, the pages of docs/ and the docstrings give is there."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

IMPORTED = re.compile(r"from (throughtime[\w.]*) import (\([^)]*\)|[\w ,]+)")
DOTTED = re.compile(r"(?<![\w/@.-])(?:tt|throughtime)((?:\.[A-Za-z_]\w*)+)")
LISTED = re.compile(r"((?:`\w+`(?:,\s+|\s+and\s+)?)+)\s+in\s+`(throughtime[\w.]*)`")
REGISTRY = re.compile(r'Registry\[.+?\]\(\s*"[^"]+",\s*"(throughtime\.\w+)"')
GROUPS = {
    group
    for path in (ROOT / "src").rglob("*.py")
    for group in REGISTRY.findall(path.read_text(encoding="utf-8"))
}
"""Of entry points: names that are no modules."""
FILES = ("md", "yaml", "toml", "json", "onnx", "html", "py")


def names(text: str) -> Iterator[str]:
    """The full name of everything of this package that a text imports, calls, or says where to find."""
    for module, imported in IMPORTED.findall(text):
        for name in re.findall(r"\w+(?: as \w+)?", re.sub(r"#.*", "", imported)):
            yield f"{module}.{name.split()[0]}"
    for dotted in DOTTED.findall(text):
        if dotted.rpartition(".")[2] not in FILES:
            yield f"throughtime{dotted}"
    for listed, module in LISTED.findall(text):
        for name in re.findall(r"`(\w+)`", listed):
            yield f"{module}.{name}"


def resolved(name: str) -> Any:
    """The object of a name, through modules and what they hold."""
    found, path = importlib.import_module("throughtime"), "throughtime"
    for part in name.split(".")[1:]:
        path += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found


def missing(text: str) -> list[str]:
    absent = []
    for name in dict.fromkeys(names(text)):
        if name in GROUPS:
            continue
        try:
            resolved(name)
        except (AttributeError, ImportError):
            absent.append(name)
    return absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_names_of_a_page_are_there(page):
    assert missing(page.read_text(encoding="utf-8")) == []


def test_the_names_of_docstrings_are_there():
    absent = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        told = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        if lacking := missing("\n".join(told)):
            absent[str(path)] = lacking
    assert absent == {}
