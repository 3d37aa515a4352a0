"""Classifiers inside a page give the labels and probabilities that Python gives."""

from __future__ import annotations

import pytest
from tests.browser import text_samples
from tests.browser.answers import differences
from tests.browser.blocks import ask_model, rounded
from tests.browser.pages import settled
from tests.browser.test_tag import draw_texts
from tests.browser.text_samples import SENTENCES
from tests.graphs import untrained

from throughtime.text.characters import python_table
from throughtime.text.grams import Grams
from throughtime.text.portable import CHARACTERS


def answer_in_python(model, texts, name="model", **options):
    """What the server answers."""
    warnings = [*model.input_warnings(texts).values()]
    results = [one.to_dict() for one in model.classify(texts, **options)]
    return {"model": name, "results": results, **({"warnings": warnings} if warnings else {})}


@pytest.mark.parametrize(("settings", "weights"), [
    ({"pooling": "last", "cell": "lstm"}, "int8"),
    ({"pooling": "mean", "tokens": "bpe"}, "float32"),
    ({"pooling": "max", "bidirectional": False, "max_length": 5}, "float32"),
    ({"pooling": "attention", "tokens": "char", "hidden_size": 32}, "float16"),
], ids=["last", "mean", "max", "attention"])  # fmt: skip
def test_labels_are_those_of_python(node, tmp_path, inputs, settings, weights):
    import throughtime as tt

    model = tt.load(untrained.classifier(tmp_path, **settings), device="cpu")
    texts = draw_texts(untrained.WORDS, inputs)
    bodies = [{"q": text} for text in texts] + [{"q": texts}, {"q": texts[3], "k": 2}]
    found = ask_model(node, model, [("classify", body) for body in bodies], weights)
    model = rounded(model, weights, tmp_path / "rounded")
    for body, mine in zip(bodies, found, strict=True):
        asked = [body["q"]] if isinstance(body["q"], str) else body["q"]
        how = {"k": body["k"]} if "k" in body else {}
        assert not differences(mine, answer_in_python(model, asked, **how), 1e-3)
    assert len({one["label"] for one in found[inputs]["results"]}) > 1


READ = """
import { openCharacters } from "page/engine/text/characters.js";
import { Grams } from "page/engine/text/grams.js";
const grams = new Grams(data.keys, data.rarity, openCharacters(data));
answer(data.texts.map((text) => grams.read(text)));
"""


def test_the_page_reads_the_same_n_grams(node):
    texts = [*SENTENCES, "", "a", " \u3000b\x1cc ", *text_samples.draw_texts(100)]
    known = Grams.of([*texts, *texts], 10**6)
    given = {"keys": known.keys.tolist(), "rarity": known.rarity.tolist(), "texts": texts}
    found = node(READ, {**given, CHARACTERS: python_table()})
    assert len(known.keys) > 3_000
    for text, own in zip(texts, found, strict=True):
        columns, values = known.read(text)
        assert dict(zip(own["columns"], own["values"], strict=True)) == pytest.approx(
            dict(zip(columns.tolist(), values.tolist(), strict=True)), rel=1e-5
        )


def test_labels_that_are_numbers_stay_in_order(opened, tmp_path):
    """Objects of JavaScript put names like "5" before all others, in rising order."""
    import throughtime as tt

    data = tmp_path / "stars.csv"
    rows = [f"{one},{1 + number % 5}\n" for number, one in enumerate(untrained.sentences(80))]
    data.write_text("text,label\n" + "".join(rows))
    model = tt.load(untrained.saved(tmp_path, "classify", data, **untrained.SIZES), device="cpu")
    model.export(tmp_path / "stars.html", format="html", weights="float32")
    text = "the cat"
    expected = [label for label, _ in model.classify([text])[0].ranked]
    assert expected != sorted(expected)
    page = opened(tmp_path / "stars.html")
    page.fill("section textarea", text)
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator("section li .said").all_inner_texts() == expected
