"""What docs/translation.md shows of searches is what they give."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/translation.md"


def test_costs_are_shown_as_they_are():  # R96
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.failed == 0
    assert found.attempted >= 5
    shown = PAGE.read_text(encoding="utf-8")
    assert "|Y|^T              1.0e+40" in shown
    assert "candidates(model" in shown
