"""Names say what a thing is: a class name stands for one thing, and a function is called by a verb."""

import ast
from collections import Counter
from pathlib import Path

import throughtime

SOURCES = sorted(Path(throughtime.__file__).parent.rglob("*.py"))


def test_no_two_classes_have_the_same_name() -> None:
    nodes = (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, count in counts.items() if count > 1] == []
