"""A run that is killed, torn or interrupted, and goes on, ends as one that never was."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file
from tests.plain import PLAIN
from tests.refusals import lacks

# Everything is imported once; each attempt is a process forked from there, that runs the command.
DRIVER = r"""
import json, os, random, shutil, signal, sys, time
from pathlib import Path
import rich.progress, torch._dynamo
import throughtime.tasks.language.model, throughtime.fit.run
from throughtime.cli.main import main

sys.modules["torch.utils.tensorboard"] = None
throughtime.fit.run._draw = lambda *_: None  # a picture takes longer than the training

dice = random.Random(int(sys.argv[1]))

def attempt(words, out, log):
    child = os.fork()
    if child:
        return child
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(sink, 1), os.dup2(sink, 2)
    os._exit(main([*words, "--out", str(out)]))

def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def saved(out):
    return max((path.name for path in out.glob("checkpoints/step-*")), default="")

def killed(words, out, log, start, length):
    # One is killed while it starts, one at any time after, three once they have saved something new.
    moments = ["start", "any"] + ["saved"] * 3
    dice.shuffle(moments)
    for moment in moments:
        said, last = log.read_text().count("\n") if log.exists() else 0, saved(out)
        child = attempt([*words, "--resume"], out, log)
        if moment == "start":
            time.sleep(dice.uniform(0, start))
        while moment == "any" and not (log.exists() and log.read_text().count("\n") > said):
            time.sleep(0.001)
        while moment == "saved" and saved(out) == last and not (out / "training.json").exists():
            time.sleep(0.001)
        time.sleep(dice.uniform(0, length / 10))
        os.kill(child, signal.SIGKILL)
        assert code_of(child) in (0, -signal.SIGKILL), log.read_text()
        if (out / "training.json").exists():
            return False
    return True

for words, folder in json.loads(sys.argv[2]):
    folder = Path(folder)
    began = time.monotonic()
    assert code_of(attempt(words, folder / "whole", folder / "whole.log")) == 0
    length = json.loads((folder / "whole" / "training.json").read_text())["seconds"]
    start = time.monotonic() - began - length
    out, log = folder / "killed", folder / "killed.log"
    while not killed(words, out, log, min(start, 1.0), length):
        shutil.rmtree(out)  # done before the last kill: all five again, on a run that begins anew
        log.unlink()
    assert code_of(attempt([*words, "--resume"], out, log)) == 0, log.read_text()
"""

EVERY_KIND_OF_STATE = {
    "epochs": 2,
    "seed": 7,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "average": "ema",
    "ema_decay": 0.9,
    "cell": "gru",
    "initial": "learned",
    "input_dropout": 0.2,
    "weight_drop": 0.2,
    "schedule": "cosine",
    "warmup_steps": 5,
    "checkpoint_every": 3,
    "report_every": 4,
    "num_steps": 6,
}
AVERAGED_LATE = {
    "epochs": 5,
    "seed": 7,
    "optimizer": "nt-asgd",
    "momentum": 0.9,
    "lr": 10,
    "nonmono": 1,
    "output_dropout": 0.2,
    "checkpoint_every": 5,
    "num_layers": 2,
    "keep": 3,
}

VARIANTS = {"adamw-ema": EVERY_KIND_OF_STATE, "nt-asgd": AVERAGED_LATE}


def words(text, settings):
    small = {
        "embedding_size": 12,
        "hidden_size": 12,
        "batch_size": 4,
        "num_steps": 10,
        "tokens": "word",
        **PLAIN,
    }
    given = {**small, "device": "cpu", **settings}
    pairs = [word for key, value in given.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return ["train", "language", "--data", str(text), *pairs]


TIMES = {"seconds", "tokens_per_second", "outside"}


def measured(run):
    """All that was measured, the time apart."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"train", "epoch", "valid"}
    return [{key: line[key] for key in line.keys() - TIMES} for line in lines]


