"""What the other tests here rely on: trained models that answer, node, Firefox, and comparisons that see."""

from __future__ import annotations

from tests.browser.answers import differences


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
