"""Check the sizes of the package against the limits in pyproject.toml, which only fall; part of `make lint`.

Limits leave room for one small addition; a change that makes the code larger than that has to make something
else smaller. `python -m tools.sizes --lower` writes the sizes of now as limits.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("src/throughtime")
SETTINGS = Path("pyproject.toml")
SLACK = 0.01
"""The share of a limit by which a size may exceed it, and be below it before the limit must be lowered."""


def count_code_lines(text: str) -> int:
    """Count the lines with code: neither blank lines, nor comments, nor docstrings.

    >>> count_code_lines('def f():\\n    "Return one."\\n\\n    # the first number\\n    return 1\\n')
    2
    """
    hidden: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            hidden.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in hidden for number, line in lines)


def function_lengths(text: str) -> Iterator[int]:
    """Yield the number of code lines of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield count_code_lines(ast.unparse(node))


def measure(root: Path = ROOT) -> dict[str, int]:
    """Return the sizes of a package by name."""
    texts = {path.relative_to(root): path.read_text("utf-8") for path in root.rglob("*.py")}
    lines = {path: count_code_lines(text) for path, text in texts.items()}
    return {
        "files": len(texts),
        "code_lines": sum(lines.values()),
        "code_lines_outside_gpu": sum(count for path, count in lines.items() if path.parts[0] != "gpu"),
        "lines_of_a_file": max(len(text.splitlines()) for text in texts.values()),
        "code_lines_of_a_function": max(
            length for text in texts.values() for length in function_lengths(text)
        ),
    }


def read_limits() -> dict[str, int]:
    """Read the limits from pyproject.toml."""
    limits: dict[str, int] = tomllib.loads(SETTINGS.read_text("utf-8"))["tool"]["throughtime"]["sizes"]
    return limits


def find_problems(sizes: dict[str, int], limits: dict[str, int]) -> list[str]:
    """Return a sentence for each size that exceeds its limit, or is so far below it that it must be lowered.

    >>> find_problems({"files": 102}, {"files": 100})
    ['files: 102, the limit is 100 (in pyproject.toml); join or remove something else']
    >>> find_problems({"files": 99}, {"files": 100}), find_problems({"files": 90}, {"files": 100})
    ([], ['files: 90, the limit is 100; lower it with `python -m tools.sizes --lower`'])
    """
    problems = []
    for name, limit in limits.items():
        if sizes[name] > limit * (1 + SLACK):
            advice = "join or remove something else"
            problems.append(f"{name}: {sizes[name]}, the limit is {limit} (in pyproject.toml); {advice}")
        elif sizes[name] < limit * (1 - SLACK):
            advice = "lower it with `python -m tools.sizes --lower`"
            problems.append(f"{name}: {sizes[name]}, the limit is {limit}; {advice}")
    return problems


def lower_limits(text: str, sizes: dict[str, int], limits: dict[str, int]) -> str:
    """Return the text of pyproject.toml with each limit at most as large as its size."""
    for name, limit in limits.items():
        text = re.sub(rf"(?m)^{name} = {limit}$", f"{name} = {min(limit, sizes[name])}", text)
    return text


def main() -> None:
    """Check the sizes, or lower their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lower", action="store_true", help="write the sizes of now as limits")
    sizes, limits = measure(), read_limits()
    if parser.parse_args().lower:
        SETTINGS.write_text(lower_limits(SETTINGS.read_text("utf-8"), sizes, limits), "utf-8")
        limits = read_limits()
    for problem in (problems := find_problems(sizes, limits)):
        print(problem, file=sys.stderr)
    print("sizes:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
