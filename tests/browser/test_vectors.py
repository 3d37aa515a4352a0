"""Classifiers and taggers of vectors inside a page give the answers that Python gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.browser.answers import differences
from tests.browser.blocks import ask_model, rounded

import throughtime as tt

SMALL = {"epochs": 2, "hidden_size": 8, "device": "cpu", "quiet": True}


def draw(count, per_step):
    dice, found = np.random.default_rng(1), []
    for number in range(count):
        values = dice.standard_normal((dice.integers(8, 20), 2)) + number % 2
        label = ["low", "high"][number % 2]
        found.append((values, [label] * len(values) if per_step else label))
    return found


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize(("task", "sizes"), [("classify", (1, 9, 30, 5_000)), ("tag", (1, 9, 700))])
def test_answers_for_vectors_are_those_of_python(node, tmp_path, task, sizes, weights):  # R121
    settings = {"convolutions": 336, "embedding_size": 8} if task == "classify" else {"num_layers": 1}
    model = tt.train(task, draw(40, task == "tag"), **SMALL, **settings)
    dice = np.random.default_rng(2)
    texts = ["\n".join(f"{x:.3f},{y:.3f}" for x, y in dice.standard_normal((size, 2))) for size in sizes]
    texts += ["x1,x2\n1,\n,2\n\t3\n4,5", "1 2; 3 4", ";".join(["nan,1"] * 3)]
    found = ask_model(node, model, [(task, {"q": texts})], weights)
    expected = [one.to_dict() for one in getattr(rounded(model, weights, tmp_path / "r"), task)(texts)]
    assert not differences(found[0], {"model": "model", "results": expected}, 1e-3)
    (refused,) = ask_model(node, model, [(task, {"q": "1,2,3"})], weights)
    assert "expected 2 numbers" in refused["problem"]
