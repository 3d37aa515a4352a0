"""A run that is killed, torn or interrupted, and goes on, ends as one that never was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from tests.plain import SMALL
from tests.refusals import lacks

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
    given = {**SMALL, **settings}
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
