"""`train translate`, `translate`, `evaluate`, `compare` and `score --pairs` as a person types them."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.refusals import lacks

import throughtime as tt
from throughtime.cli.inputs import one_line
from throughtime.cli.main import main
from throughtime.cli.translate import print_translations, split_words
from throughtime.results import Translation
from throughtime.search.strategies import STRATEGIES, strategy_options

NUMBERS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq"}
SMALL = ["tokens=space", "embedding_size=24", "hidden_size=32", "batch_size=16", "lr=0.01", "device=cpu"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    dice = random.Random(3)
    rows = {tuple(dice.choices(list(NUMBERS), k=dice.randint(2, 4))): None for _ in range(500)}
    path = tmp_path_factory.mktemp("pairs") / "numbers.tsv"
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(map(NUMBERS.get, row))}\n" for row in rows))
    return path


def words(pairs, out, *settings):
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    direction = ["--source", "en", "--target", "fr"]
    return ["train", "translate", "--data", str(pairs), *direction, "--out", str(out), *chosen]


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "numbers"
    settings = ["epochs=16", "choose_by=perplexity", "output_dropout=0.1", "embedding_dropout=0"]
    assert main(words(pairs, out, *settings)) == 0
    return out


@pytest.fixture(scope="module")
def counted(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    (folder / "numbers.txt").write_text(pairs.read_text().replace("\t", " "))
    assert main(["train", "ngram", "--data", str(folder / "numbers.txt"), "--out", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture
def untrained(pairs, tmp_path, throughtime):
    out = tmp_path / "untrained"
    assert throughtime(*words(pairs, out, "epochs=1", "lr=1e-9", "valid_sentences=1")).code == 0
    return out


def test_pairs_that_are_all_skipped_are_told_with_the_first_reason(tmp_path, throughtime):
    data = tmp_path / "pairs.tsv"
    data.write_text("one\ntwo\nthree\n")
    ran = throughtime("train", "translate", "--data", data, "--skip-bad", "--out", tmp_path / "run")
    assert (ran.code, (tmp_path / "run").exists()) == (2, False)
    assert not lacks(ran.err, "all 3", "skipped", f"{data}:1", "1 column")


def test_training_is_told_with_sample_translations(pairs, tmp_path, throughtime):
    out = tmp_path / "run"
    ran = throughtime(*words(pairs, out, "epochs=2"), "--json")
    assert ran.code == 0, ran.err
    assert ran.json["best"].keys() == {"bleu", "perplexity", "loss"}
    assert ran.err.count(" → ") == 6  # three sentences, two epochs
    assert "en to fr" in (out / "README.md").read_text()
    assert (out / "source" / "vocabulary.txt").exists()
    again = throughtime(*words(pairs, out, "epochs=2"), "--resume")
    assert "nothing to do" in again.out
    assert throughtime(*words(pairs, out)).code == 2
    averaged = throughtime("average", out, "--last", 2, "--out", tmp_path / "mean")
    assert averaged.code == 0, averaged.err
    assert throughtime("translate", tmp_path / "mean", "one").code == 0


def test_evaluate_gives_scores_with_their_signatures(run, throughtime):
    ran = throughtime("evaluate", run, "--split", "test", "--json").json
    assert ran["bleu"] > 50
    assert ran["chrf"] > 50
    assert "tok:13a" in ran["bleu_signature"]
    assert "nc:6" in ran["chrf_signature"]
    assert 1 <= ran["perplexity"] < 3
    assert "|source:en|target:fr|" in ran["signature"]
    shown = throughtime("evaluate", run, "--num-beams", 1, "--tokenize", "none", "--lowercase").out
    assert "tok:none" in shown
    assert shown.count("case:lc") == 2  # of BLEU and of chrF
    assert "|beams:1|" in shown.replace("\n", "")
    refused = throughtime("evaluate", run, "--dynamic", 0.1)
    assert refused.code == 2
    assert "--dynamic" in refused.err


def test_every_strategy_translates(run, throughtime):
    for name in STRATEGIES:
        if name != "exhaustive":
            assert throughtime("translate", run, "one two", "--search", name).code == 0, name
    exact = throughtime("translate", run, "one two", "--search", "exact", "--json").json["translations"][0]
    beam = throughtime("translate", run, "one two", "--length-penalty", 0, "--json").json["translations"][0]
    assert exact["text"] == beam["text"]
    assert exact["alignment"]["target"] == beam["alignment"]["target"]
    for own, other in zip(exact["alignment"]["weights"], beam["alignment"]["weights"], strict=True):
        assert own == pytest.approx(other, abs=1e-5)
    short = throughtime("translate", run, "one two", "--search", "exact", "--search-option", "budget=1")
    assert (short.code, "budget" in short.err) == (0, True), short.err


def test_several_translations_are_numbered_lines(run, throughtime):
    words = ("--num-return-sequences", 3, "--search", "diverse")
    lines = throughtime("translate", run, "one two", *words).out.splitlines()
    texts = [line.split(" ||| ")[1] for line in lines]
    assert texts[0] == "un deux"
    assert len({*texts}) == len(texts) == 3


def test_options_of_a_search_are_those_that_it_declares(run, throughtime):
    words = ("translate", run, "one two", "--search")
    assert throughtime(*words, "beam", "--search-option", "eager=true").out == "un deux\n"
    for wrong, *facts in [
        (("beam", "--groups", 2), "--groups:", "beam"),
        (("beam", "--search-option", "eager=perhaps"), "--search-option eager:", "'perhaps'"),
        (("beam", "--search-option", "eager"), "--search-option:", "'eager'"),
        (("beam", "--num-beams", 2, "--search-option", "num-beams=3"), "--search-option:", "num_beams"),
        (("beem",), "'beem'", "'beam'"),
    ]:
        ran = throughtime(*words, *wrong)
        assert ran.code == 2
        assert not lacks(ran.err, "error:", *facts)


FLAGS = {"num_beams", "length_penalty", "num_return_sequences", "limit", "groups", "diversity_penalty"}
FLAGS |= {"temperature", "top_k", "top_p", "seed"}


@pytest.mark.parametrize("command", ["translate", "generate", "compose"])
def test_the_help_lists_every_strategy(command, throughtime):
    shown = " ".join(throughtime(command, "--help").out.replace("│", " ").split())
    assert f"{', '.join([*STRATEGIES][:-1])} or {[*STRATEGIES][-1]}." in shown
    declared = {option for name in STRATEGIES.own for option in strategy_options(name)}
    listed = {option for option in declared if f"--{option.replace('_', '-')} " in shown}
    assert listed == FLAGS
    assert "--search-option " in shown  # which takes all others


def test_a_wish_without_a_word_is_refused(run, throughtime):
    words = [*itertools.product(("--require", "--forbid"), ("", " ")), ("--prefix", "  ")]
    for option, word in words:
        ran = throughtime("translate", run, "one two", option, word)
        assert (ran.code, ran.out) == (2, "")
        assert f"{option}: " in ran.err


def test_a_shortlist_is_asked_for_and_switched_off(run, tmp_path, throughtime):  # R114
    ran = throughtime("translate", run, "one two", "--shortlist", "3")
    assert ran.code == 2
    assert not lacks(ran.err, "--shortlist:", 3)
    model = tt.load(run, device="cpu")
    model.build_shortlist()
    model.save(tmp_path / "run")
    for count in ("0", "3"):
        ran = throughtime("translate", tmp_path / "run", "one two", "--shortlist", count)
        assert ran.out == "un deux\n"
    ran = throughtime("evaluate", tmp_path / "run", "--split", "valid", "--shortlist", "4", "--json")
    assert "|shortlist:4|" in ran.json["signature"]
    assert throughtime("compare", tmp_path / "run", run, "--split", "valid", "--shortlist", "0").code == 0
    ran = throughtime("translate", tmp_path / "run", "one two", "--shortlist", "101")
    assert ran.code == 2
    assert not lacks(ran.err, "--shortlist:", 101)


def test_parts_of_words_leave_nothing_unknown_to_copy(run, pairs, tmp_path, throughtime):
    assert throughtime("translate", run, "one two", "--copy-unknown").out == "un deux\n"
    parts = ["tokens=bpe", "max_size=300", "epochs=1", "valid_sentences=1"]
    assert throughtime(*words(pairs, tmp_path / "parts", *parts)).code == 0
    ran = throughtime("translate", tmp_path / "parts", "one two", "--copy-unknown")
    assert (ran.code, lacks(ran.err, "--copy-unknown:")) == (2, [])


def test_several_runs_are_judged_as_one(run, untrained, throughtime):
    alone = throughtime("evaluate", run, "--json").json
    same = throughtime("evaluate", run, "--with", run, "--json").json
    assert (same["bleu"], same["chrf"]) == (alone["bleu"], alone["chrf"])
    assert "|models:2|" in same["signature"]
    assert "perplexity" not in same  # that of the first would be taken for that of all
    helped = throughtime("evaluate", untrained, "--with", run, "--json").json
    assert helped["bleu"] > throughtime("evaluate", untrained, "--json").json["bleu"]
    assert "3 models" in throughtime("evaluate", run, "--with", run, "--with", run).out
    refused = throughtime("evaluate", run, "--with", run, "--search-errors")
    assert (refused.code, "--search-errors: " in refused.err) == (2, True)


def test_runs_come_before_sentences(run):
    runs, sentences = split_words([str(run), str(run), "a", str(run)])
    assert (len(runs), sentences) == (2, ["a", str(run)])
    assert one_line("a\nb\u2028c") == "a b c"


def test_score_tells_how_likely_given_translations_are(run, pairs, tmp_path, throughtime):
    given = tmp_path / "given.tsv"
    given.write_text("one two\tun deux\none two\tdeux deux\n")
    ran = throughtime("score", run, "--pairs", given, "--json").json
    right, wrong = ran["pairs"]
    assert right["log_prob"] > wrong["log_prob"]
    assert right["tokens"] == ["un", "deux", "<eos>"]
    assert ran["log_prob"] == pytest.approx(right["log_prob"] + wrong["log_prob"], rel=1e-5)
    shown = throughtime("score", run, "--pairs", given).out
    assert "one two" in shown
    assert "deux" in shown
    assert "--pairs" in throughtime("score", run, "one two").err


def test_compare_tells_chance_from_difference(run, untrained, throughtime):
    ran = throughtime("compare", run, untrained, "--samples", 100, "--json").json
    first, second = ran["measures"]["bleu"]["systems"]
    assert first["value"] > second["value"]
    assert first["p_value"] is None
    assert second["p_value"] < 0.05
    assert first["value"] == pytest.approx(throughtime("evaluate", run, "--json").json["bleu"])
    shown = throughtime("compare", run, untrained, "--samples", 20).out
    assert "BLEU" in shown
    assert "chrF" in shown


def test_control_characters_do_not_reach_the_terminal(capsys):
    print_translations(0, Translation("un\x1b[2J\ndeux\x07\u200d", 0.0, 0.0, True), numbered=False)
    assert capsys.readouterr().out == "un[2J deux\u200d\n"


def test_the_way_on_names_a_split_that_is_there(tmp_path, throughtime):
    one = tmp_path / "one.tsv"
    one.write_text("one\tun\n")
    small = ["epochs=1", "valid_sentences=1"]
    alone = throughtime(*words(one, tmp_path / "alone", *small))
    assert (alone.code, "evaluate" in alone.out, "throughtime translate" in alone.out) == (0, False, True)
    folder = tmp_path / "splits"
    folder.mkdir()
    for split in ("train", "valid"):
        (folder / f"{split}.tsv").write_text("one two\tun deux\n" * 3)
    told = throughtime(*words(folder, tmp_path / "told", *small))
    assert f"evaluate {tmp_path / 'told'} --split valid" in told.out.replace("\n", "")


def test_what_cannot_be_is_refused_in_a_sentence(run, untrained, tmp_path, throughtime):
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 9)
    assert throughtime("train", "ngram", "--data", text, "--out", tmp_path / "ngram").code == 0
    cases = [
        ("translate", run, "x", "--file", text),
        ("translate", run, "x", "--num-return-sequences", 9, "--num-beams", 2),
        ("translate", run, "x", "--num-return-sequences", 2, "--search", "greedy"),
        ("translate", run, "x", "--search", "diverse", "--num-return-sequences", 1_001),
        ("translate", run, "x", "--num-beams", 100_000),
        ("compare", run, untrained, "--num-beams", 100_000),
        ("translate", run, "", "--length-penalty", 300),
        ("evaluate", run, "--length-penalty", "1e308"),
        ("compare", run, untrained, "--length-penalty", 300),
        ("translate", run, "x", "--require", "un", "--forbid", "un"),
        ("translate", run, "x", "--require", "zebra"),
        ("evaluate", run, "--data", "embedded/en-zh"),
        ("compare", run),
        ("compare", run, run),
        ("score", run, "x", "--pairs", text),
        ("train", "translate", "--data", text, "--out", tmp_path / "new"),
        ("evaluate", tmp_path / "ngram", "--num-beams", 2),
        ("evaluate", tmp_path / "ngram", "--with", run),
        ("evaluate", run, "--with", tmp_path / "ngram"),
    ]
    for case in cases:
        ran = throughtime(*case)
        assert ran.code == 2, case
        assert ran.err.startswith("error: "), case
        assert ran.err.count("\n") == 1, ran.err
        assert "unexpected" not in ran.err, case


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--diversity", 2), ("--diversity", "--diversity-penalty")),
        (("--budget", 3), ("--budget", "--search-option budget=VALUE")),
        (("--per-group=2",), ("--per-group", "--search-option per_group=VALUE")),
        (("--num-beams", 100_000), ("--num-beams:", "100000", "1,000")),
        (("--search", "diverse", "--num-return-sequences", 1_001), ("--num-return-sequences:", "1,000")),
        (("--search-option", "num_beans=3"), ("--search-option num_beans:",)),
    ],
)
@pytest.mark.parametrize("command", ["translate", "generate"])
def test_options_of_a_search_are_bounded_and_hinted(run, counted, throughtime, command, words, facts):
    model = run if command == "translate" else counted
    ran = throughtime(command, model, "one", *words)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
