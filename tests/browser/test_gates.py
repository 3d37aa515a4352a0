"""The gates of every cell and of every task that shows them, inside a page as on a server."""

from __future__ import annotations

import random

import pytest
from tests.browser.conftest import made_once
from tests.browser.same import both
from tests.graphs import untrained

from throughtime.cells import CELLS

MAKERS = {"classify": untrained.classifier, "fill": untrained.filler, "tag": untrained.tagger}
GATED = [name for name in CELLS if not name.startswith("rnn")]
NAMES = [*GATED, *(f"gates-{task}" for task in MAKERS)]


@pytest.fixture(scope="module")
def compare(browser, exported, shared_folder):
    def make(folder):
        folder.mkdir()
        for cell in GATED:
            untrained.language(folder, cell=cell, num_layers=2, tied=False).rename(folder / cell)
        for task, build in MAKERS.items():
            build(folder).rename(folder / f"gates-{task}")

    found = made_once(shared_folder, "gated", make)
    with both(browser, exported, [found / name for name in NAMES]) as compare:
        yield compare


def test_gates_of_every_cell_and_task_are_equal(compare, inputs):
    dice, asked = random.Random(1), []
    words = [*untrained.WORDS, "unseen", "___", "."]
    for place in range(max(inputs, 2 * len(NAMES))):
        text = " ".join(dice.choices(words, k=dice.randint(1, 9)))
        body = {"q": text, "model": NAMES[place % len(NAMES)], "units": dice.choice([2, 5, 12, 48])}
        asked.append(("inspect/gates", {**body, "layer": place // len(NAMES) % 2}))
    told, refused = compare(asked)
    assert told == []
    assert {one["layer"] for one in refused} <= {1}  # some models have one layer only


def test_long_texts_are_refused(compare):
    told, refused = compare([("inspect/gates", {"q": "a " * 500, "model": name}) for name in NAMES])
    assert (told, len(refused)) == ([], len(NAMES))
