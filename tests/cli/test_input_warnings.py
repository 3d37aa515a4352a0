"""What a model cannot know is answered with a warning: on stderr, and in JSON; a sentence is never a path."""

from __future__ import annotations

import random

import pytest
from tests.refusals import lacks
from tests.tiny import save_untrained, training

import throughtime as tt
from throughtime.cli.main import main
from throughtime.tasks.language.runner import LanguageModelRunner

CHINESE = "他今天早上去了火车站。"
TASKS = ("ngram", "language", "translate", "tag", "fill", "classify")
ASK = {
    "ngram": ("generate", "--max-new-tokens", 2, "--prompt"),
    "language": ("generate", "--max-new-tokens", 2, "--prompt"),
    "translate": ("translate",),
    "tag": ("tag",),
    "fill": ("fill",),
    "classify": ("classify",),
}
SCORE = ("ngram", "language")
ODD = {"long": "one two " * 60, "path": "/etc/passwd/one " * 30, "null": "one\0two", "dots": "../" * 2000}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of an untrained model of each task."""
    return save_untrained(tmp_path_factory.mktemp("runs"), language={"layout": "stream"})


def asked(runs, task, text):
    command, *options = ASK[task]
    return (command, runs[task], *options, f"{text} ___" if task == "fill" else text)


@pytest.mark.parametrize("task", TASKS)
def test_plain_input_is_answered_in_silence(runs, task, throughtime):
    ran = throughtime(*asked(runs, task, "one two three"))
    assert (ran.code, ran.err) == (0, "")
    assert "warnings" not in throughtime(*asked(runs, task, "one two three"), "--json").json


@pytest.mark.parametrize("task", TASKS)
def test_a_strange_script_is_answered_with_a_warning(runs, task, throughtime):  # R120
    ran = throughtime(*asked(runs, task, CHINESE))
    assert ran.code == 0
    assert ran.out
    assert ran.err.count("\n") == 1
    assert not lacks(ran.err, "warning:", "Chinese")
    found = throughtime(*asked(runs, task, CHINESE), "--json")
    assert found.code == 0
    assert [f"warning: {one}\n" for one in found.json["warnings"]] == [found.err]
    assert "Chinese" in found.err


@pytest.mark.parametrize("task", TASKS)
def test_an_empty_text_is_answered_with_a_warning(runs, task, throughtime):
    if ASK[task][0] == "generate":  # where nothing is given the text begins anywhere
        assert throughtime(*asked(runs, task, "")).err == ""
        return
    for text in ("___", "") if task == "fill" else ("",):
        ran = throughtime(ASK[task][0], runs[task], text)
        assert ran.code == 0
        assert ran.err.count("warning: the text is empty") == 1


@pytest.mark.parametrize("task", SCORE)
def test_score_answers_what_has_no_token_last(runs, task, throughtime):
    ran = throughtime("score", runs[task], CHINESE, "one two", "", "--json")
    assert ran.code == 0
    assert [warning.split(" is ")[0] for warning in ran.json["warnings"]] == ["text 1", "text 3"]
    if task == "language":  # a stream of words: neither of the others has any
        assert ran.json["ranking"] == [1, 0, 2]
        assert ran.json["sentences"][0]["log_prob_per_token"] is None
    assert throughtime("score", runs[task], "one two", "two one").err == ""


@pytest.mark.parametrize("task", TASKS[2:])
def test_lines_are_warned_of_by_their_numbers_and_once(runs, task, throughtime, typed, monkeypatch):
    monkeypatch.setattr("throughtime.cli.inputs.LINES_AT_ONCE", 2)
    blank = " ___" if task == "fill" else ""
    lines = ["one two", "", "two", CHINESE, CHINESE, "three"]
    typed("".join(f"{line}{blank if line else ''}\n" for line in lines).encode())
    ran = throughtime(ASK[task][0], runs[task])
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 6
    assert not lacks(ran.err, "warning:", "4", "Chinese")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("task", TASKS)
def test_no_sentence_is_a_path(runs, task, text, throughtime):
    ran = throughtime(*asked(runs, task, text))
    assert ran.code == 0, ran.err
    if task in SCORE:
        assert throughtime("score", runs[task], text, "one").code == 0


def test_a_sentence_in_the_place_of_a_run_is_no_such_folder(tmp_path, throughtime):
    for command in ("translate", "generate", "score", "tag", "fill", "classify", "compose", "inspect"):
        for text in (ODD["long"], ODD["null"]):
            ran = throughtime(command, text, *(["x", "--gates"] if command == "inspect" else []))
            assert ran.code == 2
            assert ran.err.count("\n") == 1
            assert text == ODD["null"] or ran.err.startswith("error: ")
    for words in (
        ("stats", ODD["long"]),
        ("train", "ngram", "--data", ODD["path"], "--out", tmp_path / "new"),
    ):
        ran = throughtime(*words)
        assert ran.code == 2
        assert "too long" not in ran.err


# Sentences of the notes


NOTES = [
    *("it is hard to recognize speech", "machines recognize speech", "they recognize speech well"),
    *("we saw a nice beach", "storms wreck a house", "a nice day"),
    *(
        "the dog bites the man",
        "a dog bites",
        "dog bites boy",
        "man walks dog",
        "man sees dog",
        "dog sees man",
    ),
    *(
        "I want to eat, mother",
        "I want to sleep, grandma",
        "we want to eat, grandma",
        "let us eat, grandma",
        "I want to eat bread",
    ),
    *("I want to eat soup", "you want to sing, grandma"),
]
RANKED = [
    ("recognize speech", "wreck a nice beach"),
    ("dog bites man", "man bites dog"),
    ("I want to eat, grandma", "I want to eat grandma"),
]


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    lines = NOTES * 6
    random.Random(2).shuffle(lines)
    (folder / "notes.txt").write_text("".join(f"{line}\n" for line in lines))
    data = ["--data", str(folder / "notes.txt")]
    assert main(["train", "ngram", *data, "--order", "3", "--out", str(folder / "ngram")]) == 0
    settings = "layout=lines embedding_size=24 num_layers=1 output_dropout=0 epochs=60 lr=0.02 device=cpu "
    settings += "batch_size=8"
    chosen = [word for setting in settings.split() for word in ("--set", setting)]
    assert main(["train", "language", *data, *chosen, "--out", str(folder / "neural")]) == 0
    words = ["--set", "tokens=word"]
    assert (
        main(
            [
                "train",
                "language",
                *data,
                *chosen,
                *words,
                "--set",
                "epochs=1",
                "--out",
                str(folder / "dropping"),
            ]
        )
        == 0
    )
    return folder


@pytest.mark.parametrize("model", ["ngram", "neural"])
@pytest.mark.parametrize("pair", RANKED, ids=["speech", "dog", "grandma"])
def test_the_pairs_of_the_notes_rank_right_with_punctuation(notes, model, pair, throughtime):  # R17
    ran = throughtime("score", notes / model, *pair, "--json")
    assert ran.json["ranking"] == [0, 1]
    assert "warnings" not in ran.json
    assert ran.err == ""


def test_a_tie_by_dropped_punctuation_is_told(notes, throughtime):  # R17
    ran = throughtime("score", notes / "dropping", *RANKED[2], "--json")
    one, other = ran.json["sentences"]
    assert one["log_prob"] == other["log_prob"]
    [warning] = ran.json["warnings"]
    assert warning.startswith("text 1 ")
    assert warning.endswith(": ,")
    assert ran.err == f"warning: {warning}\n"
    written = throughtime("generate", notes / "dropping", "--prompt", "I want to eat, grandma")
    assert not lacks(written.err, "'word'", ": ,")


# Pairs the wrong way round


@pytest.mark.parametrize("swapped", [False, True])
def test_swapped_columns_are_pointed_out_and_training_goes_on(swapped, tmp_path, throughtime):  # R120
    english = [
        f"the {animal} is in the garden with my {person}"
        for animal in ("dog", "cat", "old horse")
        for person in ("mother", "brother", "sister", "little boy", "two friends", "uncle", "wife", "son")
    ]
    french = [
        f"{animal} est dans le jardin avec {person}"
        for animal in ("le chien", "le chat", "le vieux cheval")
        for person in (
            "ma mère",
            "mon frère",
            "ma sœur",
            "le petit garçon",
            "deux amis",
            "mon oncle",
            "ma femme",
            "mon fils",
        )
    ]
    sides = (french, english) if swapped else (english, french)
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)))
    ran = throughtime(*training("translate", path, tmp_path / "run", epochs=1), "--json")
    assert ran.code == 0
    assert (tmp_path / "run" / "model.safetensors").exists()
    if not swapped:
        assert "warnings" not in ran.json
        asked = throughtime("translate", tmp_path / "run", french[0], "--json")
        [warning] = [one for one in asked.json["warnings"] if "French" in one]  # its words are unknown, too
        assert f"warning: {warning}\n" in asked.err
        assert throughtime("translate", tmp_path / "run", english[0]).err == ""
        assert "French" not in throughtime("translate", tmp_path / "run", *english[:3], french[0]).err
        return
    [warning] = ran.json["warnings"]
    assert not lacks(warning, "source", "en", "French")
    assert not lacks(warning, "target", "fr", "English")
    assert ran.err.count(f"warning: {warning}\n") == 1


def test_characters_that_a_language_model_does_not_see_are_named(tmp_path, throughtime):
    text, run = tmp_path / "a.txt", tmp_path / "run"
    text.write_text("one two three\ntwo three one\n" * 40)
    assert main(["train", "ngram", "--data", str(text), "--out", str(run), "--tokens", "word"]) == 0
    steps = ("--steps", 1)
    for words in (
        ("score", run, "one, two!"),
        ("generate", run, "one, two!", "--max-new-tokens", 2),
        ("inspect", "markov", run, "--after", "one, two!", *steps),
    ):
        ran = throughtime(*words)
        assert ran.code == 0, ran.err
        assert not lacks(ran.err, "'word'", ", !")
    assert "drops" not in throughtime("generate", run, "one two", "--max-new-tokens", 2).err
    assert [*tt.load(run).input_warnings(["one, two!"])] == ["dropped"]
    assert LanguageModelRunner.reports_dropped
