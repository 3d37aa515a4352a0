"""Several processes: rows dealt and gathered, and two that train as one would."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from tests.fit.test_resume import words as training_words
from tests.tiny import tiny_data, training

import throughtime as tt
from throughtime.data.batching.text import RandomWindows, SequentialPartition
from throughtime.data.datasets import open_dataset
from throughtime.fit.processes import Processes

# All that needs two real processes, in one start of them: it takes seconds.
SCRIPT = """
import json, sys, torch
from pathlib import Path
from throughtime.cli.main import main
from throughtime.fit.processes import Processes, join_processes
from throughtime.fit import processes as module, run
import os

sys.modules["torch.utils.tensorboard"] = None
run._draw = lambda *_: None  # a picture takes longer than the training

folder, runs = Path(sys.argv[1]), json.loads(sys.argv[2])
rank = int(os.environ["RANK"])
with join_processes(torch.device("cpu")) as processes:
    rows = torch.arange(10.0).reshape(5, 2)
    mine = processes.own_rows(rows)
    assert mine.tolist() == rows[rank::2].tolist()
    assert torch.equal(processes.gather_state((mine,))[0], rows)
    few = (rows[:1],) if rank == 0 else ()
    assert torch.equal(processes.gather_state(few)[0], rows[:1])
    assert torch.equal(processes.gather_state((rows[:1][: 1 - rank],))[0], rows[:1])
    assert processes.sum([1.0, float(rank)], torch.device("cpu")) == [2.0, 1.0]
    assert [bool(processes.all_agree(torch.tensor(flag))) for flag in (rank > 0, True)] == [False, True]
    # The command joins by itself; here it finds the group that is there already.
    destroy = module.distributed.destroy_process_group
    module.distributed.init_process_group = lambda *_, **__: None
    module.distributed.destroy_process_group = lambda: None
    for words in runs:
        code = main(words)
        (folder / f"codes-{rank}").open("a").write(f"{code} ")
    module.distributed.barrier()
    destroy()  # its threads may abort a process that ends without
