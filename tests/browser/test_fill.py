"""Models that fill blanks give the same words inside a page as in Python."""

from __future__ import annotations

import random

import pytest
from tests.browser.answers import differences
from tests.browser.blocks import ask_model, rounded
from tests.graphs import untrained


def draw_texts(words, count, seed=1):
    """Sentences with one blank to three; some have none."""
    dice = random.Random(seed)
    texts = ["", "no blank here", "___", "____ [MASK]__", "猫 ___ 狗"]
    while len(texts) < count:
        chosen = [dice.choice(words) if dice.random() < 0.9 else "unheard" for _ in range(dice.randint(1, 9))]
        for place in dice.sample(range(len(chosen)), min(len(chosen), dice.choice([1, 1, 2, 3]))):
            chosen[place] = dice.choice(["___", "[MASK]", "__"])
        texts.append(dice.choice(["{}.", "{}", " {} !"]).format(" ".join(chosen)))
    return texts[:count]


def answer_in_python(model, text, name="model", **options):
    """What the server answers."""
    from throughtime.errors import InputError

    try:
        results = [one.to_dict() for one in model.fill(text, **options)]
    except InputError as error:
        return {"problem": str(error)}
    warnings = [*model.input_warnings([text]).values()]
    return {"model": name, "results": results, **({"warnings": warnings} if warnings else {})}


@pytest.mark.parametrize(("settings", "weights"), [
    ({"tokens": "unicode"}, "int8"),
    ({"tokens": "bpe", "structure": "beside"}, "float32"),
    ({"tokens": "wordpiece", "cell": "lstm"}, "int8"),
    ({"tokens": "char", "num_layers": 1}, "float32"),
], ids=["unicode", "bpe", "wordpiece", "char"])  # fmt: skip
def test_fillings_are_those_of_python(node, tmp_path, inputs, settings, weights):
    import throughtime as tt

    model = tt.load(untrained.filler(tmp_path, **settings), device="cpu")
    bodies = [{"q": text} for text in draw_texts(untrained.WORDS, inputs)]
    bodies += [{"q": "the ___ sees ___", "k": 1, "num_beams": beams} for beams in (1, 2, 30)]
    bodies += [{"q": "the ___ sees", "k": 1}, {"q": "the ___ sees", "k": 12}]
    found = ask_model(node, model, [("fill", body) for body in bodies], weights)
    model = rounded(model, weights, tmp_path / "rounded")
    for body, mine in zip(bodies, found, strict=True):
        options = {name: value for name, value in body.items() if name != "q"}
        assert not differences(mine, answer_in_python(model, body["q"], **options), 1e-3), body
    assert len(found[-1]["results"][0]["alternatives"]) == 11
