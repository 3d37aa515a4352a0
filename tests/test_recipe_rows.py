"""What a row of RESULTS.md rests on: code, machine, commands, earlier readings, figures of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recipes.__main__ import main
from recipes.measure import come_out
from recipes.page import page
from recipes.recipe import Recipe

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
    assert main(["--check"], folder) == 0, "rounding"
    assert not capsys.readouterr().out.strip()
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
    ("changes", "comes_out"),
    [
        ({5: 1 + 1e-5, 20: 1 + 1e-4, 49: 1.009}, True),  # rounding that updates magnify
        ({5: 1 + 1e-5, 20: 1 + 1e-4, 49: 1.02}, False),  # a late loss that is suddenly far
        ({0: 1.01}, False),
        ({0: 1.0009}, True),
    ],
)
def test_losses_may_differ_as_far_as_rounding_grows(changes: dict[int, float], comes_out: bool) -> None:
    figures = [3.0 - number / 50 for number in range(FIRST_LOSSES)]
    stored = [figure * changes.get(number, 1.0) for number, figure in enumerate(figures)]
    recipe = Recipe(title="A toy", group="Time Machine", config={"data": "x"})
    assert come_out(recipe, {"first": stored}, figures) is comes_out
    assert not come_out(recipe, {"first": stored[1:]}, figures)


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
