"""Language models inside a page continue texts and expect tokens as those of the server do."""

from __future__ import annotations

import random

import pytest
from tests.browser.conftest import made_once
from tests.browser.same import both
from tests.graphs import untrained

KINDS = {
    "lines-gru": {"layout": "lines", "cell": "gru", "num_layers": 2, "initial": "learned"},
    "stream-lstm": {"layout": "stream", "cell": "lstm"},
    "letters": {"tokens": "char", "layout": "stream", "cell": "mingru"},
    "pieces": {"tokens": "bpe", "cell": "lstm", "num_layers": 2},
    "experts": {"experts": 3, "last_size": 9, "cell": "rnn"},
    "reversed": {"reversed": True},
}
"""Models that differ in their texts, tokens, cells, layers, outputs and direction."""


@pytest.fixture(scope="module")
def models(shared_folder):
    """The folders of models of all kinds, by their names."""

    def make(folder):
        folder.mkdir()
        for name, settings in KINDS.items():
            untrained.language(folder, **settings).rename(folder / name)

    found = made_once(shared_folder, "languages", make)
    return {name: found / name for name in KINDS}


@pytest.fixture(scope="module")
def compare(browser, exported, models):
    with both(browser, exported, models.values()) as found:
        yield found


def draw_text(dice, longest=8):
    words = [*untrained.WORDS, *untrained.WORDS, "unseen", "Öl", "<unk>", "."]
    return " ".join(dice.choices(words, k=dice.randint(0, longest)))


def draw_completion(dice, **fields):
    """A request whose fields are there or not, by chance."""
    some = {
        "temperature": dice.choice([0, 0.3, 0.7, 1, 1.6]),
        "top_k": dice.choice([1, 3, 8, 1000]),
        "top_p": dice.choice([0.2, 0.7, 1]),
        "n": dice.randint(1, 3),
        "stop": dice.choice(["e", ["cat s", "ou"], ["."]]),
        "logprobs": dice.randint(0, 5),
        "echo": True,
    }
    chosen = {name: value for name, value in some.items() if dice.random() < 0.35}
    prompt = draw_text(dice) if dice.random() < 0.8 else [draw_text(dice) for _ in range(dice.randint(1, 3))]
    seed = dice.randrange(2**50) - 2**49
    return {"prompt": prompt, "max_tokens": dice.randint(1, 16), "seed": seed, **chosen, **fields}


def in_turn(place, names=tuple(KINDS)[:-1]):
    return names[place % len(names)]


def test_completions_are_equal(compare, inputs):
    dice = random.Random(1)
    bodies = [draw_completion(dice, model=in_turn(place)) for place in range(inputs)]
    assert compare([("v1/completions", body) for body in bodies]) == ([], [])


SEARCHES = {
    "beam": {"num_beams": 4, "n": 3},
    "greedy": {},
    "sampling": {"top_k": 5, "n": 2, "seed": 8},
}


@pytest.mark.parametrize("search", SEARCHES)
def test_searches_are_equal(compare, inputs, search):
    dice = random.Random(2)
    bodies = [
        {
            "prompt": draw_text(dice),
            "max_tokens": 8,
            "search": search,
            "model": in_turn(place),
            **SEARCHES[search],
        }
        for place in range(inputs // 5)
    ]
    assert compare([("v1/completions", body) for body in bodies]) == ([], [])


def test_next_tokens_and_surprisals_are_equal(compare, inputs):
    dice = random.Random(3)
    bodies = [
        {"q": draw_text(dice), "k": dice.choice([1, 10, 50]), "model": in_turn(place)}
        for place in range(inputs)
    ]
    long = {"q": "the old tree " * 120, "model": "lines-gru"}
    assert compare([("inspect/next", body) for body in [*bodies, long]]) == ([], [])


def test_surprisals_stay_right_while_somebody_types_and_deletes(compare, inputs):
    dice, text, bodies = random.Random(5), "", []
    for place in range(inputs):
        if dice.random() < 0.7:
            text += f" {dice.choice(untrained.WORDS)} {dice.choice(untrained.WORDS)}"
        else:
            text = text[: dice.randint(len(text) // 2, len(text))]
        bodies.append({"q": text[:1900], "model": ("lines-gru", "letters")[place // 5 % 2]})
    assert compare([("inspect/next", body) for body in bodies]) == ([], [])


def test_gates_are_equal(compare, inputs):
    dice, gated = random.Random(4), [name for name in KINDS if name != "experts"]
    bodies = [
        {"q": f"{draw_text(dice)} cat", "units": dice.randint(2, 20), "model": in_turn(place, gated)}
        for place in range(inputs // 2)
    ]
    second = {"q": "the old cat", "layer": 1, "model": "pieces"}
    assert compare([("inspect/gates", body) for body in [*bodies, second]]) == ([], [])


def test_tokens_by_number_are_prompts_too(compare):
    bodies = [
        {"prompt": [[5, 6], [7]], "max_tokens": 4, "seed": 1, "echo": True, "model": "lines-gru"},
        {"prompt": [3], "max_tokens": 0, "echo": True, "logprobs": 2, "model": "stream-lstm"},
    ]
    assert compare([("v1/completions", body) for body in bodies]) == ([], [])


def test_what_the_server_refuses_a_page_refuses(compare):
    wrong = [
        ("v1/completions", {"prompt": "the", "max_tokens": 0}),
        ("v1/completions", {"prompt": [99_999]}),
        ("v1/completions", {"prompt": {}}),
        ("v1/completions", {"prompt": "the", "temperature": 3}),
        ("v1/completions", {"prompt": "the", "top_p": 0}),
        ("v1/completions", {"prompt": "the", "top_k": 0}),
        ("v1/completions", {"prompt": "the", "seed": "x"}),
        ("v1/completions", {"prompt": "the", "n": 99}),
        ("v1/completions", {"prompt": "the", "logprobs": 9}),
        ("v1/completions", {"prompt": "the", "stop": ["a"] * 5}),
        ("v1/completions", {"prompt": "the", "num_beams": 2}),
        ("v1/completions", {"prompt": "the", "search": "beam", "seed": 1}),
        ("v1/completions", {"prompt": "the", "search": "greedy", "n": 2}),
        ("v1/completions", {"prompt": "the", "search": "greedy", "num_beams": 2}),
        ("v1/completions", {"prompt": "the", "search": "greedy", "seed": 2}),
        ("v1/completions", {"prompt": "the", "groups": 2}),
        ("v1/completions", {"prompt": "the", "max_token": 2}),
        ("v1/completions", {"prompt": "the", "search": "beam", "n": 7}),
        ("v1/completions", {"prompt": "the", "search": "nothing"}),
        ("v1/completions", {"prompt": "the", "logit_bias": {"5": 1}}),
        ("v1/completions", {"prompt": "the", "model": "reversed"}),
        ("inspect/next", {"q": "the", "model": "reversed"}),
        ("inspect/next", {"q": "the " * 600}),
        ("inspect/next", {"q": "the", "k": 0}),
        ("inspect/gates", {"q": " "}),
        ("inspect/gates", {"q": "the", "layer": 2}),
        ("inspect/gates", {"q": "the", "units": 1}),
        ("inspect/gates", {"q": "the", "model": "experts"}),
    ]
    asked = [(path, {"model": "lines-gru", **body}) for path, body in wrong]
    told, refused = compare(asked)
    assert (told, len(refused)) == ([], len(wrong))