def same_run(left, right):
    """Bit for bit: the model, the last checkpoint, and what was measured."""
    assert (left / "model.safetensors").read_bytes() == (right / "model.safetensors").read_bytes()
    steps = [sorted(path.name for path in (run / "checkpoints").glob("step-*"))[-1] for run in (left, right)]
    assert steps[0] == steps[1]
    files = [run / "checkpoints" / steps[0] / "tensors.safetensors" for run in (left, right)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert measured(left) == measured(right)


@pytest.fixture(scope="module")
def killed(text, tmp_path_factory):
    """Both runs, each once without a kill and once with five of them."""
    seed = random.SystemRandom().randrange(2**32)
    folders = {name: tmp_path_factory.mktemp(name) for name in VARIANTS}
    work = [(words(text, settings), str(folders[name])) for name, settings in VARIANTS.items()]
    driver = [sys.executable, "-c", DRIVER, str(seed), json.dumps(work)]
    ran = subprocess.run(driver, capture_output=True, text=True, timeout=180)
    assert ran.returncode == 0, f"with seed {seed}: {ran.stderr}"
    return seed, folders


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_killed_at_five_random_moments(name, killed):
    """Law 6, by SIGKILL."""
    seed, folders = killed
    print(f"the moments of the kills follow from seed {seed}")
    folder = folders[name]
    same_run(folder / "whole", folder / "killed")
    log = (folder / "killed.log").read_text()
    resumed = [line for line in log.splitlines() if line.startswith("Continuing from step-")]
    assert len(set(resumed)) >= 3, log  # killed in the middle, not before it began
    stalls = "Validation stalls" in (folder / "whole.log").read_text()
    assert stalls == (name == "nt-asgd")
    last = max((folder / "whole" / "checkpoints").glob("step-*"))
    kinds = {part.split(".")[0] for part in load_file(last / "tensors.safetensors")}
    assert kinds == {"model", "optimizer", "average", "carried"}
    assert all(path.name.startswith("step-") for path in (folder / "killed" / "checkpoints").iterdir())


def test_what_a_kill_after_the_last_update_left_is_swept_away(text, tmp_path, throughtime):
    command = (*words(text, {"epochs": 1, "checkpoint_every": 10}), "--out", tmp_path / "run")
    assert throughtime(*command).code == 0
    (tmp_path / "run" / "training.json").unlink()
    left = tmp_path / "run" / "checkpoints" / ".step-00000010.old.part"
    left.mkdir()
    assert throughtime(*command, "--resume").code == 0
    assert not left.exists()


def test_a_torn_checkpoint_is_refused_and_the_one_before_offered(text, tmp_path, throughtime):
    command = words(text, {"checkpoint_every": 10, "input_dropout": 0.1})
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert throughtime(*command, "--set", "epochs=2", "--out", whole).code == 0
    assert throughtime(*command, "--set", "epochs=1", "--out", torn).code == 0
    names = sorted(path.name for path in (torn / "checkpoints").iterdir())
    tensors = torn / "checkpoints" / names[-1] / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    on = (*command, "--set", "epochs=2", "--out", torn, "--resume")
    refused = throughtime(*on)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert not lacks(refused.err, f"{names[-1]}/tensors.safetensors:", names[-2])
    assert throughtime(*on, "--checkpoint", names[-2]).code == 0
    same_run(whole, torn)
    unknown = throughtime(*on, "--set", "epochs=3", "--checkpoint", "step-00000001")
    assert unknown.code == 2
    left = sorted(path.name for path in (torn / "checkpoints").iterdir())
    assert not lacks(unknown.err, "'step-00000001'", *left)


def test_a_checkpoint_of_the_last_update_of_an_epoch_has_its_judgement(text, tmp_path, throughtime):
    """Else the epoch would be judged, and its lines written, once more after a kill."""
    command = words(text, {"checkpoint_every": 1})
    assert throughtime(*command, "--set", "epochs=1", "--out", tmp_path / "one").code == 0
    assert throughtime(*command, "--set", "epochs=2", "--out", tmp_path / "one", "--resume").code == 0
    assert throughtime(*command, "--set", "epochs=2", "--out", tmp_path / "two").code == 0
    same_run(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(text, tmp_path, throughtime):
    command = words(text, {"epochs": 40, "num_steps": 5, "input_dropout": 0.1})
    run, whole = tmp_path / "run", tmp_path / "whole"
    process = subprocess.Popen(
        [sys.executable, "-m", "throughtime", *command, "--out", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 60
    while not list(run.glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    last = err.splitlines()[-1]
    saved = max(path.name for path in (run / "checkpoints").glob("step-*"))
    assert not lacks(last, saved, "--resume")
    assert "Traceback" not in err
    assert not (run / "training.json").exists()
    epochs = measured(run)[-1]["epoch"] + 1
    assert epochs < 40
    on = throughtime(*command, "--set", f"epochs={epochs}", "--out", run, "--resume")
    assert on.code == 0
    assert not lacks(on.err.replace("\n", ""), saved)
    assert throughtime(*command, "--set", f"epochs={epochs}", "--out", whole).code == 0
    same_run(whole, run)


def test_interrupted_before_anything_was_measured(text, tmp_path, throughtime, monkeypatch):
    from throughtime.fit.trainer import Trainer

    update = Trainer.update

    def interrupted(trainer, group):
        update(trainer, group)
        os.kill(os.getpid(), signal.SIGINT)

    command = (*words(text, {"epochs": 1}), "--out", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        stopped = throughtime(*command)
    assert stopped.code == 130
    assert "step-00000001" in stopped.err
    assert throughtime(*command, "--resume").code == 0
    shutil.copytree(tmp_path / "run", tmp_path / "kept")
    done = throughtime(*command, "--resume")
    assert done.code == 0
    assert "nothing to do" in done.out
    same_run(tmp_path / "run", tmp_path / "kept")


def test_interrupted_after_every_update_it_measures_the_same(text, tmp_path, throughtime, monkeypatch):
    """Each line on training losses is of all updates since the one before, whatever came in between."""
    from throughtime.fit.trainer import Trainer

    update = Trainer.update

    def interrupted(trainer, group):
        update(trainer, group)
        os.kill(os.getpid(), signal.SIGINT)

    command = words(text, {"epochs": 2, "num_steps": 60, "report_every": 3, "schedule": "cosine"})
    assert throughtime(*command, "--out", tmp_path / "whole").code == 0
    codes = []
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", interrupted)
        while not codes or codes[-1] == 130:
            codes.append(throughtime(*command, "--out", tmp_path / "run", "--resume").code)
    steps = json.loads((tmp_path / "whole" / "training.json").read_text())["steps"]
    assert codes == [130] * steps + [0]
    assert measured(tmp_path / "whole") == measured(tmp_path / "run")
    speeds = [
        line["tokens_per_second"]
        for line in map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
        if line["kind"] == "train"
    ]
    assert all(1 < speed < 1e7 for speed in speeds)
    longer = (*command, "--set", "epochs=3")
    assert throughtime(*longer, "--out", tmp_path / "run", "--resume").code == 0
    assert throughtime(*longer, "--out", tmp_path / "whole", "--resume").code == 0
    assert measured(tmp_path / "whole") == measured(tmp_path / "run")
