"""BLEU in the notes' two readings, and sacrebleu's golden figures."""

from __future__ import annotations

import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from throughtime.errors import InputError
from throughtime.metrics.bleu import (
    BleuSums,
    _tokenizer,
    corpus_bleu,
    corpus_chrf,
    corpus_ter,
    ngram_precision,
    notes_bleu,
)

tokens = st.lists(st.sampled_from("ABCD"), min_size=1, max_size=8)


def test_the_notes_example():  # R91, R92
    precisions = [ngram_precision("ABBCD", "ABCDEF", n) for n in (1, 2, 3, 4)]
    assert precisions == pytest.approx([4 / 5, 3 / 4, 1 / 3, 0])
    assert notes_bleu("ABBCD", "ABCDEF", k=3) == pytest.approx(0.5940, abs=5e-5)
    assert notes_bleu("ABBCD", "ABCDEF", k=2) == pytest.approx(0.6815, abs=5e-5)
    assert notes_bleu("ABBCD", "ABCDEF") == notes_bleu("ABBCD", "ABCDEF", k=3)  # the longest match is BCD
    assert notes_bleu("ABBCD", "ABCDEF", k=4) == 0.0


def test_identical_is_one_and_short_is_penalised():  # R93
    assert notes_bleu("ABCDEF", "ABCDEF") == 1.0
    assert notes_bleu("AB", "ABCDEF") == pytest.approx(math.exp(1 - 6 / 2))
    assert notes_bleu("AB", "ABCDEF", k=9) == pytest.approx(0.135, abs=5e-4)  # k is cut to the length, 2


def test_no_match_and_no_prediction_are_zero():  # R91
    assert notes_bleu("XYZ", "ABC") == 0.0
    assert notes_bleu("", "ABC") == 0.0
    assert notes_bleu("A", "") == 0.0


@given(tokens, tokens)
def test_it_is_never_above_one_and_one_only_for_the_label(prediction, label):  # R91
    assert 0.0 <= notes_bleu(prediction, label) <= 1.0
    if len(prediction) == len(label):
        # With k cut at the longest match, other orders of the same pairs can reach 1 too.
        whole = notes_bleu(prediction, label, k=len(prediction))
        assert (whole == 1.0) == (prediction == label)


def test_sacrebleu_with_several_references_gives_100():  # R94
    predictions = ["hello there general kenobi", "foo bar foobar"]
    references = [predictions, ["hello there !", "foo bar foobar"]]
    score = corpus_bleu(predictions, references)
    assert score.value == pytest.approx(100.0)
    assert "nrefs:2" in score.signature
    assert f"version:{sacrebleu.__version__}" in score.signature


def test_corpus_scores_equal_sacrebleu_called_directly():  # R94
    predictions = ["the cat sat on the mat .", "a dog barked at the moon"]
    references = [["the cat is sitting on the mat .", "the dog barked at the moon"]]
    assert corpus_bleu(predictions, references).value == sacrebleu.corpus_bleu(predictions, references).score
    assert corpus_chrf(predictions, references).value == sacrebleu.corpus_chrf(predictions, references).score
    assert corpus_ter(predictions, references).value == sacrebleu.corpus_ter(predictions, references).score
    plus = corpus_chrf(predictions, references, word_order=2)
    assert plus.name == "chrF2++"
    assert plus.value == sacrebleu.corpus_chrf(predictions, references, word_order=2).score


def test_chinese_is_split_into_characters():  # R94
    predictions, references = ["我今天吃了两个苹果。"], [["我昨天吃了两个苹果。"]]
    score = corpus_bleu(predictions, references, language="zh")
    assert "tok:zh" in score.signature
    assert score.value == sacrebleu.corpus_bleu(predictions, references, tokenize="zh").score
    assert score.value > corpus_bleu(predictions, references).value  # 13a sees one word


def test_options_and_lengths_are_checked():
    with pytest.raises(InputError, match="reference set 1 has 1 lines but there are 2 predictions"):
        corpus_bleu(["a", "b"], [["a"]])
    with pytest.raises(InputError, match="--tokenize: is 'klingon'"):
        corpus_bleu(["a"], [["a"]], tokenize="klingon")
    with pytest.raises(InputError, match="no prediction"):
        corpus_bleu([], [[]])
    with pytest.raises(InputError, match="no reference"):
        corpus_chrf(["a"], [])
    with pytest.raises(InputError, match="k: is 0"):
        notes_bleu("A", "A", k=0)


def test_one_text_is_no_list_of_texts():
    with pytest.raises(InputError, match="predictions: is one text; give a list of them"):
        corpus_bleu("b", "a")
    with pytest.raises(InputError, match="references: is one text; give a list of them for each set"):
        corpus_bleu(["b"], "a")
    with pytest.raises(InputError, match="reference set 2: is one text; give a list of them"):
        corpus_chrf(["b"], [["a"], "a"])
    with pytest.raises(InputError, match=r"predictions\[1\]: is of type NoneType, expected a text"):
        corpus_ter(["b", None], [["a", "b"]])
    with pytest.raises(InputError, match="references: is one text; give a list of them"):
        BleuSums.of(["b"], "a")


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        *((code, "zh") for code in ("zh", "zh-Hans", "ZH_tw", "cmn", "zho", "yue-HK")),
        *((code, "char") for code in ("ja", "jpn", "ja-JP", "th", "lo", "km-KH", "my")),
        *((code, "13a") for code in ("en", "fr-CA", "ko", "kor", "zhx", "de", "", None)),
    ],
)
def test_each_language_is_cut_into_words_as_it_is_written(language, tokenizer, monkeypatch):
    monkeypatch.setattr("throughtime.metrics.bleu._installed", lambda *packages: False)
    found = corpus_bleu(["我今天吃了两个苹果。"], [["我今天吃了三个苹果。"]], language=language)
    assert f"tok:{tokenizer}|" in found.signature
    assert (found.value > 0) == (tokenizer != "13a")


@pytest.mark.parametrize(("language", "tokenizer"), [("ja", "ja-mecab"), ("ko-KR", "ko-mecab")])
def test_words_of_japanese_and_korean_where_their_package_is_installed(language, tokenizer, monkeypatch):
    monkeypatch.setattr("throughtime.metrics.bleu._installed", lambda *packages: True)
    assert _tokenizer(language) == tokenizer


def test_case_counts_for_chrf_unless_it_is_not_to():
    same, other = ["The Cat sat"], [["the cat sat"]]
    assert corpus_chrf(same, other).value < 100
    found = corpus_chrf(same, other, lowercase=True)
    assert found.value == pytest.approx(100)
    assert "case:lc" in found.signature
