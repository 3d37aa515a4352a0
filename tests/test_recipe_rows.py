"""What a row of RESULTS.md rests on: code, machine, commands, earlier readings, figures of others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recipes.__main__ import main
from recipes.commands import judging, training
from recipes.page import _compared, page
from recipes.recipe import HERE, Recipe, read_recipes

FIRST_LOSSES = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.txt").write_text("".join(f"the cat sat on mat {number}\n" for number in range(40)))
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    counted = f'task: ngram\ntrain: [--data, {tmp_path}/toy.txt, --order, "2"]\nevaluate: [--split, test]\n'
    (recipes / "counted.yaml").write_text(f"title: Counted\ngroup: Counted language models\n{counted}")
    settings = "tokens: char, hidden_size: 8, embedding_size: 8, batch_size: 2, num_steps: 5, epochs: 1"
    trained = f"config: {{data: {tmp_path}/toy.txt, {settings}}}\nfrom: train\nmeasure: train.perplexity\n"
    (recipes / "trained.yaml").write_text(f"title: Trained\ngroup: Time Machine\n{trained}")
    return recipes


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change measured.json in place."""
    rows = json.loads((folder / "measured.json").read_text())
    change(rows)
    (folder / "measured.json").write_text(json.dumps(rows))


def test_a_row_is_stale_if_one_of_its_first_figures_does_not_come_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["counted", "trained"], folder) == 0
    rows = json.loads((folder / "measured.json").read_text())
    first, value = rows["trained"]["first"], rows["counted"]["value"]
    assert len(first) == FIRST_LOSSES
    assert len(set(first)) > FIRST_LOSSES // 2, "losses of different updates"
    changed(folder, lambda rows: rows["trained"]["first"].__setitem__(5, first[5] * (1 + 1e-5)))
    changed(folder, lambda rows: rows["trained"]["first"].__setitem__(-1, first[-1] * 1.03))
    assert main(["--check"], folder) == 0, "rounding, which updates magnify"
    assert not capsys.readouterr().out.strip()
    changed(folder, lambda rows: rows["trained"]["first"].__setitem__(-1, first[-1] * 2))
    assert main(["--check", "trained"], folder) == 0, "one late loss of a training that jumps"
    for scale, code in ((1.04, 0), (1.1, 1)):
        far = [loss * scale for loss in first[35:]]
        changed(folder, lambda rows, far=far: rows["trained"]["first"].__setitem__(slice(35, None), far))
        assert main(["--check", "trained"], folder) == code, "half of the late losses"
    assert capsys.readouterr().out.split() == ["trained", "code", "changed"]
    changed(folder, lambda rows: rows["trained"].__setitem__("first", [*first]))
    changed(folder, lambda rows: rows["trained"]["first"].__setitem__(5, first[5] * 1.01))
    changed(folder, lambda rows: rows["counted"]["first"].__setitem__(0, value + 1e-6))
    assert main(["--check"], folder) == 1
    assert capsys.readouterr().out.split() == ["counted", "code", "changed", "trained", "code", "changed"]
    changed(folder, lambda rows: rows["counted"]["first"].__setitem__(0, value))
    assert main(["--check", "counted"], folder) == 0, "the other row is not checked"
    assert " | code | `trained` |" in (folder.parent / "RESULTS.md").read_text()
    assert " | code | `counted` |" not in (folder.parent / "RESULTS.md").read_text()


@pytest.mark.parametrize(
    ("measure", "row", "told"),
    [
        (
            "perplexity",
            {"value": 98.5},
            "100.0 (A): tie; dynamic 50.0 (B): ours is not measured; about 9 (C)",
        ),
        (
            "perplexity",
            {"value": 97.5, "also": {"dynamic": 52}},
            "100.0 (A): better; dynamic 50.0 (B): worse; about",
        ),
        (
            "bleu",
            {"value": 97.5, "also": {"dynamic": 52}},
            "100.0 (A): worse; dynamic 50.0 (B): better; about 9 (C)",
        ),
        ("bleu", {"value": 98.5, "values": {"0": 98.0, "1": 99.0}}, "100.0 (A): worse"),
        ("bleu", {"value": 96.0, "values": {"0": 91.0, "1": 101.0}}, "100.0 (A): tie"),
    ],
)
def test_small_differences_are_ties(measure: str, row: dict[str, Any], told: str) -> None:
    others = [{"figure": 100.0, "source": "A"}, {"figure": 50.0, "source": "B", "of": "dynamic"}]
    recipe = Recipe(
        title="T",
        group="Time Machine",
        measure=measure,
        published=(*others, {"figure": "about 9", "source": "C"}),  # type: ignore[arg-type]
    )
    row = {"seconds": 1.0, "machine": "m", "date": "d", "fingerprint": "", **row}
    assert f"| {told}" in page({"t": recipe}, {"t": row})


