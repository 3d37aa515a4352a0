"""The sizes of the package are counted as they should be, and limits only fall."""

from __future__ import annotations

from tools.sizes import count_code_lines, find_problems, lower_limits, measure


def test_comments_blank_lines_and_docstrings_are_no_code() -> None:
    head = '"""A module."""\n\nimport os\n\n\n'
    text = head + 'def first():\n    """Return\n\n    one.\n    """\n    # why\n    return 1\n'
    assert count_code_lines(text) == 3


def test_a_package_is_measured(tmp_path) -> None:
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "kernel.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "cells.py").write_text(
        "def f():\n    return 1\n\n\nasync def g():\n    x = 2\n    return x\n"
    )
    assert measure(tmp_path) == {
        "files": 2,
        "code_lines": 7,
        "code_lines_outside_gpu": 5,
        "lines_of_a_file": 7,
        "code_lines_of_a_function": 3,
    }


def test_a_size_above_its_limit_and_one_far_below_are_problems() -> None:
    limits = {"files": 100, "code_lines": 1000}
    assert find_problems({"files": 101, "code_lines": 991}, limits) == []
    (above,) = find_problems({"files": 102, "code_lines": 1000}, limits)
    assert above.startswith("files: 102, the limit is 100")
    assert "pyproject.toml" in above
    (below,) = find_problems({"files": 100, "code_lines": 900}, limits)
    assert "code_lines: 900" in below
    assert "--lower" in below


def test_limits_are_lowered_and_never_raised() -> None:
    text = "[tool.throughtime.sizes]\nfiles = 100\ncode_lines = 1000\n"
    lowered = lower_limits(text, {"files": 90, "code_lines": 1100}, {"files": 100, "code_lines": 1000})
    assert lowered == "[tool.throughtime.sizes]\nfiles = 90\ncode_lines = 1000\n"
