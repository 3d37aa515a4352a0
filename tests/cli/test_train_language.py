"""`train language` as a person types it."""

from __future__ import annotations

import json
import shlex
import signal

import pytest
from tests.refusals import lacks

import throughtime as tt
from throughtime.settings import read_settings

SMALL = ["embedding_size=8", "hidden_size=8", "batch_size=4", "num_steps=8", "tokens=word", "device=cpu"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("the cat sees the dog .\nthe dog hears a man .\na man sees the moon .\n" * 20)
    return path


@pytest.fixture
def train(text, throughtime):
    def run(*words, settings=("epochs=1",)):
        given = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
        return throughtime("train", "language", "--data", text, *given, *words)

    return run


def refused(ran, *facts, code=2):
    assert ran.code == code, ran.err
    *before, error = ran.err.splitlines()
    assert error.startswith("error: ")
    assert all("animals.txt: 60 lines" in line for line in before), ran.err  # what was read
    assert ran.out == ""
    assert not lacks(ran.err, *facts)


def test_from_text_to_a_model_that_writes(train, tmp_path, throughtime):
    out = tmp_path / "run"
    ran = train("--out", out, "--json", settings=["epochs=2", "lr=0.02"])
    assert ran.code == 0, ran.err
    assert (ran.json["epochs"], ran.json["why"], ran.json["run"]) == (2, "all epochs done", str(out))
    assert ran.json["best"]["perplexity"] < 20
    assert "epoch 2/2" in ran.err
    judged = throughtime("evaluate", out, "--split", "test", "--json").json
    assert judged["perplexity"] < 20
    written = throughtime("generate", out, "--prompt", "the", "--max-new-tokens", 5, "--seed", 1, "--json")
    assert written.json["text"].startswith("the")
    assert tt.load(out).config.hidden_size == 8


FRENCH = """LE VOYAGE

— Où va-t-il ?
Il est parti hier soir avec son ami
et le train est en retard. Elle attend
dans la gare. Il est parti sans elle.
Il est parti tôt ce matin avec la mer
"""


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        (["tokens=unicode"], " --prompt 'Il est' "),  # what lines begin with most often
        (["tokens=unicode", "layout=stream"], " --prompt 'Il est' "),
        (["tokens=char", "max_size=12"], " --prompt 'et le' "),  # all letters are known
        (["tokens=char", "max_size=5"], " "),  # of no words
    ],
)
def test_the_hint_begins_with_words_of_the_text(throughtime, tmp_path, settings, prompt):
    book, out = tmp_path / "livre.txt", tmp_path / "run"
    book.write_text(FRENCH * 30)
    given = [word for one in (*SMALL, "epochs=1", *settings) for word in ("--set", one)]
    shown = throughtime("train", "language", "--data", book, *given, "--out", out).out
    assert f"throughtime generate {out}{prompt}--max-new-tokens" in shown
    [line] = [line for line in shown.splitlines() if " generate " in line]
    written = throughtime(*shlex.split(line)[1:], "--seed", 1, "--json").json
    assert not written["prompt"] or "<unk>" not in written["text"][: len(written["prompt"])]


@pytest.mark.parametrize(
    ("setting", "facts"),
    [
        ("hiden_size=3", ("'hiden_size'", "'hidden_size'")),
        ("hidden_size", ("'hidden_size'", "key=value")),
        ("hidden_size=many", ("--hidden-size:", "'many'")),
        ("cell=lstmm", ("'lstmm'", "'lstm'")),
        ("optimizer=adm", ("optimizer", "'adm'", "'adam'")),
        ("tokens=wrd", ("'wrd'",)),
        ("device=gpu", ("--device:", "'gpu'", "auto", "cpu", "cuda")),
        ("num_steps=100000", ("batch_size",)),
        ("warm_up=8", ("warm_up:", "8")),
        ("valid_windows=3", ("valid_windows:",)),
        ("head=adaptive", ("tied=false",)),
    ],
)
def test_bad_settings_are_refused_and_leave_nothing(setting, facts, train, tmp_path):
    refused(train("--out", tmp_path / "run", settings=["epochs=1", setting]), *facts)
    assert not list(tmp_path.iterdir())


def test_resume(train, tmp_path, throughtime, text):
    out = tmp_path / "run"
    fresh = train("--out", out, "--resume")
    assert fresh.code == 0
    assert "starting from the beginning" in fresh.err
    weights = (out / "model.safetensors").read_bytes()
    done = train("--out", out, "--resume")
    assert done.code == 0
    assert "nothing to do" in done.out
    assert (out / "model.safetensors").read_bytes() == weights
    refused(train("--out", out, "--resume", settings=["epochs=2", "cell=gru"]), "--cell:", "'lstm'")
    counted = tmp_path / "counted"
    assert throughtime("train", "ngram", "--data", text, "--out", counted).code == 0
    refused(train("--out", counted, "--resume"), "'ngram'", "'language'")
    (tmp_path / "file").write_text("")
    refused(train("--out", tmp_path / "file", "--resume"), tmp_path / "file")
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("")
    refused(train("--out", other, "--resume"), "config.json")


