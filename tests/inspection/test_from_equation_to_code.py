"""The page docs/from-equation-to-code.md is held to the source and to torch."""

from __future__ import annotations

import doctest
import re
import textwrap
from pathlib import Path

import pytest

from throughtime.cells import CELLS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/from-equation-to-code.md"
TEXT = PAGE.read_text(encoding="utf-8")
QUOTES = re.findall(r"<!-- source: (\S+) -->\n```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize(("path", "quoted"), QUOTES, ids=[path for path, _ in QUOTES])
def test_quoted_code_is_the_source(path: str, quoted: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    assert textwrap.indent(quoted, "    ") in source


def test_every_python_block_names_its_source_and_each_cell_is_quoted() -> None:
    assert TEXT.count("```python") == len(QUOTES)
    files = {Path(path).stem for path, _ in QUOTES}
    assert files == {"base", "elman", "gru", "lstm", "minimal"}


def test_the_examples_give_the_same_numbers_as_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # R35, R38, R55, R57
    monkeypatch.chdir(tmp_path)  # the examples save models
    monkeypatch.setattr(CELLS, "_added", {})
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted >= 20
    assert found.failed == 0


def test_hidden_layer_and_hidden_state_are_told_apart() -> None:
    # R48
    assert "**Hidden layer and hidden state** are two things" in TEXT
