"""How a command ends that does not come to its end: Ctrl-C, a full disk, a reader that has left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.refusals import lacks

FULL = Path("/dev/full")
WITH_AND_WITHOUT_JSON = pytest.mark.parametrize("json_wanted", [False, True], ids=["plain", "json"])
THROUGHTIME = [sys.executable, "-m", "throughtime"]
# Buffered as in anybody's terminal: what is left in a buffer is written when Python ends.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.fixture(autouse=True)
def heard():
    """Let Ctrl-C be heard, here and in processes begun here: a shell's background jobs are deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@WITH_AND_WITHOUT_JSON
def test_ctrl_c_is_told_in_a_word(tmp_path, json_wanted):
    text, out = tmp_path / "long.txt", tmp_path / "run"
    text.write_text("".join(f"the {n} men see {n % 997} dogs and {n % 101} cats\n" for n in range(200_000)))
    words = ["train", "ngram", "--data", str(text), "--out", str(out), *["--json"] * json_wanted]
    with subprocess.Popen(
        [*THROUGHTIME, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stderr is not None
        assert "200,000 lines" in process.stderr.readline()
        assert process.stderr.readline().startswith("Counting")
        process.send_signal(signal.SIGINT)
        told, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert messages == "Interrupted.\n"
    assert (json.loads(told) == {"error": "Interrupted."}) if json_wanted else told == ""
    assert list(tmp_path.iterdir()) == [text]


@WITH_AND_WITHOUT_JSON
def test_ctrl_c_in_any_command(throughtime, monkeypatch, json_wanted):
    def interrupted(run):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("throughtime.cli.evaluate.read_task_name", interrupted)
    ran = throughtime("evaluate", "run", *["--json"] * json_wanted)
    assert (ran.code, ran.err) == (130, "Interrupted.\n")
    assert (ran.json == {"error": "Interrupted."}) if json_wanted else ran.out == ""


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full to write to")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (["--version"], 1, ("stdout:",)),
        (["data", "list"], 1, ("stdout:",)),
        (["data", "list", "--json"], 1, ("stdout:",)),
        (["evaluate", "no-run", "--json"], 2, ("no-run:",)),
    ],
)
def test_a_full_disk_gets_one_sentence(words, code, facts, unbuffered):
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    with FULL.open("w") as full:
        done = subprocess.run(
            [*THROUGHTIME, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert done.returncode == code
    assert not lacks(done.stderr, "error:", *facts)
    assert done.stderr.count("\n") == 1


@WITH_AND_WITHOUT_JSON
def test_a_reader_that_has_left_is_no_failure(json_wanted):
    reading, writing = os.pipe()
    os.close(reading)
    words = ["data", "list", *["--json"] * json_wanted]
    done = subprocess.run([*THROUGHTIME, *words], stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["--help"], ["translate", "--help"], []], ids=" ".join)
def test_a_reader_that_leaves_in_the_help_is_no_failure(words):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*THROUGHTIME, *words], stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def with_closed(streams, *words):
    """The command begun by a shell that has closed these streams for it."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh"]
    return subprocess.run([*shell, *THROUGHTIME, *words], capture_output=True, text=True, env=ENVIRONMENT)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [["data", "list"], ["data", "list", "--json"]], ids=" ".join)
def test_closed_streams_lead_nowhere(words, streams):
    done = with_closed(streams, *words)
    assert done.returncode == 0
    assert done.stderr == ""
    assert bool(done.stdout) == (">&-" not in streams.replace("2>&-", "").split())


def test_a_closed_stream_does_not_hide_a_failure():
    done = with_closed("<&- >&-", "evaluate", "nowhere", "--json")
    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere: ")


def test_a_filter_with_a_closed_stdin_has_nothing_to_do(tmp_path, throughtime, monkeypatch):
    (tmp_path / "text.txt").write_text("the cat sleeps\nthe dog sees the cat\n" * 5)
    made = throughtime("train", "ngram", "--data", tmp_path / "text.txt", "--out", tmp_path / "run")
    assert made.code == 0, made.err
    (tmp_path / "nothing").touch()
    monkeypatch.setattr("os.devnull", str(tmp_path / "nothing"))
    monkeypatch.setattr("sys.stdin", None)  # as Python has it then
    ran = throughtime("score", tmp_path / "run")
    with sys.stdin:
        assert (ran.code, ran.out, lacks(ran.err, "stdin")) == (0, "", [])


def test_a_shell_is_told_what_could_come_next():
    asked = {"_THROUGHTIME_COMPLETE": "complete_bash", "COMP_WORDS": "throughtime tra", "COMP_CWORD": "1"}
    done = subprocess.run(THROUGHTIME, capture_output=True, text=True, env={**ENVIRONMENT, **asked})
    assert sorted(done.stdout.split()) == ["train", "translate"]