"""


def words(text, out, **settings):
    return [*training_words(text, settings), "--out", str(out)]


RUNS = {
    "odd": {"batch_size": 3, "epochs": 2, "temporal_penalty": 1.0, "report_every": 7, "average": "ema"},
    "lonely": {"batch_size": 1, "epochs": 1, "initial": "learned", "num_steps": 40},
    "summed": {"batch_size": 5, "epochs": 1, "sampling": "random", "accumulate": 2, "optimizer": "sgd"},
    "no time": {"batch_size": 3, "epochs": 2, "minutes": 1e-9},  # one update, and what it gave is judged
    "going on": {"batch_size": 3, "epochs": 1, "temporal_penalty": 1.0, "report_every": 7, "average": "ema"},
}
PLANNED = {"batch_size": 3, "minutes": 0.1}

OTHER_TASKS = ("translate", "fill", "tag", "classify", "compose", "forecast")


def of_task(task, data, out):
    """A training whose batches of nine do not share out evenly, and whose updates are of two of them."""
    return training(task, data[task], out, epochs=1, batch_size=9, accumulate=2, lr=0.005)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def two(text, data, tmp_path_factory):
    """What torchrun with two processes made of these runs."""
    folder = tmp_path_factory.mktemp("two")
    commands = [words(text, folder / name, **settings) for name, settings in RUNS.items()]
    commands.append([*words(text, folder / "going on", **RUNS["odd"]), "--resume"])
    commands.append(words(text, folder / "odd"))
    commands.append(words(text, folder / "planned", **PLANNED))
    commands += [of_task(task, data, folder / task) for task in OTHER_TASKS]
    (folder / "script.py").write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = subprocess.run(
        [*launch, str(folder / "script.py"), str(folder), json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return folder, ran


def measured(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one(name, two, text, tmp_path, throughtime):
    """Law 7: the same global batches, also where their rows do not share out evenly or one has none."""
    settings = RUNS["odd" if name == "going on" else name]
    assert throughtime(*words(text, tmp_path / "one", **settings)).code == 0
    agree(tmp_path / "one", two[0] / name)


@pytest.mark.parametrize("task", OTHER_TASKS)
def test_two_processes_train_any_task_as_one(task, two, data, tmp_path, throughtime):
    """Law 7 for each task: the same global batches, and sums of validation over all of its data."""
    assert throughtime(*of_task(task, data, tmp_path / "one")).code == 0
    agree(tmp_path / "one", two[0] / task)


@pytest.mark.parametrize("task", OTHER_TASKS)
def test_shares_of_validation_add_up(task, two, data):
    """Measures are ratios, which would hide rows that are counted twice."""
    model = tt.load(two[0] / task, device="cpu")
    dataset = open_dataset(str(data[task]), **model.config.data_options)
    judge = model.build_objective(dataset)
    whole = judge.validate(0, 1)
    assert max(whole.values()) > 3
    for world_size in (2, 3):
        shares = [judge.validate(rank, world_size) for rank in range(world_size)]
        assert {key: sum(share[key] for share in shares) for key in whole} == pytest.approx(whole, rel=1e-5)


def agree(one, both):
    """Weights and all that was measured are the same within rounding."""
    alone, together = (load_file(run / "model.safetensors") for run in (one, both))
    assert alone.keys() == together.keys()
    for key in alone:
        torch.testing.assert_close(together[key], alone[key], rtol=1e-4, atol=1e-5)
    for left, right in zip(
        *([line for line in measured(run) if line["kind"] != "train"] for run in (one, both)), strict=True
    ):
        assert left.keys() == right.keys()
        for key in left.keys() - {"seconds", "kind"}:
            assert right[key] == pytest.approx(left[key], rel=1e-4)


def test_only_the_first_writes_and_talks(two):
    folder, ran = two
    codes = [(folder / f"codes-{rank}").read_text().split() for rank in (0, 1)]
    assert codes == [[*"0" * len(RUNS), "0", "2", "0", *"0" * len(OTHER_TASKS)]] * 2
    assert json.loads((folder / "no time" / "training.json").read_text())["steps"] == 1
    lines = [line for line in measured(folder / "odd") if line["kind"] == "valid"]
    assert [line["epoch"] for line in lines] == [1, 2]
    # The run that goes on is one of them, and the one that is planned by time may be another. If both
    # processes talked, there would be twice as many.
    assert 2 <= ran.stdout.count("Trained 2 epochs") <= 3
    assert 2 <= ran.stderr.count("epoch 2/2") <= 3
    assert ran.stderr.count("wave.csv: 160 rows") == 1  # what was read
    assert "Traceback" not in ran.stderr
    assert "find_unused_parameters" not in ran.stderr  # torch's advice is wrong here, see objective_of


def test_two_processes_plan_together(two):
    """They measure the speed of the updates that they share, and stop after the same one."""
    finished = json.loads((two[0] / "planned" / "training.json").read_text())
    assert finished["why"] == "0.1 minutes are over"
    assert finished["steps"] > 0
    assert two[1].stderr.count("there is time for about") == 1


def test_alone_nothing_is_exchanged():
    alone = Processes()
    rows = torch.arange(6.0).reshape(3, 2)
    assert alone.first
    assert torch.equal(alone.gather_state((rows,))[0], rows)
    assert torch.equal(alone.own_rows(rows), rows)
    assert alone.sum([1.0], torch.device("cpu")) == [1.0]
    alone.barrier()


@pytest.mark.parametrize("kind", [SequentialPartition, RandomWindows])
def test_every_training_token_is_seen_once_an_epoch(kind):
    for world_size in (1, 2, 3):
        seen = []
        for rank in range(world_size):
            batches = kind(range(1000), 7, 9, seed=3, rank=rank, world_size=world_size)
            seen.append([label for batch in batches for label in batch.labels.flatten().tolist()])
        labels = [label for part in seen for label in part]
        assert len(labels) == len(set(labels))
        assert len(labels) > 1000 - 7 * 9 - 9
