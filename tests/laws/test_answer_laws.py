"""Laws of every task: each way to ask gives the same answer, and a stopped run ends as a whole one."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import pytest
import typer
from safetensors.torch import load_file
from starlette.testclient import TestClient
from tests.refusals import lacks, refuses
from tests.tiny import tiny_data, training

import throughtime as tt
from throughtime.cli.main import app, main
from throughtime.config import build_config
from throughtime.errors import InputError
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options
from throughtime.tasks import TASKS

EPOCHS = {"language": 1, "translate": 14, "tag": 2, "fill": 3, "classify": 8, "compose": 4, "forecast": 3}
"""After how many epochs a tiny model of each task answers sensibly."""
TRAINED = [name for name in TASKS if TASKS[name].uses_trainer]


class Use(NamedTuple):
    """How the models of a task are asked: inputs, keywords, and the same as words of the command."""

    inputs: list[str]
    keywords: dict[str, Any]
    words: list[Any]


USES = {
    "translate": Use(["three one four", "two", "one five"], {"num_beams": 3}, ["--num-beams", 3]),
    "tag": Use(["two one four", "five", "unheard one"], {"tokenize": "unicode"}, ["--tokenize", "unicode"]),
    "fill": Use(["one ___ four", "___ two", "___ ___"], {"k": 3}, ["--k", 3]),
    "classify": Use(["two one one", "one two", "unheard"], {"k": 2}, ["--k", 2]),
    "compose": Use(
        ["even", "odd", "even"],
        {"seed": 3, "num_return_sequences": 2, "temperature": 0.7},
        ["--seed", 3, "--num-return-sequences", 2, "--temperature", 0.7],
    ),
}
FIELDS = {
    "translate": "translations",
    "tag": "sentences",
    "fill": "sentences",
    "classify": "texts",
    "compose": "composed",
}
"""Where the JSON of each command has its answers."""
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
ON_CPU = ["--device", "cpu"]
"""As the models of Python here: a GPU rounds differently."""
each_task = pytest.mark.parametrize("task", TASKS)
each_answer = pytest.mark.parametrize("task", USES)
each_training = pytest.mark.parametrize("task", TRAINED)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Small data for each task."""
    return tiny_data(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def runs(data):
    """The folder of a trained model of each task, by the name of the task."""
    folder = data["language"].parent
    for task in TASKS:
        assert main(training(task, data[task], folder / task, epochs=EPOCHS.get(task))) == 0, task
    return {task: folder / task for task in TASKS}


@pytest.fixture(scope="module")
def client(runs):
    """A server with all models."""
    models = Models.open(list(runs.values()), "cpu")
    with TestClient(create_app(models, Options(), log=io.StringIO())) as client:
        yield client


def load(runs, task):
    return tt.load(runs[task], device="cpu")


def ask(model, task, inputs=None):
    """The answers of a model, as plain data."""
    use = USES[task]
    found = getattr(model, task)(use.inputs if inputs is None else inputs, **use.keywords)
    return [json.loads(json.dumps(answer.to_dict())) for answer in found]


def differing(expected, values):
    """The names of what differs; the command shows alignments without being asked to."""
    return [name for name, value in expected.items() if value is not None and values[name] != value]


def command_words(task, run, inputs):
    given = [word for text in inputs for word in ("--label", text)] if task == "compose" else inputs
    return [task, run, *given, *USES[task].words]


@each_answer
def test_the_command_answers_as_python_does(task, runs, throughtime):  # law 9
    ran = throughtime(*command_words(task, runs[task], USES[task].inputs), *ON_CPU, "--json")
    assert ran.code == 0, ran.err
    told = ran.json[FIELDS[task]]
    for expected, values in zip(ask(load(runs, task), task), told, strict=True):
        assert differing(expected, values) == []


@each_answer
def test_the_server_answers_as_python_does(task, runs, client):  # law 9
    use, expected = USES[task], ask(load(runs, task), task)
    if task == "translate":
        asked = {"q": use.inputs, "source": "en", "target": "fr", **use.keywords}
        told = client.post("/translate", json=asked).json()["translatedText"]
        assert told == [answer["text"] for answer in expected]
        return
    asked = {"label" if task == "compose" else "q": use.inputs, **use.keywords}
    told = client.post(f"/{task}", json=asked).json()["results"]
    for answer, values in zip(expected, told, strict=True):
        assert differing(answer, values) == []


@each_answer
def test_a_list_is_each_input_alone_and_nothing_gives_nothing(task, runs):
    model = load(runs, task)
    together = ask(model, task)
    for text, expected in zip(USES[task].inputs, together, strict=True):
        if task == "compose":
            continue  # draws depend on the number of an input
        assert ask(model, task, text) == ask(model, task, [text])
        assert ask(model, task, text)[0].keys() == expected.keys()
        assert ask(model, task, text)[0].get("text") == expected.get("text")
    assert getattr(model, task)([]) == []


@each_answer
def test_as_many_lines_come_out_as_went_in(task, runs, tmp_path, throughtime, monkeypatch):
    monkeypatch.setattr("throughtime.cli.inputs.LINES_AT_ONCE", 2)

    def put(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    run = runs[task]
    lines = [*USES[task].inputs, *([] if task == "compose" else [""]), USES[task].inputs[0]]
    how = ["--greedy"] if task == "compose" else []
    content = "".join(f"{line}\n" for line in lines).encode()
    put(content)
    ran = throughtime(task, run, *how)
    assert ran.code == 0, ran.err
    printed = ran.out.splitlines()
    assert len(printed) == len(lines)
    assert printed[0] == printed[-1]
    if task != "compose":
        assert printed[-2].strip() == "" or task == "classify"
        file = tmp_path / "lines.txt"
        file.write_bytes(content.replace(b"\n", b"\r\n"))
        assert throughtime(task, run, "--file", file).out == ran.out
        both = throughtime(task, run, "one", "--file", file)
        assert (both.code, lacks(both.err, "--file")) == (2, [])
    for words, expected in (([], ""), (["--json"], [])):
        put(b"")
        nothing = throughtime(task, run, *how, *words)
        assert nothing.code == 0
        assert (nothing.json[FIELDS[task]] if words else nothing.out) == expected
        assert nothing.err.startswith("stdin ")


def test_every_task_has_a_command_that_uses_its_models():
    commands = typer.main.get_command(app).commands
    assert all(TASKS[task].command in commands for task in TASKS)


@each_task
@pytest.mark.parametrize("command", SERVED)
def test_a_command_serves_its_kind_and_names_any_other(command, task, runs, throughtime):
    # `compare` wants two runs: the only translator has another name.
    folder = runs[task].parent
    run = folder / ".." / folder.name / task
    words = (word.replace("RUN", str(run)).replace("DATA", str(folder)) for word in command.split())
    ran = throughtime(*words)
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
    aligned = throughtime("tag", runs["tag"], "two one four", "one two")
    assert aligned.out == "two/EVEN one/ODD four/EVEN\teven\none/ODD two/EVEN\todd\n"
    assert throughtime("evaluate", runs["tag"], "--json").json["accuracy"] > 0.95
    unaligned = throughtime("translate", runs["translate"], "two one four", "one two")
    assert unaligned.out == "deux un quatre\nun deux\n"
    assert throughtime("evaluate", runs["translate"], "--json").json["bleu"] > 60
    to_label = throughtime("classify", runs["classify"], "two one one", "one two", "--json").json
    assert [one["label"] for one in to_label["texts"]] == ["even", "odd"]
    assert throughtime("evaluate", runs["classify"], "--json").json["accuracy"] > 0.9
    from_label = throughtime("compose", runs["compose"], "--label", "even", "--label", "odd", "--greedy").out
    begun = [line.split()[0] in ("two", "four") for line in from_label.splitlines()]
    assert begun == [True, False]
    judged = throughtime("evaluate", runs["compose"], "--json").json
    assert judged["perplexity"] < judged["perplexity_shuffled"]


@each_task
def test_evaluation_is_repeatable_and_signed(task, runs, throughtime):
    model = load(runs, task)
    first = model.evaluate(split="valid")
    assert first.values == model.evaluate(split="valid").values
    assert lacks(first.signature, "|split:valid|", f"|version:{tt.__version__}") == []
    ran = throughtime("evaluate", runs[task], "--split", "valid", *ON_CPU, "--json").json
    assert json.loads(json.dumps(first.values)).items() <= ran.items()
    with pytest.raises(InputError, match="'dev'"):
        model.evaluate(split="dev")


@each_task
def test_saved_and_loaded_answers_the_same(task, runs, tmp_path):
    model = load(runs, task)
    model.save(tmp_path / "copy")
    copy = tt.load(tmp_path / "copy", device="cpu", task=task)
    assert copy.config == model.config
    assert copy.evaluate(split="valid").values == model.evaluate(split="valid").values
    if task in USES:
        assert ask(copy, task) == ask(model, task)
    other = next(name for name in TASKS if name != task)
    with refuses("task", repr(other), repr(task)):
        tt.load(tmp_path / "copy", task=other)
    with refuses(tmp_path / "copy"):
        model.save(tmp_path / "copy")


@each_training
def test_a_run_that_goes_on_ends_as_one_that_never_stopped(task, data, tmp_path, throughtime):
    chance = {"output_dropout": 0.2}
    words = {
        name: training(task, data[task], tmp_path / name, epochs=epochs, **chance)
        for name, epochs in (("whole", 2), ("parts", 1))
    }
    for name, command in words.items():
        assert throughtime(*command).code == 0, name
    assert throughtime(*words["parts"]).code == 2  # there is a run in the folder
    longer = training(task, data[task], tmp_path / "parts", epochs=2, **chance)
    ran = throughtime(*longer, "--resume", "--json")
    assert ran.code == 0, ran.err
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in words)
    assert whole.keys() == parts.keys()
    assert all(whole[name].equal(parts[name]) for name in whole)
    assert "nothing to do" in throughtime(*longer, "--resume").out
    assert throughtime("average", tmp_path / "parts", "--last", 2, "--out", tmp_path / "mean").code == 0
    assert tt.load(tmp_path / "mean", device="cpu").task == task


@each_training
def test_a_model_starts_from_another(task, runs):
    predictor = TASKS[task].part("predictor")
    parent = load(runs, task)
    given = {"data": parent.config.data, "lr": 0.5, "device": "cpu"}
    child = predictor.initialise_from(
        runs[task], build_config(predictor.config_type, given, "settings"), given
    )
    assert (child.config.lr, child.config.hidden_size) == (0.5, parent.config.hidden_size)
    weights = parent.model.state_dict()
    assert all(weight.equal(weights[name]) for name, weight in child.model.state_dict().items())
    with refuses("hidden_size", 7, parent.config.hidden_size):
        predictor.initialise_from(runs[task], child.config, {"hidden_size": 7})


@each_training
def test_shares_of_validation_add_up(task, runs):
    model = load(runs, task)
    objective = model.build_objective(model.open_data())
    alone = objective.summarise(objective.validate(0, 1))
    shares = [objective.validate(rank, 3) for rank in range(3)]
    together = objective.summarise({name: sum(share[name] for share in shares) for name in shares[0]})
    assert together == pytest.approx(alone, rel=1e-5)
    assert objective.measure in alone
    sample = objective.sample()
    assert sample is None or sample.strip()


@each_task
def test_all_settings_are_shown_and_typing_errors_are_named(task, data, tmp_path, throughtime):
    shown = throughtime("train", task, "--show-config").out
    settings = TASKS[task].part("predictor").config_type.model_fields
    assert [name for name in settings if f"{name}:" not in shown and name != "data"] == []
    name = next(name for name in settings if len(name) > 5)
    wrong = throughtime(*training(task, data[task], tmp_path / "run"), "--set", f"{name[:-2]}{name[-1]}=1")
    assert (wrong.code, lacks(wrong.err, f"'{name}'")) == (2, [])
    assert wrong.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
    missing = throughtime("evaluate", tmp_path / "nowhere")
    assert (missing.code, lacks(missing.err, f"{tmp_path / 'nowhere'}:")) == (2, [])


@each_task
def test_data_of_another_kind_are_refused(task, data, tmp_path, throughtime):
    other = data["language"] if task not in ("ngram", "language", "fill") else data["forecast"]
    ran = throughtime(*training(task, other, tmp_path / "run"))
    assert (ran.code, lacks(ran.err, str(other))) == (2, [])
    assert ran.err.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "run").exists()
