"""What the other tests here rely on: trained models that answer, node, Firefox, and comparisons that see."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser.answers import differences

ROOT = Path(__file__).parents[2]


def test_the_tiny_models_have_learned_something(runs):
    import throughtime as tt

    assert tt.load(runs["translate"]).translate("three one four")[0].text == "trois un quatre"
    assert tt.load(runs["classify"]).classify("four one")[0].label == "even"
    assert len(runs) == 8


def test_plain_pytest_leaves_this_folder_out():
    others = [
        path for path in (ROOT / "tests").iterdir() if path.name not in {"browser", "metrics", "conftest.py"}
    ]
    left_out = [f"--ignore={path}" for path in others]
    words = [sys.executable, "-m", "pytest", "tests", "--collect-only", "--quiet", *left_out]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert "tests/metrics/test_" in ran.stdout
    assert "tests/browser" not in ran.stdout


def test_node_gives_back_what_it_is_given(node):
    given = {"text": "猫 \ud800 é", "numbers": [1, 2.5], "nothing": None}
    assert node("answer(data)", given) == given
    odd = node("answer([NaN, -Infinity, new Float32Array([1, Infinity]), 'NaN'])")
    assert math.isnan(odd[0])
    assert odd[1:] == [-math.inf, [1, math.inf], "NaN"]
    assert node('import { percent } from "page/dom.js"; answer(percent(0.5))') == "50\u00a0%"
    with pytest.raises(AssertionError, match="not so"):
        node("throw new Error('not so')")


def test_firefox_visits_pages_and_hears_complaints(firefox, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<input id=box><script>console.error('bad'); box.oninput = () => undefinedName()</script>"
    )
    look = "(one) => [document.getElementById('box').value, one, innerWidth, " + (
        "matchMedia('(prefers-color-scheme: dark)').matches, navigator.language]"
    )
    steps = [{"wait": "#box"}, {"type": "#box", "text": "ab"}, {"run": look, "given": 7}]
    (found,) = firefox({"address": page, "width": 500, "steps": steps}, dark=True, language="zh-CN")
    assert found["results"] == [None, None, ["ab", 7, 500, True, "zh-CN"]]
    assert found["complaints"][0] == "bad"
    assert "undefinedName" in found["complaints"][1]


def test_differences_are_told():
    expected = {"text": "a", "score": [1.0, -250.0], "id": 3}
    assert differences({"text": "a", "score": [1.0005, -250.1]}, expected, absent=("id",)) == []
    assert differences({"text": "b", "score": [1.01, -250], "id": 3, "more": 1}, expected) == [
        "answer has 'more' too",
        "answer.text is 'b' instead of 'a'",
        "answer.score[0] is 1.01 instead of 1.0",
    ]
    assert differences({"text": "a", "score": [1.0]}, expected) == [
        "answer lacks 'id'",
        "answer.score has 1 entries instead of 2",
    ]
    assert differences(True, 1) == []
    assert differences(None, 0) == ["answer is None instead of 0"]
