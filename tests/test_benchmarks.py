"""The benchmarks that are run by a name of their own: their words, and the table of LSTM and GRU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import complexity, lstm_gru

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Weights and memory at README's sizes, speed at a tiny one."""
    return lstm_gru.run(steps=2, batch=1, turns=1)


def test_lstm_against_gru_has_its_counts(found: dict[str, Any]) -> None:  # R61
    lstm, gru, before = (found[name] for name in ("lstm", "gru", "gru-before"))
    h = found["shape"][2]
    assert (lstm["weights"], lstm["biases"]) == (4 * h * (h + h), 4 * h)
    # 3/4 but for biases: with the reset after the product, that of the candidate's state stands alone.
    assert gru["weights"] == before["weights"] == lstm["weights"] * 3 // 4
    assert (gru["biases"], before["biases"]) == (3 * h + h, 3 * h)


def test_gates_that_keep_remember_longer(found: dict[str, Any]) -> None:  # R61
    for name in lstm_gru.NAMES:
        assert found[name]["left_after_200_steps"] < 1e-20
        assert found[name]["left_after_200_steps_keep_0.98"] > 1e-2
        assert found[name]["milliseconds"] > 0


def test_the_readme_s_table_is_reproduced(found: dict[str, Any]) -> None:  # R61
    cell = r" ([\d.,e+-]+) \|"
    for name in lstm_gru.NAMES:
        line = re.search(rf"^\| {name} \|{cell * 5}$", README.read_text("utf-8"), re.MULTILINE)
        assert line is not None, f"README has no line of {name}"
        weights, biases, _, drawn, kept = (float(number.replace(",", "")) for number in line.groups())
        own = found[name]
        assert (weights, biases) == (own["weights"], own["biases"])
        assert drawn == pytest.approx(own["left_after_200_steps"], rel=0.05)
        assert kept == pytest.approx(own["left_after_200_steps_keep_0.98"], rel=0.05)


def test_the_table_has_a_line_a_cell(found: dict[str, Any]) -> None:
    head, *lines = lstm_gru.table({name: found[name] for name in lstm_gru.NAMES})
    assert head.split()[:3] == ["weights", "biases", "ms"]
    assert [line.split()[:3] for line in lines] == [
        ["lstm", "524,288", "1,024"],
        ["gru", "393,216", "1,024"],
        ["gru-before", "393,216", "768"],
    ]


@pytest.mark.parametrize("benchmark", [lstm_gru, complexity])
def test_help_measures_nothing(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "run", lambda *sizes: pytest.fail("it was run"))
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["--help"])
    assert stopped.value.code == 0


def test_words_become_sizes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lstm_gru, "run", lambda *sizes: {"sizes": sizes})
    lstm_gru.main(["--steps", "2", "--batch", "3", "--hidden", "4", "--turns", "5", "--json"])
    assert capsys.readouterr().out == '{"sizes": [2, 3, 4, 5]}\n'
    with pytest.raises(SystemExit) as stopped:
        lstm_gru.main(["--turns", "0"])
    assert stopped.value.code == 2
    assert "--turns: is '0', expected a whole number of at least 1" in capsys.readouterr().err


def test_complexity_refuses_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(complexity, "run", lambda lengths: pytest.fail("it was run"))
    for longest in ("1", "200", "-5"):
        with pytest.raises(SystemExit) as stopped:
            complexity.main(["--longest", longest])
        assert stopped.value.code == 2
        assert f"--longest: is {longest}, expected at least 256" in capsys.readouterr().err
    assert complexity.main(["--plot", str(tmp_path / "c.foo")]) == 2
    assert "c.foo: is not a picture that can be written; end it in .png" in capsys.readouterr().err


def test_complexity_measures_as_far_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(complexity, "run", lambda lengths: {"lengths": lengths})
    assert complexity.main(["--longest", "600"]) == 0
    assert capsys.readouterr().out == '{"lengths": [128, 256, 512]}\n'