def test_commands_are_the_recipes_own() -> None:
    recipes = read_recipes()
    assert training("ptb-5gram", recipes["ptb-5gram"]).endswith(
        "ngram --data ptb --order 5 --smoothing kneser-ney --out RUN"
    )
    greedy = "throughtime evaluate RUN --split test --tokenize none --num-beams 1"
    assert judging("multi30k-de-en", recipes)[""] == greedy
    scaled = "throughtime evaluate RUN --split test --dynamic 2 --dynamic-decay 0.003 --dynamic-scaled"
    assert judging("ptb-mixture", recipes)["dynamic"] == scaled
    assert judging("hsk-en-zh-together", recipes)[""].count("--with hsk-en-zh-") == 3
    assert judging("airline", recipes) == {"": "throughtime backtest RUN --n-windows 2"}


DOCUMENTED_ROWS = {
    "Penn Treebank, Kneser-Ney 5-gram": ["ptb-5gram"],
    "Penn Treebank, Kneser-Ney 3-gram": ["ptb-3gram"],
    "WikiText-2, Kneser-Ney 5-gram": ["wikitext-2-5gram"],
    "Time Machine letters, Kneser-Ney 6-gram": ["timemachine-book-6gram"],
    "Penn Treebank, Zaremba's": ["ptb-zaremba-small", "ptb-zaremba-medium", "ptb-zaremba-large"],
    "Penn Treebank, AWD-LSTM": ["ptb-awd-lstm"],
    "the same AWD-LSTM": ["ptb-awd-lstm dynamic"],
    "Penn Treebank, mixture": ["ptb-mixture"],
    "the same mixture": ["ptb-mixture dynamic"],
    "WikiText-2, AWD-LSTM": ["wikitext-2-awd-lstm"],
    "Time Machine letters, LSTM": ["timemachine-book-lstm"],
    "Time Machine letters, 10,000 windows": ["timemachine-windows-gru"],
    "the same, regularised LSTM": ["timemachine-windows-lstm"],
    "Time Machine, training perplexity": ["timemachine-gru"],
    "Multi30k English to German": ["multi30k-en-de"],
    "Multi30k English to French": ["multi30k-en-fr"],
    "Multi30k German to English, greedy, with": ["multi30k-de-en"],
    "the same without attention": [
        f"multi30k-de-en-{end}" for end in ("context-and-input", "state-only", "context-only")
    ],
    "Tatoeba English to French": ["tatoeba-en-fr"],
    "Universal tags": ["ud-english-tags"],
    "SNIPS": ["snips-slots", "snips-intents"],
    "ETTh1": ["etth1-96", "etth1-192", "etth1-336", "etth1-720"],
    "ridge regression": [f"etth1-{hours} ridge" for hours in (96, 192, 336, 720)],
}


def test_the_documented_tables_have_the_figures_of_the_rows() -> None:
    rows, recipes = json.loads((HERE / "measured.json").read_text()), read_recipes()
    text = (HERE.parent / "docs" / "measurements.md").read_text("utf-8")
    section = text.split("## Quality")[1].split("## Speed")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    lines = [line for line in lines if line[1] != "measured"]
    assert len(lines) == len(DOCUMENTED_ROWS)
    for (start, names), (what, measured, published) in zip(DOCUMENTED_ROWS.items(), lines, strict=True):
        assert what.startswith(start)
        figures = re.findall(r"\d*\.\d+", measured)
        assert len(figures) == len(names)
        for name, figure in zip(names, figures, strict=True):
            row, _, label = name.partition(" ")
            value = rows[row]["also"][label] if label else rows[row]["value"]
            value *= 100 if "%" in measured else 1
            assert f"{value:.{len(figure.partition('.')[2])}f}".lstrip("0") == figure.lstrip("0"), what
            minutes = re.search(r"([\d.]+) minutes", what)
            assert minutes is None or float(minutes[1]) == pytest.approx(rows[row]["seconds"] / 60, abs=0.1)
        told = [float(figure) for figure in re.findall(r"\d*\.\d+", published)]
        verdicts = set()
        for name in names:
            row, _, label = name.partition(" ")
            for one in recipes[row].published:
                if isinstance(one.figure, str) or one.of != (label or None):
                    continue
                shown = [figure for figure in told if figure in (one.figure, round(100 * one.figure, 6))]
                if shown:
                    verdicts.add(_compared(one, recipes[row], rows[row]).rpartition(": ")[2])
                    told = [figure for figure in told if figure not in shown]
        assert not told or "1.0 to 1.1" in published, f"{what}: {told} are in no recipe"
        assert set(re.findall("tie|better|worse", published)) == verdicts, what
