"""Taggers inside a page give the tags, chunks and labels that Python gives."""

from __future__ import annotations

import random

import pytest
from tests.browser.answers import differences
from tests.browser.blocks import ask_model, rounded
from tests.graphs import untrained

ODD = ("unheard", "Ünïcödé", "x" * 90, "the,", "CAT", "123", "猫", "don't", "tree", "İstanbul", "🙂")


def draw_texts(words, count, seed=1):
    """Sentences of known and of odd words, with odd spaces; some are empty."""
    dice = random.Random(seed)
    texts = ["", "   ", "Где кот?"]
    while len(texts) < count:
        chosen = [
            dice.choice(ODD) if dice.random() < 0.2 else dice.choice(words)
            for _ in range(dice.randint(1, 12))
        ]
        texts.append(dice.choice([" ", " ", "  ", "\u3000"]).join(chosen))
    return texts[:count]


def answer_in_python(model, texts, name="model", **options):
    """What the server answers."""
    warnings = [*model.input_warnings(texts).values()]
    results = [one.to_dict() for one in model.tag(texts, **options)]
    return {"model": name, "results": results, **({"warnings": warnings} if warnings else {})}


@pytest.mark.parametrize("kind", ["chain", "independent", "chunks", "valid chunks", "language models"])
def test_tags_are_those_of_python(node, tmp_path, inputs, kind):
    import throughtime as tt

    settings = {
        "chain": {"max_characters": 9},
        "independent": {"crf": False, "cell": "gru", "lowercase": False},
        "chunks": {"valid_chunks": False},
        "valid chunks": {"crf": False, "valid_chunks": True},
    }
    given = settings.get(kind, {})
    if kind == "language models":
        kept = tmp_path / "kept"
        kept.mkdir()
        runs = [untrained.language(kept, tokens="char", reversed=backward) for backward in (False, True)]
        given = {"language_models": [str(run) for run in runs]}
    run = untrained.tagger(tmp_path, **given, chunked="chunks" in kind)
    model = tt.load(run, device="cpu")
    texts = draw_texts(untrained.WORDS, inputs)
    bodies = [{"q": text} for text in texts] + [{"q": texts[:9]}, {"q": texts, "tokenize": "unicode"}]
    weights = "int8" if kind == "chain" else "float32"
    found = ask_model(node, model, [("tag", body) for body in bodies], weights)
    model = rounded(model, weights, tmp_path / "rounded")
    for body, mine in zip(bodies, found, strict=True):
        asked = [body["q"]] if isinstance(body["q"], str) else body["q"]
        how = {"tokenize": body["tokenize"]} if "tokenize" in body else {}
        assert not differences(mine, answer_in_python(model, asked, **how), 1e-3)
    chunks = sum(len(one["chunks"]) for mine in found for one in mine["results"])
    assert (chunks > 5) == ("chunks" in kind)
    assert len({word["tag"] for word in found[-1]["results"][5]["words"]} | {"-"}) > 1


def test_what_a_tagger_cannot_read_is_refused(node, tmp_path):
    import throughtime as tt

    model = tt.load(untrained.tagger(tmp_path), device="cpu")
    asked = [("tag", {}), ("tag", {"q": [3]}), ("tag", {"q": "the cat", "tokenize": "magic"})]
    found = [one["problem"] for one in ask_model(node, model, asked)]
    assert found[0].startswith("q: is missing")
    assert "texts[0]" in found[1]
    assert "tokenize" in found[2]
    assert "magic" in found[2]
