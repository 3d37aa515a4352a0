"""The fuzzing run itself: it counts, finds what it should, keeps the input and tells by its exit code."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from throughtime.data.readers import READERS
from throughtime.errors import InputError
from tools import fuzz, fuzz_server


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of the process of the tests is not limited."""
    monkeypatch.setattr(fuzz, "limit_memory", lambda: None)


def refuse_odd(number: int) -> None:
    if number % 2:
        raise InputError("number", "is odd")


def test_answers_and_refusals_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = fuzz.Target("numbers", st.integers(0, 100), refuse_odd)
    assert fuzz.fuzz([target], 0.3, tmp_path / "out") == 0
    assert 0 < target.refused < target.tried
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "total",
        f"{target.tried:,}",
        f"{target.refused:,}",
        "0",
    ]
    assert not (tmp_path / "out").exists()


def crash(number: int) -> None:
    if number > 1_000:
        raise KeyError(number)


def stall(number: int) -> None:
    if number > 1_000:
        time.sleep(5)


def ramble(number: int) -> None:
    raise InputError("number", "is\nwrong")


@pytest.mark.parametrize(
    ("attempt", "error"), [(crash, "KeyError"), (stall, "TimeoutError"), (ramble, "line")]
)
def test_failures_are_reduced_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt, error
) -> None:
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.05)
    monkeypatch.setattr(fuzz, "MAX_FAILURES", 1)
    target = fuzz.Target("some Numbers", st.integers(0, 10**6), attempt)
    assert fuzz.fuzz([target], 20, tmp_path) == 1
    (kept,) = tmp_path.iterdir()
    assert kept.name == "some-numbers-1.txt"
    assert kept.read_text().splitlines()[0] == ("0" if attempt is ramble else "1001")
    assert error in kept.read_text()
    assert str(kept) in target.failures[0]


@pytest.mark.filterwarnings("ignore::throughtime.errors.ThroughtimeWarning")  # what was dropped is said
def test_every_reader_of_files_is_a_target_and_takes_some_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 100.0)  # other tests may keep the machine busy
    targets = list(fuzz.file_targets(tmp_path))
    assert {f"reader {name}" for name in READERS} <= {target.name for target in targets}
    for target in targets:
        target.examples = 3
        fuzz.try_target(target, time.monotonic() + 60, tmp_path / "out")
        assert target.tried >= 3
    assert not list(itertools.chain.from_iterable(target.failures for target in targets))


@pytest.mark.slow
def test_a_server_is_fed_and_its_health_measured(tmp_path, capsys):
    with fuzz_server.server_targets(tmp_path) as targets:
        for target in targets:
            target.examples = 3
            fuzz.try_target(target, time.monotonic() + 60, tmp_path / "out")
    assert [(target.tried, target.failures) for target in targets] == [(3, [])] * 3
    assert capsys.readouterr().out.count("/health took at most") >= 3


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", 0),
        (b"HTTP/1.1 200 OK\r\n\r\nx", 200),
        (b'HTTP/1.1 431 No\r\n\r\n{"error": "long"}', 431),
        (b"HTTP/1.1 500 No\r\n\r\n", None),
        (b"HTTP/1.1 400 No\r\n\r\n{}", None),
        (b"HELO", None),
    ],
)
def test_an_answer_that_no_server_should_send_is_a_failure(answer, status):
    if status is not None:
        assert fuzz_server._status(answer) == status
        return
    with pytest.raises(ValueError, match=r"answered|no error"):
        fuzz_server._status(answer)
