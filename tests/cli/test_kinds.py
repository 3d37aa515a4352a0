"""Every command with every kind of run: it does its work, or says in one sentence what the run is."""

from __future__ import annotations

import pytest
import typer
from tests.tiny import tiny_data, training

from throughtime.cli.main import app, main
from throughtime.tasks import TASKS

EPOCHS = {"language": 1, "translate": 14, "tag": 2, "fill": 3, "classify": 4, "compose": 4, "forecast": 3}
LANGUAGE, TRANSLATE = {"ngram", "language"}, {"translate"}
SERVED = {
    "score RUN one": LANGUAGE,
    "score RUN --pairs DATA/pairs.tsv": TRANSLATE,
    "generate RUN --max-new-tokens 3": LANGUAGE,
    "translate RUN one": TRANSLATE,
    "compare DATA/translate RUN --samples 10": TRANSLATE,
    "tag RUN one": {"tag"},
    "fill RUN ___": {"fill"},
    "classify RUN one": {"classify"},
    "compose RUN --label even": {"compose"},
    "forecast RUN": {"forecast"},
    "backtest RUN --n-windows 2": {"forecast"},
    "evaluate RUN": set(TASKS),
}
"""Each command that takes a run, and the tasks whose runs it takes."""
IN_OTHER_WORDS = {
    ("score RUN one", "translate"): "--pairs",
    ("generate RUN --max-new-tokens 3", "fill"): "`throughtime fill`",  # R66
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a small model of each task and its data."""
    folder = tmp_path_factory.mktemp("kinds")
    data = tiny_data(folder)
    for task in TASKS:
        assert main(training(task, data[task], folder / task, epochs=EPOCHS.get(task))) == 0, task
    return folder


def test_every_task_has_a_command_that_uses_its_models():
    commands = typer.main.get_command(app).commands
    assert all(TASKS[task].command in commands for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("command", SERVED)
def test_a_command_serves_its_kind_and_names_any_other(command, task, runs, throughtime):
    # `compare` wants two runs: the only translator has another name.
    run = runs / ".." / runs.name / task
    ran = throughtime(*(word.replace("RUN", str(run)).replace("DATA", str(runs)) for word in command.split()))
    if task in SERVED[command]:
        assert ran.code == 0, ran.err
        assert ran.out
        return
    assert ran.code == 2
    assert ran.err.startswith(f"error: {run}: ")
    assert ran.err.count("\n") == 1
    if (command, task) in IN_OTHER_WORDS:
        assert IN_OTHER_WORDS[command, task] in ran.err
        return
    assert TASKS[task].title in ran.err
    assert f"`throughtime {TASKS[task].command}`" in ran.err


def test_the_four_shapes(runs, throughtime):  # R8: each trains, evaluates and predicts
    aligned = throughtime("tag", runs / "tag", "two one four", "one two")
    assert aligned.out == "two/EVEN one/ODD four/EVEN\teven\none/ODD two/EVEN\todd\n"
    assert throughtime("evaluate", runs / "tag", "--json").json["accuracy"] > 0.95
    unaligned = throughtime("translate", runs / "translate", "two one four", "one two")
    assert unaligned.out == "deux un quatre\nun deux\n"
    assert throughtime("evaluate", runs / "translate", "--json").json["bleu"] > 60
    to_label = throughtime("classify", runs / "classify", "two one one", "one two", "--json").json
    assert [one["label"] for one in to_label["texts"]] == ["even", "odd"]
    assert throughtime("evaluate", runs / "classify", "--json").json["accuracy"] > 0.9
    from_label = throughtime("compose", runs / "compose", "--label", "even", "--label", "odd", "--greedy").out
    begun = [line.split()[0] in ("two", "four") for line in from_label.splitlines()]
    assert begun == [True, False]
    judged = throughtime("evaluate", runs / "compose", "--json").json
    assert judged["perplexity"] < judged["perplexity_shuffled"]
