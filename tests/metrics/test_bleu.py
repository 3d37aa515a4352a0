"""BLEU in the notes' two readings, and sacrebleu's golden figures."""

from __future__ import annotations

import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.metrics.bleu import BleuSums, corpus_bleu, corpus_chrf, corpus_ter
from throughtime.metrics.sentence_bleu import ngram_precision, notes_bleu, notes_bleu_steps

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


def test_the_steps_of_the_notes_example():  # R91, R92, R94
    steps = notes_bleu_steps("ABBCD", "ABCDEF")
    assert [(one.n, one.matches, one.total) for one in steps.ngrams] == [
        (1, 4, 5),
        (2, 3, 4),
        (3, 1, 3),
        (4, 0, 2),
    ]
    assert [one.exponent for one in steps.ngrams] == [1 / 2, 1 / 4, 1 / 8, 1 / 16]
    assert steps.k == 3
    assert steps.brevity_penalty == pytest.approx(math.exp(1 - 6 / 5))
    assert steps.value == pytest.approx(math.exp(-0.2) * 0.8**0.5 * 0.75**0.25 * (1 / 3) ** 0.125)
    given_k = notes_bleu_steps("ABBCD", "ABCDEF", k=2)
    assert (given_k.k, len(given_k.ngrams)) == (2, 2)
    assert notes_bleu_steps("", "ABC").brevity_penalty == 0.0


@given(tokens, tokens)
def test_it_is_never_above_one_and_one_only_for_the_label(prediction, label):  # R91
    assert 0.0 <= notes_bleu(prediction, label) <= 1.0
    if len(prediction) == len(label):
        # With k cut at the longest match, other orders of the same pairs can reach 1 too.
        whole = notes_bleu(prediction, label, k=len(prediction))
        assert (whole == 1.0) == (prediction == label)


def per_set(references):
    """References per sentence as sacrebleu takes them: per set, None where a sentence has fewer."""
    rows = [[row] if isinstance(row, str) else row for row in references]
    longest = max(len(row) for row in rows)
    return [[row[number] if number < len(row) else None for row in rows] for number in range(longest)]


def test_the_notes_call_gives_100():  # R94
    predictions = ["hello there general kenobi", "foo bar foobar"]
    references = [["hello there general kenobi", "hello there !"], ["foo bar foobar", "foo bar foobar"]]
    score = corpus_bleu(predictions, references)
    assert score.value == pytest.approx(100.0)
    assert "nrefs:2" in score.signature
    assert f"version:{sacrebleu.__version__}" in score.signature


TWO = ["the cat sat on the mat", "there is a dog in the old house"]
TWO_BY_TWO = [
    ["the cat is on the mat", "a cat sat on a mat today"],
    ["there was a dog in the house", "a dog is in the old house"],
]
RAGGED = [["the cat is on the mat", "a cat sat on a mat today", "cats sit"], "a dog is in the old house"]


@pytest.mark.parametrize("references", [TWO_BY_TWO, RAGGED, [row[0] for row in TWO_BY_TWO]])
def test_corpus_scores_equal_sacrebleu_called_directly(references):  # R94
    sets = per_set(references)
    bleu, expected = corpus_bleu(TWO, references), sacrebleu.corpus_bleu(TWO, sets)
    assert bleu.value == expected.score
    assert bleu.precisions == tuple(expected.precisions)
    assert bleu.brevity_penalty == expected.bp
    assert (bleu.prediction_length, bleu.reference_length) == (expected.sys_len, expected.ref_len)
    assert corpus_chrf(TWO, references).value == sacrebleu.corpus_chrf(TWO, sets).score
    assert corpus_ter(TWO, references).value == sacrebleu.corpus_ter(TWO, sets).score
    plus = corpus_chrf(TWO, references, word_order=2)
    assert plus.name == "chrF2++"
    assert plus.value == sacrebleu.corpus_chrf(TWO, sets, word_order=2).score


def test_references_belong_to_sentences_and_not_to_sets():  # R94
    transposed = [list(column) for column in zip(*TWO_BY_TWO, strict=True)]
    assert corpus_bleu(TWO, TWO_BY_TWO).value == pytest.approx(59.46, abs=0.005)
    assert corpus_bleu(TWO, transposed).value == pytest.approx(37.00, abs=0.005)
    assert "nrefs:var|" in corpus_bleu(TWO, RAGGED).signature


def test_the_result_tells_what_it_is_made_of():  # R94
    score = corpus_bleu(["the cat"], [["the cat sat on the mat"]])
    assert "precisions 100.0/100.0/0.0/0.0, brevity penalty 0.135 (2 tokens for 6)" in str(score)
    for part in ("value=", "precisions=(100.0, 100.0, ", "brevity_penalty=0.135", "signature='nrefs:1|"):
        assert part in repr(score)


def test_one_text_is_one_reference():  # R94
    assert corpus_bleu(TWO, ["the cat sat", "a dog"]) == corpus_bleu(TWO, [["the cat sat"], ["a dog"]])


def test_chinese_is_split_into_characters():  # R94
    predictions, references = ["我今天吃了两个苹果。"], [["我昨天吃了两个苹果。"]]
    score = corpus_bleu(predictions, references, language="zh")
    assert "tok:zh" in score.signature
    assert score.value == sacrebleu.corpus_bleu(predictions, references, tokenize="zh").score
    assert score.value > corpus_bleu(predictions, references, tokenize="13a").value  # 13a sees one word


def test_options_and_counts_are_checked():
    with refuses("references", "1", "predictions", "2"):
        corpus_bleu(["a", "b"], [["a"]])
    with refuses("references", "3", "predictions", "1"):
        corpus_chrf(["a"], ["a", "b", "c"])
    with refuses("references[1]"):
        corpus_bleu(["a", "b"], [["a"], []])
    with refuses("tokenize", "'klingon'"):
        corpus_bleu(["a"], [["a"]], tokenize="klingon")
    with refuses("prediction"):
        corpus_bleu([], [[]])
    with refuses("references", "0", "predictions", "1"):
        corpus_chrf(["a"], [])
    with refuses("k", "0"):
        notes_bleu("A", "A", k=0)


def test_a_tokenizer_without_its_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with refuses("tokenize", "'ja-mecab'", "[ja]"):
        corpus_bleu(["a"], ["a"], tokenize="ja-mecab")


def test_one_text_is_no_list_of_texts():
    with refuses("predictions"):
        corpus_bleu("b", "a")
    with refuses("references"):
        corpus_bleu(["b"], "a")
    with refuses("references[0][1]", "int"):
        corpus_chrf(["b"], [["a", 7]])
    with refuses("predictions[1]", "NoneType"):
        corpus_ter(["b", None], [["a"], ["b"]])
    with refuses("references"):
        BleuSums.of(["b"], "a")


def test_case_counts_for_chrf_unless_it_is_not_to():
    same, other = ["The Cat sat"], [["the cat sat"]]
    assert corpus_chrf(same, other).value < 100
    found = corpus_chrf(same, other, lowercase=True)
    assert found.value == pytest.approx(100)
    assert "case:lc" in found.signature
