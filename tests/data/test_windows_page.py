"""The examples of windows in docs/forecasting.md give what is printed there."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/forecasting.md"


def test_the_windows_of_the_page() -> None:  # R1
    pytest.importorskip("torch")
    section = PAGE.read_text(encoding="utf-8").partition("## Windows")[2].partition("## Models")[0]
    code = section.partition("```pycon\n")[2].partition("```")[0]
    examples = doctest.DocTestParser().get_doctest(code, {}, "windows", str(PAGE), 0)
    assert len(examples.examples) >= 6
    found = doctest.DocTestRunner().run(examples)
    assert found.failed == 0
