"""Models inside a page write the same texts from labels and vectors as those of the server."""

from __future__ import annotations

import random

import pytest
from tests.browser.conftest import made_once
from tests.browser.same import both
from tests.graphs import untrained

KINDS = {
    "labels-lstm": {"num_layers": 2},
    "labels-pieces": {"tokens": "bpe", "fed": False, "cell": "gru"},
    "vectors-lstm": {"vectors": True},
    "vectors-letters": {"vectors": True, "fed": False, "cell": "gru", "tokens": "char", "tied": False},
}


@pytest.fixture(scope="module")
def compare(browser, exported, shared_folder):
    def make(folder):
        folder.mkdir()
        for name, settings in KINDS.items():
            untrained.composer(folder, **settings).rename(folder / name)

    found = made_once(shared_folder, "composers", make)
    with both(browser, exported, [found / name for name in KINDS]) as compare:
        yield compare


def draw_condition(dice, name):
    if name.startswith("labels"):
        return {"label": dice.choice(["sea", "city", ["sea", "city", "sea"]])}
    one, other = ([dice.uniform(-5_000, 80_000), dice.choice([0, 0.1])] for _ in range(2))
    return {"vector": dice.choice([one, [one, other]])}


def test_texts_are_equal(compare, inputs):
    dice, asked = random.Random(1), []
    for place in range(inputs):
        name = list(KINDS)[place % len(KINDS)]
        some = {
            "temperature": dice.choice([0.3, 0.7, 1, 1.6]),
            "top_k": dice.choice([1, 3, 8, 1000]),
            "top_p": dice.choice([0.2, 0.7, 1]),
            "num_return_sequences": dice.randint(1, 4),
        }
        chosen = {field: value for field, value in some.items() if dice.random() < 0.5}
        limits = {"seed": dice.randrange(2**31), "max_new_tokens": dice.randint(1, 20)}
        asked.append(("compose", {"model": name, **draw_condition(dice, name), **chosen, **limits}))
    assert compare(asked) == ([], [])


@pytest.mark.parametrize(
    "options",
    [
        {"greedy": True},
        {"temperature": 0},
        {"num_beams": 4, "num_return_sequences": 3},
        {"search": "beam", "length_penalty": 0.1},
        {"search": "sampling", "seed": 4},
    ],
)
def test_searches_are_equal(compare, options):
    dice = random.Random(2)
    asked = [{"model": name, **draw_condition(dice, name), "max_new_tokens": 9, **options} for name in KINDS]
    assert compare([("compose", body) for body in asked]) == ([], [])


def test_what_the_server_refuses_a_page_refuses(compare):
    wrong = [
        {},
        {"label": "sea", "vector": [1, 2]},
        {"label": "mountain"},
        {"vector": [1, 2]},
        {"label": 5},
        {"label": "sea", "num_return_sequences": 17},
        {"label": "sea", "greedy": True, "num_return_sequences": 2},
        {"label": "sea", "greedy": True, "num_beams": 2},
        {"label": "sea", "greedy": True, "seed": 2},
        {"label": "sea", "search": "greedy", "top_k": 2},
        {"label": "sea", "num_beams": 2, "num_return_sequences": 3},
        {"label": "sea", "max_new_tokens": 0},
        {"label": "sea", "search": "nothing"},
        {"label": "sea", "temperature": -1},
        {"model": "vectors-lstm", "label": "sea"},
        {"model": "vectors-lstm", "vector": [1]},
        {"model": "vectors-lstm", "vector": [1, "x"]},
        {"model": "vectors-lstm", "vector": []},
    ]
    told, refused = compare([("compose", {"model": "labels-lstm", **body}) for body in wrong])
    assert (told, len(refused)) == ([], len(wrong))
