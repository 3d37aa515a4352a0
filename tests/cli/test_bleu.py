"""`throughtime bleu`: files against files, the notes' steps, sacrebleu's figures, refusals by name."""

from __future__ import annotations

import math

import pytest
import sacrebleu

HYPOTHESES = ["a cat sat on the mat", "there is a dog in the old house", ""]
FIRST = ["the cat is on the mat", "there was a dog in the house", "nothing was said"]
SECOND = ["a cat sat on a mat today", "", ""]


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        paths = []
        for name, lines in texts.items():
            paths.append(tmp_path / f"{name}.txt")
            paths[-1].write_text("".join(f"{line}\n" for line in lines))
        return paths

    return write


def test_several_reference_files_with_gaps_as_sacrebleu_has_them(files, throughtime):  # R94
    paths = files(hyp=HYPOTHESES, first=FIRST, second=SECOND)
    values = throughtime("bleu", *paths, "--json").json
    sets = [FIRST, [line or None for line in SECOND]]
    expected = sacrebleu.corpus_bleu(HYPOTHESES, sets)
    assert values["bleu"] == expected.score
    assert values["bleu_precisions"] == expected.precisions
    assert values["brevity_penalty"] == expected.bp < 1
    assert (values["hypothesis_tokens"], values["reference_tokens"]) == (expected.sys_len, expected.ref_len)
    assert values["chrf"] == sacrebleu.corpus_chrf(HYPOTHESES, sets).score
    assert "nrefs:var" in values["bleu_signature"]
    assert values["sentences"] == 3
    assert values["notes"]["sentence"]["reference_file"] == str(paths[2])  # the nearer of two references
    assert values["notes"]["brevity_penalty"] == pytest.approx((math.exp(1 - 7 / 6) + 1 + 0) / 3)


def test_the_notes_example_step_by_step(files, throughtime):  # R91, R92, R94
    paths = files(hyp=["x", "A B B C D"], ref=["y", "A B C D E F"])
    found = throughtime("bleu", *paths, "--sentence", 2, "--json").json["notes"]
    detail = found["sentence"]
    assert [(one["matches"], one["total"]) for one in detail["ngrams"]] == [(4, 5), (3, 4), (1, 3), (0, 2)]
    assert [one["exponent"] for one in detail["ngrams"]] == [0.5, 0.25, 0.125, 0.0625]
    assert [one["counted"] for one in detail["ngrams"]] == [True, True, True, False]
    assert detail["bleu"] == pytest.approx(0.5940, abs=5e-5)
    assert found["bleu"] == detail["bleu"] / 2  # nothing of the other sentence matches
    assert found["precisions"] == pytest.approx([0.4, 0.75, 1 / 3, 0])
    shown = throughtime("bleu", *paths, "--sentence", 2).out
    for part in ("4 of 5", "3 of 4", "1 of 3", "1/8", "exp(min(0, 1 - 6/5)) = 0.8187", "= 0.5940", "tok:13a"):
        assert part in shown
    assert "nothing matches" in throughtime("bleu", *paths).out
    shorter = throughtime("bleu", *paths, "--sentence", 2, "--k", 2, "--json").json["notes"]["sentence"]
    assert shorter["bleu"] == pytest.approx(0.6815, abs=5e-5)


def test_chinese_is_recognised(files, throughtime):  # R94
    paths = files(hyp=["我今天吃了两个苹果。"], ref=["我昨天吃了两个苹果。"])
    values = throughtime("bleu", *paths, "--json").json
    assert values["tokenizer"] == "zh"
    assert "tok:zh" in values["bleu_signature"]
    assert values["notes"]["sentence"]["hypothesis"] == list("我今天吃了两个苹果。")
    assert throughtime("bleu", *paths, "--tokenize", "none", "--json").json["bleu"] == 0
    latin = files(hyp=["OK"], ref=["OK"])
    assert throughtime("bleu", *latin, "--language", "mandarin", "--json").json["tokenizer"] == "zh"


def test_case_can_be_disregarded(files, throughtime):
    paths = files(hyp=["The CAT sat there"], ref=["the cat sat there"])
    assert throughtime("bleu", *paths, "--json").json["notes"]["bleu"] < 1
    values = throughtime("bleu", *paths, "--lowercase", "--json").json
    assert (values["bleu"], values["notes"]["bleu"]) == (pytest.approx(100), 1)


def test_faults_are_named(files, throughtime):
    hyp, first, short, gap = files(hyp=HYPOTHESES, first=FIRST, short=FIRST[:1], gap=SECOND)
    for words, parts in [
        ((hyp, first, short), (f"{short}: has 1 line but {hyp} has 3",)),
        ((hyp, gap), (f"{gap}:2: is empty",)),
        ((hyp, first.with_name("nowhere.txt")), ("nowhere.txt",)),
        ((hyp, first, "--sentence", 4), ("--sentence", "is 4", f"{hyp} has 3 lines")),
        ((hyp, first, "--tokenize", "klingon"), ("klingon",)),
    ]:
        ran = throughtime("bleu", *words)
        assert (ran.code, ran.out) == (2, "")
        assert all(part in ran.err for part in parts), ran.err
