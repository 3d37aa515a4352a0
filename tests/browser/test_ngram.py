"""N-gram models inside a page, with every smoothing, answer what the server answers."""

from __future__ import annotations

import random

import pytest
from tests.browser.conftest import made_once
from tests.browser.same import both
from tests.browser.test_language import draw_completion, draw_text
from tests.graphs import untrained

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel

KINDS = {
    "singles": {"order": 1},
    "kneser-ney": {"order": 4},
    "laplace": {"order": 5, "smoothing": "laplace", "strengths": (1.0, 20.0)},
    "dirichlet": {"order": 3, "smoothing": "dirichlet"},
    "frequency": {"order": 3, "smoothing": "relative-frequency", "layout": "stream"},
    "letters-6": {"order": 6, "tokens": "char", "layout": "stream"},
    "pieces-3": {"order": 3, "tokens": "bpe", "max_size": 300},
}


@pytest.fixture(scope="module")
def compare(browser, exported, shared_folder):
    def make(folder):
        folder.mkdir()
        text = folder / "text.txt"
        text.write_text("".join(f"{line}\n" for line in untrained.sentences(300)))
        for name, settings in KINDS.items():
            config = NgramConfig(data=str(text), **{"tokens": "space", **settings})
            dataset = open_dataset(str(text), **config.data_options)
            NgramLanguageModel.create(config, dataset).count(dataset).save(folder / name)
        tt.load(folder / "kneser-ney").export(folder / "4.arpa")
        tt.import_arpa(folder / "4.arpa").save(folder / "arpa")

    found = made_once(shared_folder, "ngrams", make)
    with both(browser, exported, [found / name for name in [*KINDS, "arpa"]]) as compare:
        yield compare


def in_turn(place):
    return [*KINDS, "arpa"][place % (len(KINDS) + 1)]


def test_next_tokens_and_surprisals_are_equal(compare, inputs):
    dice = random.Random(1)
    bodies = [{"q": draw_text(dice), "k": 50, "model": in_turn(place)} for place in range(inputs)]
    assert compare([("inspect/next", body) for body in bodies]) == ([], [])


def test_completions_are_equal(compare, inputs):
    dice = random.Random(2)
    bodies = [draw_completion(dice, model=in_turn(place)) for place in range(inputs)]
    for body in bodies:
        # Many n-grams are equally likely, and the server lists equals in no order: no likeliest tokens here.
        body["logprobs"] = min(0, body.get("logprobs", 0))
        if body.get("temperature") == 0:
            body["temperature"] = 0.5
    assert compare([("v1/completions", body) for body in bodies]) == ([], [])
