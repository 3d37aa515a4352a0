"""What was meant is told: settings given as options, words in the wrong order, a prompt without an option."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from tests.graphs import untrained
from tests.refusals import lacks
from tests.tiny import SMALL

from throughtime.cli.main import app
from throughtime.cli.usage import RunFirst, TakesSettings
from throughtime.tasks import TASKS


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Untrained runs of several kinds in one folder, by kind."""
    folder = tmp_path_factory.mktemp("runs")
    makers = ("translator", "language", "filler", "classifier", "tagger", "forecaster")
    return {name: getattr(untrained, name)(folder) for name in makers}


def written(error: str) -> list[str]:
    """The words of the command line, or its part, that an error tells to write."""
    (line,) = re.findall(r"write `([^`]*)`", error)
    return shlex.split(line)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--keep 3", ["--set", "keep=3"]),
        ("--keep=3", ["--set", "keep=3"]),
        ("--clip 1e-3", ["--set", "clip=1e-3"]),
        ("--clip -1", ["--set", "clip=-1"]),
        ("--embedding-size 8", ["--set", "embedding_size=8"]),
        ("--embedding_size=8", ["--set", "embedding_size=8"]),
        ("--structure 'a b'", ["--set", "structure=a b"]),
        ("--tied", ["--set", "tied=true"]),
        ("--no-tied --resume", ["--set", "tied=false"]),
        ("--tied=false", ["--set", "tied=false"]),
        ("--keep", ["--set", "keep=VALUE"]),
        ("--keep --resume", ["--set", "keep=VALUE"]),
        ("--keep 3 --out x --clip=2", ["--set", "keep=3", "--set", "clip=2"]),
        ("--hidden_dropout 0.1", ["--set", "hidden_dropout=0.1"]),
        ("--dropout 0.1", ["--set", "hidden_dropout=0.1"]),
        ("--drop-out=0.1", ["--set", "hidden_dropout=0.1"]),
        ("--embed-size 8", ["--set", "embedding_size=8"]),
        ("--batch_size 8 --clip 2", ["--batch-size", "8", "--set", "clip=2"]),
        ("--learning-rate 1e-3", ["--lr", "1e-3"]),
        ("--layers 2", ["--num-layers", "2"]),
    ],
)
def test_a_setting_given_as_an_option_is_told_the_way_that_works(throughtime, words, expected):  # R120
    ran = throughtime("train", "translate", "--data", "pairs.tsv", *shlex.split(words))
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert written(ran.err) == expected


@pytest.mark.parametrize("task", SMALL)
def test_every_setting_of_every_task_is_told(throughtime, task):
    kind = TASKS[task].part("config")
    own = {one.name for one in typer.main.get_command(app).commands["train"].commands[task].params}
    names = [name for name in kind.model_fields if name not in own]
    assert {"clip", "optimizer", "schedule"} <= set(names)
    told = written(throughtime("train", task, *(f"--{name.replace('_', '-')}=7" for name in names)).err)
    assert told[::2] == ["--set"] * len(names)
    assert [one.partition("=")[0] for one in told[1::2]] == names


def test_the_told_way_works(throughtime):
    ran = throughtime("train", "translate", "--clip", 3, "--embedding-size", 64, "--show-config")
    told = throughtime("train", "translate", *written(ran.err), "--show-config", "--json")
    assert (told.json["clip"], told.json["embedding_size"]) == (3, 64)


def test_all_settings_that_an_option_may_mean_are_named(throughtime):  # R120
    error = throughtime("train", "translate", "--dropout", 0.1).err
    kind = TASKS["translate"].part("config")
    assert all(name in error for name in kind.model_fields if name.endswith("_dropout"))
    assert not lacks(throughtime("train", "ngram", "--dropout", 0.1).err, "--dropout")


ORDERS = [
    ("translate", "translator", ["Where is it?"]),
    ("score", "language", ["dog bites man", "it's"]),
    ("generate", "language", ["the cat"]),
    ("fill", "filler", ["the ___ sees"]),
    ("tag", "tagger", ["the cat"]),
    ("classify", "classifier", ["the cat"]),
]