def test_checkpoint_goes_with_resume(train, tmp_path):
    refused(train("--out", tmp_path / "run", "--checkpoint", "step-00000001"), "--checkpoint:", "resume")
    words = ("--resume", "--checkpoint", "step-00000001")
    refused(train("--out", tmp_path / "run", *words), "'step-00000001'")
    assert not (tmp_path / "run").exists()


def test_all_settings_with_their_meaning(throughtime, tmp_path, text):
    """What `--show-config` prints is a file that trains, and that goes on with what it trained."""
    given = [word for setting in (*SMALL, "epochs=1") for word in ("--set", setting)]
    shown = throughtime("train", "language", "--data", text, *given, "--show-config")
    assert shown.code == 0
    assert "# passes over the training data" in shown.out
    file = tmp_path / "my.yaml"
    file.write_text(shown.out)
    assert read_settings(file)["hidden_size"] == 8
    assert throughtime("train", "language", "--config", file, "--out", tmp_path / "run").code == 0
    on = ("--config", file, "--set", "epochs=2", "--out", tmp_path / "run", "--resume")
    ran = throughtime("train", "language", *on)
    assert ran.code == 0, ran.err
    assert "Continuing from step-" in ran.err
    bare = throughtime("train", "language", "--show-config")
    assert "# data: (required)" in bare.out


def test_init_from_another_run(train, tmp_path, throughtime, text):
    first, second = tmp_path / "first", tmp_path / "second"
    assert train("--out", first, settings=["epochs=3", "lr=0.02"]).code == 0
    words = ("train", "language", "--data", text, "--init-from", first, "--set", "batch_size=4")
    more = ("--set", "num_steps=8", "--set", "device=cpu")
    ran = throughtime(*words, *more, "--set", "epochs=1", "--set", "lr=1e-9", "--out", second, "--json")
    assert ran.code == 0, ran.err
    best = json.loads((first / "training.json").read_text())["best"]["perplexity"]
    assert ran.json["best"]["perplexity"] == pytest.approx(best, rel=1e-3)
    assert tt.load(second).config.hidden_size == 8
    refused(throughtime(*words, "--set", "cell=gru", "--out", tmp_path / "x"), "--cell:", "'lstm'")
    drawn = throughtime(*words, "--set", "forget_bias=1", "--out", tmp_path / "x")
    refused(drawn, "forget_bias:", "init_from")
    none = throughtime(*words[:4], "--init-from", tmp_path / "none", "--out", tmp_path / "x")
    refused(none, f"{tmp_path / 'none'}:")
    assert throughtime(*words, *more, "--find-lr", "--json").json["lr"] > 0
    dropped = throughtime(*words, *more, "--set", "hidden_dropout=0.5", "--out", tmp_path / "x")
    refused(dropped, "hidden_dropout:", "num_layers=1")
    layered = tmp_path / "layered"
    assert train("--out", layered, settings=["epochs=1", "num_layers=2"]).code == 0
    words = (*words[:5], layered, *more, "--set", "batch_size=4", "--set", "epochs=1")
    assert throughtime(*words, "--set", "hidden_dropout=0.5", "--out", tmp_path / "third").code == 0


def test_find_lr(train, tmp_path):
    ran = train("--find-lr", "--out", tmp_path / "rates.png", "--json")
    assert ran.code == 0, ran.err
    assert 1e-6 < ran.json["lr"] < 1
    assert (tmp_path / "rates.png").stat().st_size > 1000
    folder = train("--find-lr", "--out", tmp_path / "rates")
    refused(folder, "--out with --find-lr:", ".png", ".svg", ".pdf")
    (tmp_path / "there.png").mkdir()
    there = train("--find-lr", "--out", tmp_path / "there.png")
    refused(there, f"{tmp_path / 'there.png'}:")


def test_a_file_in_the_way_is_said_before_training(train, text):
    refused(train("--out", text / "run"), f"{text}:")


def test_what_went_astray_is_told_and_not_saved(train, tmp_path):
    """Weights that are still numbers, but no model: its perplexity overflows, and it cannot write a line."""
    astray = ["epochs=1", "lr=1e30", "clip=null", "optimizer=sgd"]
    ran = train("--out", tmp_path / "run", settings=astray)
    assert ran.code == 1
    assert "unexpected" not in ran.err
    last = ran.err.splitlines()[-1]
    assert not lacks(last, "error:", "training loss", "lr", "1e+30")
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_ctrl_c_is_json_too(train, tmp_path, monkeypatch):
    from throughtime.fit.trainer import Trainer

    update = Trainer.update

    def interrupted(trainer, group):
        update(trainer, group)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "update", interrupted)
    ran = train("--out", tmp_path / "run", "--json")
    assert ran.code == 130
    assert ran.json == {"error": ran.err.splitlines()[-1]}
    assert not lacks(ran.json["error"], "step-00000001", "--resume")
