"""Checkpoints: exact, whole or not there, refused with a sentence when damaged."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.fit import checkpoint as module
from throughtime.fit.checkpoint import STATE, TENSORS, Checkpoints
from throughtime.manifest import write_manifest

VALUES = {"epoch": 3, "scores": [0.1 + 0.2, 1e-320, math.inf], "position": {"seed": 2**63, "name": "é"}}


def weights(fill: float = 1.0) -> dict[str, torch.Tensor]:
    return {"model.weight": torch.full((4, 3), fill), "optimizer.0.step": torch.tensor(fill)}


@pytest.fixture
def checkpoints(tmp_path):
    saved = Checkpoints(tmp_path / "run" / "checkpoints", keep=3)
    for step in (1000, 2000):
        saved.save(step, weights(step), VALUES)
    return saved


def test_what_is_saved_is_loaded(checkpoints):
    latest = checkpoints.latest()
    assert (latest.step, latest.path.name) == (2000, "step-00002000")
    assert latest.values == VALUES
    assert latest.tensors.keys() == weights().keys()
    assert all(torch.equal(value, weights(2000)[name]) for name, value in latest.tensors.items())
    assert checkpoints.latest("step-00001000").step == 1000


def test_nothing_saved_is_none(tmp_path):
    nothing = Checkpoints(tmp_path / "nowhere", keep=2)
    assert nothing.latest() is None
    assert nothing.names() == []


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_values_come_back_exactly(tmp_path_factory, values):
    saved = Checkpoints(tmp_path_factory.mktemp("run"), keep=2)
    saved.save(1, {}, values)
    assert repr(saved.latest().values) == repr(values)


def test_tensors_of_any_kind_come_back(tmp_path):
    whole = torch.randn(6, 4)
    tensors = {
        "whole": whole,
        "tied": whole,
        "part": whole[2:4],
        "turned": whole.t(),
        "spread": torch.ones(3, 1).expand(3, 5),
        "half": torch.randn(7).bfloat16(),
        "seeds": torch.arange(5, dtype=torch.uint8),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "nothing": torch.zeros(2, 0),
        "learned": torch.nn.Parameter(torch.randn(2)),
        "odd": torch.tensor([math.nan, math.inf, -0.0]),
    }
    saved = Checkpoints(tmp_path, keep=2)
    saved.save(7, tensors, {})
    loaded = saved.latest().tensors
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        torch.testing.assert_close(loaded[name], tensor.detach(), rtol=0, atol=0, equal_nan=True)


def test_the_newest_stay(checkpoints):
    for step in (3000, 4000, 100_000_000_000):
        checkpoints.save(step, weights(), {})
    assert checkpoints.names() == ["step-00003000", "step-00004000", "step-100000000000"]
    assert sorted(entry.name for entry in checkpoints.folder.iterdir()) == sorted(checkpoints.names())


def test_going_on_from_an_earlier_one_never_drops_what_was_just_saved(checkpoints):
    checkpoints.save(3000, weights(), {})
    path = checkpoints.save(1500, weights(), {})
    assert path.is_dir()
    assert checkpoints.names() == ["step-00001500", "step-00002000", "step-00003000"]


def test_a_step_saved_twice_stays_as_it_is(checkpoints):
    before = (checkpoints.folder / "step-00002000" / STATE).stat()
    checkpoints.save(2000, weights(5), {})
    assert (checkpoints.folder / "step-00002000" / STATE).stat() == before
    assert checkpoints.latest().values == VALUES


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def rename_step(path):
    path.write_text(path.read_text().replace('"step"', '"stop"', 1))


DAMAGES = {
    "tensors cut": (
        lambda p: (p / TENSORS).write_bytes((p / TENSORS).read_bytes()[:-3]),
        TENSORS,
    ),
    "tensors emptied": (lambda p: (p / TENSORS).write_bytes(b""), TENSORS),
    "header flipped": (lambda p: flip(p / TENSORS, 12), TENSORS),
    "weight flipped": (lambda p: flip(p / TENSORS, -1), TENSORS),
    "tensors gone": (lambda p: (p / TENSORS).unlink(), TENSORS),
    "state cut": (lambda p: (p / STATE).write_bytes((p / STATE).read_bytes()[:-9]), STATE),
    "state emptied": (lambda p: (p / STATE).write_text(""), STATE),
    "state not text": (lambda p: (p / STATE).write_bytes(b"\xff\xfe"), STATE),
    "state a list": (lambda p: (p / STATE).write_text("[]"), STATE),
    "state gone": (lambda p: (p / STATE).unlink(), STATE),
    "value edited": (lambda p: edit(p / STATE, values={**VALUES, "epoch": 4}), STATE),
    "step edited": (lambda p: edit(p / STATE, step=1999), STATE),
    "values gone": (lambda p: edit(p / STATE, values=None), STATE),
    "state nested deeply": (lambda p: (p / STATE).write_text("[" * 100_000), STATE),
    "values gone, sums too": (lambda p: [edit(p / STATE, values=None), write_manifest(p)], STATE),
    "step gone, sums too": (lambda p: [rename_step(p / STATE), write_manifest(p)], STATE),
    "other format": (lambda p: edit(p / STATE, format="pt"), STATE, "'pt'"),
    "newer": (lambda p: edit(p / STATE, version=99), STATE, "99"),
    "without best_step": (lambda p: edit(p / STATE, version=3), STATE, "3"),
    "foreign folder": (lambda p: [entry.unlink() for entry in p.iterdir()], STATE),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_and_the_one_before_offered(checkpoints, damage):
    harm, file, *facts = DAMAGES[damage]
    harm(checkpoints.folder / "step-00002000")
    with refuses(checkpoints.folder / "step-00002000" / file, *facts, "step-00001000"):
        checkpoints.latest()
    assert checkpoints.latest("step-00001000").step == 1000
    harm(checkpoints.folder / "step-00001000")
    with refuses(checkpoints.folder / "step-00001000" / file, checkpoints.folder.parent):
        checkpoints.latest("step-00001000")
    with refuses(checkpoints.folder / "step-00002000" / file) as refused:
        checkpoints.latest()
    assert "step-00001000" not in str(refused.value)  # which cannot be read either


def test_a_damaged_step_is_written_anew_when_training_reaches_it_again(checkpoints):
    flip(checkpoints.folder / "step-00002000" / TENSORS, -1)
    checkpoints.save(2000, weights(2000), VALUES)
    assert checkpoints.latest().step == 2000


def test_a_renamed_checkpoint_is_refused(checkpoints):
    (checkpoints.folder / "step-00002000").rename(checkpoints.folder / "step-00009000")
    with refuses("step-00009000/state.json", "2000"):
        checkpoints.latest()


def test_a_file_of_a_checkpoints_name_is_refused(checkpoints):
    (checkpoints.folder / "step-00009000").write_text("")
    with refuses("step-00009000/state.json"):
        checkpoints.latest()


def test_an_unknown_name_lists_those_there_are(checkpoints):
    with refuses("checkpoint", "'last'", "step-00001000", "step-00002000"):
        checkpoints.latest("last")


@pytest.mark.parametrize("place", ["save_file", "write_manifest", "_flush"])
def test_a_save_that_fails_leaves_the_one_before(checkpoints, monkeypatch, place):
    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, place, stop)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(3000, weights(), {})
    monkeypatch.undo()
    assert checkpoints.latest().step == 2000
    assert [entry.name for entry in checkpoints.folder.iterdir() if entry.name.startswith(".")] == []


def test_a_full_disk_names_the_checkpoint(checkpoints):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as full:
            checkpoints.save(3000, {"weight": torch.zeros(10_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.value.filename == str(checkpoints.folder / "step-00003000")
    assert checkpoints.latest().step == 2000


SAVER = """
    import sys, torch
    from pathlib import Path
    from throughtime.fit.checkpoint import Checkpoints

    checkpoints = Checkpoints(Path(sys.argv[1]), keep=2)
    checkpoints.sweep()
    latest = checkpoints.latest()
    step = latest.step if latest else 0
    print("ready", flush=True)
    while True:
        step += 1
        checkpoints.save(step, {"weight": torch.full((300, 300), float(step))}, {"step": step})
"""


def test_killed_at_any_moment_the_latest_loads(tmp_path):
    folder, reached = tmp_path / "checkpoints", 0
    for wait in (0.03, 0.071):
        saver = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SAVER), str(folder)], stdout=subprocess.PIPE
        )
        assert saver.stdout is not None
        assert saver.stdout.readline() == b"ready\n"
        while f"step-{reached + 1:08d}" > max(Checkpoints(folder, keep=2).names(), default=""):
            time.sleep(0.001)
        time.sleep(wait)
        saver.send_signal(signal.SIGKILL)
        saver.wait()
        saver.stdout.close()
        latest = Checkpoints(folder, keep=2).latest()
        assert latest.step > reached
        assert latest.values == {"step": latest.step}
        assert torch.equal(latest.tensors["weight"], torch.full((300, 300), float(latest.step)))
        reached = latest.step
    Checkpoints(folder, keep=2).sweep()
    Checkpoints(folder, keep=2).save(reached + 1, {}, {})
    assert len(list(folder.iterdir())) == 2  # nothing that the killed ones left is still there
