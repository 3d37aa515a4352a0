"""A class name stands for one thing, and no function is called by a bare participle."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import throughtime

SOURCES = sorted(Path(throughtime.__file__).parent.rglob("*.py"))
PARTICIPLE = re.compile(
    r"_?([a-z]*[^e]ed|made|told|given|taken|drawn|held|kept|left|lost|sent|said|shown|seen|known|written|meant|begun|"
    r"chosen|built|done|found|gone|hidden|laid_out)"
)


@cache
def nodes() -> list[ast.AST]:
    return [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text("utf-8")))]


def test_no_two_classes_have_the_same_name() -> None:
    counts = Counter(node.name for node in nodes() if isinstance(node, ast.ClassDef))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_function_is_called_by_a_bare_participle() -> None:
    functions = (node for node in nodes() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    plain = {
        node.name
        for node in functions
        if not any("property" in ast.unparse(one) for one in node.decorator_list)
    }
    assert sorted(name for name in plain if PARTICIPLE.fullmatch(name) and name != "embed") == []
