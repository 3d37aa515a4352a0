"""What a row of RESULTS.md rests on: code, machine, commands, earlier readings, figures of others."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from recipes import measure as measuring
from recipes import sources as code
from recipes.__main__ import main
from recipes.commands import judging, training
from recipes.measure import machine, succeeding
from recipes.page import _compared, page
from recipes.recipe import HERE, Recipe, read_recipes
from recipes.sources import entries, imported, sources

FILES = {
    "throughtime/__init__.py": "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import throughtime.serve\n",
    "throughtime/serve.py": "SIZE = 1\n",
    "throughtime/data/__init__.py": "",
    "throughtime/data/datasets.py": "from throughtime.cli import said\n",
    "throughtime/cli.py": "said = 1\n",
    "throughtime/tasks/__init__.py": "",
    "throughtime/tasks/language/__init__.py": "",
    "throughtime/tasks/ngram/__init__.py": "",
    "throughtime/tasks/language/predictor.py": "def run():\n    from throughtime.cells import step\n",
    "throughtime/train/__init__.py": "",
    "throughtime/train/run.py": "",
    "throughtime/tasks/ngram/predictor.py": "ORDER = 3\n",
    "throughtime/cells.py": 'def step(x):\n    """One step."""\n    return x + 1  # next\n',
    "throughtime/kernels/__init__.py": "",
    "throughtime/kernels/forward.cu": "int a;\n",
}
RECIPES = {
    "trained": Recipe(title="Trained", group="Time Machine"),
    "counted": Recipe(title="Counted", group="Time Machine", task="ngram", train=("--data", "x")),
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of a package that is as small as can be."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code, "ROOTS", (tmp_path,))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "stale"),
    [
        ("cells.py", "def step(x):\n    return x + 2\n", ["trained"]),
        ("cells.py", "# Why.\ndef step(x):\n    '''Another text.'''\n\n    return (x +\n        1)\n", []),
        ("cells.py", "def step(x):\n    return x + 1\n\n\nLARGEST = None\n", ["trained"]),
        ("tasks/ngram/predictor.py", "ORDER = 4\n", ["counted"]),
        ("data/datasets.py", "from throughtime.cli import said\nNAMES = ()\n", ["trained", "counted"]),
        ("serve.py", "SIZE = 2\n", []),
        ("cli.py", "said = 2\n", []),
        ("kernels/forward.cu", "int b;\n", []),
    ],
)
def test_a_row_is_stale_when_what_it_runs_changes(tree: Path, name: str, text: str, stale: list[str]) -> None:
    before = sources(RECIPES)
    (tree / "throughtime" / name).write_text(text)
    after = sources(RECIPES)
    assert [row for row in RECIPES if before[row] != after[row]] == stale


def test_a_kernel_counts_as_it_is(tree: Path) -> None:
    (tree / "throughtime/cells.py").write_text("import throughtime.kernels\n")
    before = sources(RECIPES)
    (tree / "throughtime/kernels/forward.cu").write_text("int a; // said\n")
    after = sources(RECIPES)
    assert [row for row in RECIPES if before[row] != after[row]] == ["trained"]


def test_a_needed_run_counts_with_its_settings(tree: Path) -> None:
    needing = Recipe(title="N", group="Time Machine", needs={"run": "trained"})
    other = RECIPES["trained"].model_copy(update={"config": {"lr": 2}})
    assert (
        sources({**RECIPES, "n": needing})["n"] != sources({**RECIPES, "trained": other, "n": needing})["n"]
    )


def test_the_modules_of_a_row_are_those_that_it_runs() -> None:
    recipes = read_recipes()
    counted = imported(entries(recipes["ptb-5gram"]))
    trained = imported(entries(recipes["ptb-zaremba-small"]))
    assert {"throughtime.ngram.smoothing", "throughtime.data.datasets", "throughtime.text.codec"} <= counted
    assert not any(
        name.startswith(("throughtime.recurrence", "throughtime.train.trainer")) for name in counted
    )
    assert {
        "throughtime.train.trainer",
        "throughtime.recurrence.persistent",
        "throughtime.kernels",
    } <= trained
    assert "throughtime.series.backtest" in imported(entries(recipes["airline"]))
    assert not any(name.startswith("throughtime.cli") for name in trained)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.txt").write_text("".join(f"the cat sat on mat {number}\n" for number in range(40)))
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    counted = f'task: ngram\ntrain: [--data, {tmp_path}/toy.txt, --order, "2"]\nevaluate: [--split, test]\n'
    (recipes / "counted.yaml").write_text(f"title: Counted\ngroup: Counted language models\n{counted}")
    return recipes


def test_stale_rows_are_listed_and_marked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["counted"], folder) == 0
    assert main(["--check"], folder) == 0
    assert not capsys.readouterr().out.strip()
    monkeypatch.setattr("recipes.__main__.sources", lambda recipes: dict.fromkeys(recipes, "another"))
    assert main(["--check"], folder) == 1
    assert capsys.readouterr().out.split() == ["counted", "code", "changed"]
    assert " | code | `counted` |" in (folder.parent / "RESULTS.md").read_text()


def test_a_run_kept_from_earlier_code_stays_stale(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["counted", "--keep", str(tmp_path / "kept")]
    with monkeypatch.context() as earlier:
        earlier.setattr(measuring, "sources", lambda recipes: dict.fromkeys(recipes, "another"))
        assert main(words, folder) == 0
    assert main(words, folder) == 0
    assert "was started by earlier code" in capsys.readouterr().err
    assert main(["--check"], folder) == 1
    shutil.rmtree(tmp_path / "kept" / "counted")
    assert main(words, folder) == 0
    assert main(["--check"], folder) == 0


def test_the_machine_is_what_the_code_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    found = machine(RECIPES["trained"])
    assert re.search(
        rf"{torch.get_num_threads()} of \d+ cores, torch {re.escape(torch.__version__)}, Python 3", found
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "Some GPU")
    assert machine(RECIPES["trained"]).startswith("Some GPU, torch ")
    assert machine(RECIPES["counted"]) == found, "counting never takes a GPU"


def test_what_was_read_before_stays() -> None:
    first = {"date": "d1", "value": 3.0, "also": {"valid": 4.0}, "fingerprint": "a"}
    second = succeeding(first, {"date": "d2", "value": 2.0, "fingerprint": "b"})
    assert second["earlier"] == [{**first, "setting": "settings a"}]
    assert succeeding(second, {**second, "date": "d3"})["earlier"] == second["earlier"], "the same reading"
    third = succeeding(second, {"date": "d4", "value": 1.0, "fingerprint": "b", "earlier": second["earlier"]})
    assert [one["value"] for one in third["earlier"]] == [3.0, 2.0]
    assert third["earlier"][1]["setting"] == "the same settings"
    told = page({"toy": RECIPES["trained"]}, {"toy": {**third, "seconds": 1.0, "machine": "m"}}, {"toy": "x"})
    assert (
        "`toy`, earlier results: 3.00; valid 4.00 on d1 (settings a); 2.00 on d2 (the same settings)." in told
    )


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
    assert f"| {told}" in page({"t": recipe}, {"t": row}, {"t": ""})


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


def test_code_has_one_hash_in_every_version_of_python() -> None:
    # Some put empty texts between the parts of an f-string, and know of fewer letters.
    source = 'a = f"{b}{c:{d}}" + "\U000323af"\n'
    assert code._digest(source).startswith("1f49ceb083332fd5")


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
