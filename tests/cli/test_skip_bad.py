"""`--skip-bad`: named where a bad record stops a command, and remembered by the run that was trained so."""

from __future__ import annotations

import pytest
from tests.refusals import lacks
from tests.tiny import tiny_data, training

from throughtime.folder import ModelFolder

BAD = {
    "ngram": "\x07\x07 one\n",
    "language": "\x07\x07 one\n",
    "translate": "one two\n",
    "classify": "one two\n",
    "forecast": "much\n",
}
"""A line that the reader of each task's data refuses."""


@pytest.fixture
def data(tmp_path):
    """Data of every task, each with a bad record in its fourth line."""
    found = tiny_data(tmp_path)
    for path, bad in {found[task]: bad for task, bad in BAD.items()}.items():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:3], bad, *lines[3:]]))
    return found


@pytest.fixture
def trained(data, tmp_path, throughtime):
    """Train a task on its data with --skip-bad, and give the run."""

    def train(task, name="run"):
        out = tmp_path / name
        ran = throughtime(*training(task, data[task], out, epochs=1), "--skip-bad")
        assert ran.code == 0, ran.err
        assert "skipped 1 bad record" in ran.err
        return out

    return train


@pytest.mark.parametrize("task", list(BAD))
def test_what_stops_training_names_the_option(task, data, tmp_path, throughtime):
    ran = throughtime(*training(task, data[task], tmp_path / "run", epochs=1))
    assert ran.code == 2
    assert "--skip-bad" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", list(BAD))
def test_a_run_is_judged_on_the_data_that_it_was_trained_on(task, data, trained, throughtime):
    run = trained(task)
    ran = throughtime("evaluate", run, "--split", "all", "--json")
    assert ran.code == 0, ran.err
    # A forecaster goes on from the series in its folder, which has no bad records.
    assert ("skipped 1 bad record" in ran.err) == (task != "forecast")
    assert ran.json == throughtime("evaluate", run, "--split", "all", "--skip-bad", "--json").json
    # Other data were not looked through by whoever trained it.
    other = data[task].with_stem("other")
    other.write_text(data[task].read_text())
    refused = throughtime("evaluate", run, "--data", other, "--split", "all")
    assert refused.code == 2
    assert "--skip-bad" in refused.err
    assert throughtime("evaluate", run, "--data", other, "--split", "all", "--skip-bad").code == 0


def test_a_run_without_it_stays_strict(data, tmp_path, throughtime):
    text = data["language"].read_text()
    data["language"].write_text(text.replace(BAD["language"], ""))
    run = tmp_path / "run"
    assert throughtime(*training("language", data["language"], run, epochs=1)).code == 0
    assert not (run / "data.json").exists()
    data["language"].write_text(text)
    assert "--skip-bad" in throughtime("evaluate", run).err


def test_it_is_remembered_when_training_goes_on_and_in_averages(data, trained, tmp_path, throughtime):
    run = trained("language")
    longer = training("language", data["language"], run, epochs=2)
    ran = throughtime(*longer, "--resume")
    assert ran.code == 0, ran.err
    assert throughtime("average", run, "--last", 1, "--out", tmp_path / "mean").code == 0
    assert throughtime("evaluate", tmp_path / "mean").code == 0
    assert ModelFolder.at(tmp_path / "mean").skips_bad


def test_forecasts_and_backtests_go_on_from_the_rows_of_training(trained, throughtime):
    from throughtime import load

    run = trained("forecast")
    forecast = throughtime("forecast", run, "--json")
    backtest = throughtime("backtest", run, "--n-windows", 2, "--json")
    for ran in (forecast, backtest):
        assert (ran.code, ran.err) == (0, "")
    [row, *_] = forecast.json["rows"]
    assert load(run, device="cpu").forecast()[0].mean[0] == pytest.approx(list(row.values())[2])


def test_score_leaves_bad_pairs_out_when_told(trained, tmp_path, throughtime):
    run, pairs = trained("translate"), tmp_path / "candidates.tsv"
    pairs.write_text("one two\tun deux\none\n")
    refused = throughtime("score", run, "--pairs", pairs)
    assert refused.code == 2
    assert "--skip-bad" in refused.err
    ran = throughtime("score", run, "--pairs", pairs, "--skip-bad", "--json")
    assert len(ran.json["pairs"]) == 1
    assert "skipped 1 bad record" in ran.err
    alone = throughtime("score", run, "one", "--skip-bad")
    assert alone.code == 2
    assert not lacks(alone.err, "--skip-bad:", "--pairs")


def test_only_a_bad_record_names_the_option(tmp_path, throughtime):
    ran = throughtime("stats", tmp_path / "nowhere.txt")
    assert ran.code == 2
    assert "--skip-bad" not in ran.err
    bad = tmp_path / "pairs.tsv"
    bad.write_text("one\ttwo\nthree\n")
    assert "--skip-bad" in throughtime("stats", bad).err
    assert "--skip-bad" not in throughtime("data", "show", bad).err
