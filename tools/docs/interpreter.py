"""One Python session for each page: names defined in a block are available in the next.

`Session` is used by the runner; run as a program, this file is the session itself: it reads one JSON object
per line (`source`, `language`, `compared`) and answers with one (`error`, null if there is none).
"""

from __future__ import annotations

import ast
import doctest
import io
import json
import os
import re
import select
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

_VALUE = re.compile(r"#\s*(-?\d+(?:\.\d+)?|'[^']*'|True|False|None)\s*$")


class Session:
    """A Python process in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._python = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, source: str, language: str, compared: bool, limit: float) -> str | None:
        """Run a block; what is wrong, if something is."""
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        request = {"source": source, "language": language, "compared": compared}
        try:
            self._python.stdin.write(json.dumps(request) + "\n")
            self._python.stdin.flush()
        except BrokenPipeError:
            return "the Python session has ended"
        ready, _, _ = select.select([self._python.stdout], [], [], limit)
        if not ready:
            self._python.kill()
            return f"not done after {limit:.0f} s"
        answer = self._python.stdout.readline()
        error = json.loads(answer)["error"] if answer else "the Python session has ended"
        return None if error is None else str(error)

    def close(self) -> None:
        """End the session."""
        self._python.kill()
        self._python.communicate()


def run_python(source: str, names: dict[str, Any], compared: bool) -> str | None:
    """Run statements; if the comment after an expression is a value, the expression must have this value."""
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        shown = _VALUE.search(lines[(statement.end_lineno or 1) - 1])
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "<page>", "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), "<page>", "eval"), names)
        if compared and shown and not _shown_as(value, shown[1]):
            return f"`{ast.unparse(statement)}` is shown as {shown[1]} and is {value!r}"
    return None


def _shown_as(value: object, shown: str) -> bool:
    literal = ast.literal_eval(shown)
    if isinstance(literal, float) and isinstance(value, float):
        return f"{value:.{len(shown.split('.')[1])}f}" == shown
    return bool(value == literal)


class _Lenient(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Accept any output, as the model was trained for seconds only."""
        return True


def run_examples(source: str, names: dict[str, Any], compared: bool) -> str | None:
    """Run `>>>` examples, which go on with the names of those before."""
    test = doctest.DocTestParser().get_doctest(source + "\n", {}, "page", None, 0)
    test.globs = names
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(None if compared else _Lenient(), verbose=False, optionflags=flags)
    told = io.StringIO()
    runner.run(test, out=told.write, clear_globs=False)
    return told.getvalue() if runner.failures else None


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        asked = json.loads(line)
        run = run_examples if asked["language"] == "pycon" else run_python
        error: str | None
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                error = run(asked["source"], names, asked["compared"])
        except Exception:
            error = traceback.format_exc()
        answers.write(json.dumps({"error": error}) + "\n")
        answers.flush()


if __name__ == "__main__":
    # The page's folder takes the place of this file's on the path, as for a reader who starts python there.
    sys.path[0] = ""
    _serve()
