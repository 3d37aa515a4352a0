"""The page in English and Chinese: every sentence has a translation, and none is left over."""

from __future__ import annotations

import json
import re

from throughtime.files import PAGE

TEXT = r'"(?:[^"\\]|\\.)*"'
SAID = re.compile(rf"\b(?:say|word)\(\s*({TEXT})")
MARKED = re.compile(r'data-(?:say|label)="([^"]*)"')
PAIR = re.compile(rf"^  ({TEXT}|\w+):\s*({TEXT}),$", re.MULTILINE)
GAP = re.compile(r"\{\w+\}")


def _sentences() -> set[str]:
    """Every sentence that the page says, in English."""
    found = set(MARKED.findall((PAGE / "index.html").read_text(encoding="utf-8")))
    for path in sorted(PAGE.glob("*.js")):
        found |= {json.loads(one) for one in SAID.findall(path.read_text(encoding="utf-8"))}
    return found


def _chinese() -> dict[str, str]:
    pairs = PAIR.findall((PAGE / "chinese.js").read_text(encoding="utf-8"))
    return {json.loads(key if key[0] == '"' else f'"{key}"'): json.loads(value) for key, value in pairs}


def test_every_sentence_has_a_chinese_one_and_none_is_left_over():
    said, chinese = _sentences(), _chinese()
    assert sorted(said - set(chinese)) == []
    assert sorted(set(chinese) - said) == []
    assert len(said) > 50


def test_translations_have_the_same_gaps_and_are_chinese():
    for sentence, translation in _chinese().items():
        assert set(GAP.findall(translation)) == set(GAP.findall(sentence)), sentence
        assert re.search(r"[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]", translation), sentence