@pytest.mark.parametrize(("command", "kind", "texts"), ORDERS)
@pytest.mark.parametrize("json", [False, True])
def test_a_text_before_its_run_is_told_the_right_order(throughtime, runs, command, kind, texts, json):
    words = [texts[0], str(runs[kind]), *texts[1:], *(["--json"] if json else [])]
    ran = throughtime(command, *words)
    assert ran.code == 2
    right = written(ran.err)
    assert right == [
        "throughtime",
        command,
        str(runs[kind]),
        *[word for word in words if word != str(runs[kind])],
    ]
    assert throughtime(*right[1:]).code == 0


def test_options_keep_their_values(throughtime, runs):
    run = str(runs["translator"])
    ran = throughtime("translate", "--num-beams", 2, "the cat", "--device", "cpu", "--", run)
    assert written(ran.err)[1:] == ["translate", run, "--num-beams", "2", "the cat", "--device", "cpu", "--"]
    ran = throughtime("evaluate", "all", "--with", run, "--lowercase", run)
    assert written(ran.err)[1:] == ["evaluate", run, "--with", run, "--lowercase", "--split", "all"]


def test_inspect_tells_the_right_order(throughtime, runs):
    run = str(runs["language"])
    ran = throughtime("inspect", "the cat", run, "--gates")
    right = written(ran.err)
    assert right == ["throughtime", "inspect", run, "the cat", "--gates"]
    assert throughtime(*right[1:]).code == 0


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("command", "kind", "word", "option"),
    [
        ("evaluate", "language", "all", "--split"),
        ("evaluate", "language", "other text", "--data"),
        ("forecast", "forecaster", "today", "--data"),
        ("backtest", "forecaster", "today", "--data"),
        ("export", "language", "exported", "--out"),
        ("compose", "language", "happy", "--label"),
    ],
)
def test_a_word_that_is_an_option_is_told_which(throughtime, runs, command, kind, word, option, order):
    run = str(runs[kind])
    ran = throughtime(command, *((word, run) if order else (run, word)))
    assert ran.code == 2
    assert written(ran.err) == ["throughtime", command, run, option, word]


def test_a_mistyped_run_is_no_text(throughtime, runs):
    run = runs["translator"]
    ran = throughtime("translate", run.parent / "typo", run, "the cat")
    assert not lacks(ran.err, "typo:")
    ran = throughtime("translate", "Where is it?", "now")
    assert not lacks(ran.err, "Where is it?:")


def test_help_comes_before_all(throughtime, runs):
    assert throughtime("translate", "the cat", runs["translator"], "--help").code == 0


def test_a_prompt_is_a_word_or_an_option(throughtime, runs):
    words = ["generate", runs["language"], "--seed", 1, "--json", "--max-new-tokens", 5]
    word = throughtime(*words, "the cat")
    assert word.code == 0
    assert word.json["prompt"] == "the cat"
    assert word.json == throughtime(*words, "--prompt", "the cat").json
    assert word.json == throughtime(*words, "the cat", "--prompt", "the cat").json
    assert throughtime(*words).json["prompt"] == ""
    ran = throughtime(*words[:2], "the cat", "--prompt", "the dog")
    assert ran.code == 2
    assert ran.err.startswith("error: --prompt: ")
    assert not lacks(throughtime(*words[:2], "the", "cat").err, "error:", "cat")


def test_every_command_that_reads_a_run_checks_the_order():
    group = typer.main.get_command(app)
    several = {"compare", "serve"}  # all their words are runs
    for name, command in group.commands.items():
        first = next((one for one in command.params if one.param_type_name == "argument"), None)
        if first is not None and (first.name == "run" or name == "translate"):
            assert isinstance(command, RunFirst), name
            assert name not in several
    trained = group.commands["train"].commands
    assert {name for name, one in trained.items() if isinstance(one, TakesSettings)} == set(TASKS)


def test_an_error_names_an_option_only_where_there_is_one(throughtime, runs, tmp_path):  # R120
    level = throughtime("forecast", runs["forecaster"], "--level", 0.95)
    assert not lacks(level.err, "error:", "--level:", "0.95")
    sentence = throughtime("inspect", runs["translator"], "", "--beam")
    assert re.match(r"error: (?!--)\S+: ", sentence.err), sentence.err
    words = ["--data", "embedded/english", "--set", "sed=1", "--out", tmp_path / "run"]
    typo = throughtime("train", "language", *words)
    assert not lacks(typo.err, "error:", "settings:", "'sed'")
