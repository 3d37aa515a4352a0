"""Which tokenizer BLEU takes: by the language's code or name, or by the script of the references."""

from __future__ import annotations

import pytest
import sacrebleu

from throughtime.metrics.bleu import BleuSums, choose_tokenizer, corpus_bleu

ENGLISH = ["I ate two apples."]
CHINESE = ["我今天吃了两个苹果。", "OK!"]
JAPANESE = ["私は今日りんごを二つ食べました。"]
KOREAN = ["나는 오늘 사과 두 개를 먹었다."]
THAI = ["วันนี้ฉันกินแอปเปิ้ลสองลูก"]


@pytest.fixture(autouse=True)
def no_mecab(monkeypatch):
    monkeypatch.setattr("throughtime.metrics.bleu._are_installed", lambda *packages: False)


@pytest.mark.parametrize(
    ("tokenizer", "languages"),
    [
        (
            "zh",
            "zh zh-Hans ZH_tw cmn zho chi yue-HK zh-CN zh_Hans zho_Hant cmn-Hans-CN Mandarin chinese",
        ),
        ("zh", "中文 汉语 普通话 中文（简体） chinese_simplified traditional-chinese"),
        ("char", "ja jpn ja-JP jpn_Jpan japanese 日本語 ko kor ko_KR korean 한국어 th lo km-KH my Thai"),
        ("13a", "en fr-CA zhx de english mandarine my_text thin korea target lower"),
    ],
)
def test_codes_and_names_of_languages(tokenizer, languages):  # R94, R104
    for language in languages.split():
        assert choose_tokenizer(language, ENGLISH) == tokenizer, language
    assert choose_tokenizer(None, ENGLISH) == choose_tokenizer("", []) == "13a"


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (CHINESE, "zh"),
        (JAPANESE, "char"),
        (KOREAN, "char"),
        (THAI, "char"),
        (ENGLISH, "13a"),
        (["Das Zeichen 雨 heißt Regen.", "2024!"], "13a"),
        (["ﾘﾝｺﾞを食べた", "カレー"], "char"),
        (["2024 !"], "13a"),
    ],
)
def test_the_script_decides_where_the_language_is_not_recognised(references, tokenizer):  # R94, R104
    for language in (None, "target", "column_b", "en"):
        assert choose_tokenizer(language, references) == tokenizer
    assert f"|tok:{tokenizer}|" in corpus_bleu(references, references).signature


def test_kana_and_hangul_have_words_where_the_packages_are_installed(monkeypatch):
    monkeypatch.setattr("throughtime.metrics.bleu._are_installed", lambda *packages: True)
    assert choose_tokenizer("ja") == choose_tokenizer(None, JAPANESE) == "ja-mecab"
    assert choose_tokenizer("ko-KR") == choose_tokenizer(None, KOREAN) == "ko-mecab"
    assert choose_tokenizer(None, CHINESE) == "zh"


def test_a_column_named_mandarin_is_judged_as_sacrebleu_judges_chinese():  # R94, R104
    predictions, references = ["我今天吃了两个苹果。"], ["我昨天吃了两个苹果。"]
    found = corpus_bleu(predictions, references, language="mandarin")
    assert found.value == sacrebleu.corpus_bleu(predictions, [references], tokenize="zh").score > 0


@pytest.mark.parametrize("first", ["OK", "Yes, OK"])
def test_the_script_is_that_of_the_references_of_all_sets(first):  # R94, R104
    references = [[first, "我今天吃了两个苹果。"], [first, "我昨天吃了三个梨。", "OK"]]
    predictions = ["我今天吃了一个苹果。", "我昨天吃了两个梨。"]
    found = corpus_bleu(predictions, references)
    assert "|tok:zh|" in found.signature
    assert BleuSums.of(predictions, references).bleu == pytest.approx(found.value)
    assert found.value > corpus_bleu(predictions, references, tokenize="13a").value
    chinese_first = [["我吃了。", "I ate two apples today."], ["你好。", "Good morning to all of you."]]
    assert "|tok:13a|" in corpus_bleu(predictions, chinese_first).signature
