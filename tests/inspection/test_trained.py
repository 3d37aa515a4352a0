"""What is read out of trained models: alignments, the tree of a search, gates, neighbours, the next token."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.fit.run import fit
from throughtime.inspection.embeddings import Table, embedding_map, principal_axes, table, tables
from throughtime.inspection.gates import LayerGates, gates, unit_gates
from throughtime.inspection.next_tokens import next_tokens
from throughtime.inspection.translation import attention, beam_tree
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator
from throughtime.text.codec import BEGIN, END, Codec

NUMBERS = dict(zip("one two three four".split(), "un deux trois quatre".split(), strict=True))
PLAIN = {"device": "cpu", "precision": "float32"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dice = random.Random(1)
    rows = [dice.choices(list(NUMBERS), k=dice.randint(1, 3)) for _ in range(160)]
    lines = [f"{' '.join(row)} .\t{' '.join(NUMBERS[word] for word in row)} !\n" for row in rows]
    path = tmp_path_factory.mktemp("pairs") / "numbers.tsv"
    path.write_text("".join(lines))
    return path


def translator(pairs: Path, **settings: Any) -> Any:
    """An untrained translator of numbers."""
    sizes = {"tokens": "space", "source": "en", "target": "fr", "embedding_size": 24, "hidden_size": 24}
    config = TranslateConfig(data=str(pairs), **{**sizes, **PLAIN, "num_beams": 3, **settings})
    return Translator.create(config, open_dataset(str(pairs), source="en", target="fr"))


@pytest.fixture(scope="module")
def trained(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    model = translator(pairs, epochs=12, lr=0.02, batch_size=16, embedding_dropout=0.0)
    task = model.build_objective(open_dataset(str(pairs), source="en", target="fr"))
    fit(model, task, tmp_path_factory.mktemp("run") / "numbers", title="")
    return model


@pytest.fixture(scope="module")
def language(pairs: Path) -> Any:
    dataset = open_dataset("embedded/english")
    sizes = {"tokens": "char", "cell": "lstm", "embedding_size": 12, "hidden_size": 16, "num_layers": 2}
    return RecurrentLanguage.create(LanguageConfig(data="embedded/english", **sizes, **PLAIN), dataset)


def test_the_tree_ends_in_what_the_search_finds(trained: Any) -> None:
    tree = beam_tree(trained, "two three .", 3)
    [best] = trained.translate(["two three ."], num_beams=3)
    assert tree.results[0].text == best.text
    assert tree.results[0].score == pytest.approx(best.score)
    way = [node for node in tree.nodes if node.best]
    assert [node.step for node in way] == list(range(1, len(way) + 1))
    assert [node.label for node in way] == ["deux", "trois", "!", END]
    assert way[-1].status == "ended"
    assert sum(math.log(node.probability) for node in way) == pytest.approx(best.log_prob, abs=1e-4)
    json.dumps(tree.to_dict())


def test_what_was_cut_has_a_true_reason(trained: Any) -> None:
    tree = beam_tree(trained, "two three one .", 2)
    reasons = {"rank": 0, "late": 0}
    for node in tree.nodes:
        assert not re.search(r"-\d", node.reason)  # a minus as the page writes it
        same = [one.log_prob for one in tree.nodes if one.step == node.step]
        better = sum(one > node.log_prob for one in same)
        if node.status != "cut":
            assert better < tree.width
        elif node.reason.startswith("not among the 2 best"):
            assert better >= tree.width
            reasons["rank"] += 1
        else:
            assert "is below the best found" in node.reason or node.reason.startswith("cannot win")
            assert better < tree.width
            reasons["late"] += 1
    assert all(reasons.values())


def test_a_beam_of_one_keeps_one_at_each_step(trained: Any) -> None:
    tree = beam_tree(trained, "four .", 1)
    kept = [node.step for node in tree.nodes if node.status != "cut"]
    assert kept == list(range(1, tree.steps + 1))


@pytest.mark.parametrize("sentence", ["", "   ", "one " * 150])
def test_a_search_is_of_one_sentence(trained: Any, sentence: str) -> None:
    with refuses("sentence"):
        beam_tree(trained, sentence)


def test_models_of_other_kinds_are_refused_in_a_sentence(language: Any, pairs: Path) -> None:
    for look in (attention, beam_tree):
        with refuses("model", "translator"):
            look(language, "one")
    with refuses("model"):
        next_tokens(translator(pairs), "one")
    with refuses("attention"):
        attention(translator(pairs, structure="context-and-input"), "one two .")


def test_gates_of_a_language_model_are_those_of_its_cells(language: Any) -> None:
    layers = unit_gates(language, "she reads")
    assert [layer.name for layer in layers] == ["layer 1", "layer 2"]
    ids = torch.tensor(language.framing.ids("she reads", end=False))
    x = language.model.embedding(ids).detach()
    for layer, module in zip(layers, language.model.stack.layers, strict=True):
        alone = gates(module.from_left, x)
        assert set(layer.values) == set(alone)
        for letter, value in alone.items():
            np.testing.assert_allclose(layer.values[letter], value.numpy(), atol=1e-6)
        x = alone["h"]
    assert "step" not in vars(language.model.stack.layers[0].from_left)  # the model itself is left alone


def test_a_layer_from_the_right_is_told_in_the_order_of_the_sentence(trained: Any) -> None:
    layers = {layer.name: layer for layer in unit_gates(trained, "two three .")}
    right = layers["encoder layer 1 from the right"]
    assert right.tokens == ("two", "three", ".", END)
    prompt = torch.tensor(trained.codecs.prompt("two three ."))
    encoder = trained.model.encoder
    cell = encoder.stack.layers[0].from_right
    alone = gates(cell, encoder.embedding(prompt).detach().flip(0))
    np.testing.assert_allclose(right.values["z"], alone["z"].flip(0).numpy(), atol=1e-6)
    assert layers["decoder layer 1"].tokens == (BEGIN, "deux", "trois", "!")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"structure": "conditional"}, ["decoder layer, first cell", "decoder layer, second cell"]),
        ({"structure": "context-and-input", "cell": "lstm"}, ["decoder layer 1"]),
        ({"cell": "mingru", "structure": "state-only"}, ["decoder layer 1"]),
    ],
)
def test_every_decoder_shows_its_gates(pairs: Path, settings: dict[str, Any], names: list[str]) -> None:
    layers = unit_gates(translator(pairs, **settings), "two three .")
    assert [layer.name for layer in layers if layer.name.startswith("decoder")] == names
    assert all(len(layer.tokens) == len(layer.values["h"]) for layer in layers)


def test_units_stand_in_the_order_of_their_memory() -> None:
    keeps = np.array([[0.5, 0.9, 0.01], [0.5, 0.9, 0.01]], dtype=np.float32)
    layer = LayerGates("layer 1", "GRU", ("a", "b"), {"h": keeps, "z": keeps}, "z")
    assert layer.half_lives is not None
    np.testing.assert_allclose(layer.half_lives, np.log(0.5) / np.log([0.5, 0.9, 0.01]), rtol=1e-5)
    assert layer.order == [1, 0, 2]
    assert layer.gates == ["z", "h"]
    assert layer.choose_units(2) == [1, 2]
    assert layer.to_dict(2)["values"]["z"] == [[0.9, 0.9], [0.01, 0.01]]


def test_a_gate_that_is_always_open_remembers_for_long_but_not_for_ever() -> None:
    ones = np.ones((3, 2), dtype=np.float32)
    layer = LayerGates("layer 1", "LSTM", ("a", "b", "c"), {"h": ones, "f": ones}, "f")
    assert layer.half_lives is not None
    assert layer.half_lives.tolist() == pytest.approx([1000.0, 1000.0])


@pytest.mark.parametrize(("text", "facts"), [("", ("sentence",)), ("x" * 400, ("sentence", "401", "400"))])
def test_gates_are_of_a_sentence(language: Any, text: str, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        unit_gates(language, text)


def test_the_next_token_and_the_surprise_so_far(language: Any) -> None:
    found = next_tokens(language, "the ca", 5)
    assert "".join(one.piece for one in found.read) == "the ca"
    [scored] = language.score(["the ca"])
    bits = [one.bits for one in found.read]
    np.testing.assert_allclose(bits, -np.array(scored.log_probs[: len(bits)]) / math.log(2), rtol=1e-5)
    chances = [one.probability for one in found.expected]
    assert len(chances) == 5
    assert chances == sorted(chances, reverse=True)
    everything = next_tokens(language, "the ca", 10_000)
    assert sum(one.probability for one in everything.expected) == pytest.approx(1)
    open_choices = [one.probability for one in everything.expected]
    assert everything.entropy == pytest.approx(-sum(p * math.log2(p) for p in open_choices))
    assert next_tokens(language, "", 3).read == ()


def test_counted_models_tell_the_next_token_too(tmp_path: Path) -> None:
    text = tmp_path / "lines.txt"
    text.write_text("the cat sleeps\nthe dog sleeps\nthe cat sees\n" * 4)
    dataset = open_dataset(str(text), layout="lines")
    config = NgramConfig(data=str(text), order=2, layout="lines", tokens="space")
    model = NgramLanguageModel.create(config, dataset).count(dataset)
    found = next_tokens(model, "the", 2)
    assert [one.token for one in found.expected] == ["cat", "dog"]
    assert next_tokens(model, "the dog sleeps", 1).expected[0].token == END
    assert len(found.read) == 1
    assert math.isfinite(found.entropy)
    with refuses("model"):
        tables(model)
    with refuses("model"):
        unit_gates(model, "the")


def test_neighbours_are_the_nearest_by_angle(trained: Any) -> None:
    found = embedding_map(trained, "one two", k=2, side=tables(trained)[0].name)
    assert [one.token for one in found.neighbours] == ["one", "two"]
    chosen = table(trained)
    unit = torch.nn.functional.normalize(chosen.vectors.float(), dim=1)
    me = chosen.vocabulary["one"]
    expected = {
        token: float(unit[me] @ unit[number])
        for number, token in enumerate(chosen.vocabulary)
        if number != me and token not in chosen.vocabulary.reserved
    }
    best = sorted(expected, key=lambda token: -expected[token])[:2]
    assert [one.token for one in found.neighbours[0].nearest] == best
    assert found.neighbours[0].nearest[0].similarity == pytest.approx(expected[best[0]], abs=1e-5)
    assert [point.token for point in found.points if point.asked] == ["one", "two"]
    assert 0 < found.explained <= 1
    with refuses("sentence"):
        embedding_map(trained, "zebra")
    with refuses("side", "'top'", "source", "target"):
        embedding_map(trained, "one", side="top")


def test_a_model_of_one_table_has_no_sides(language: Any) -> None:
    with refuses("side", "'source'"):
        table(language, "source")


@pytest.fixture(scope="module")
def runs(trained: Any, language: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their folders, by kind."""
    out = tmp_path_factory.mktemp("runs")
    for name, model in (("en-fr", trained), ("english", language)):
        model.save(out / name)
    return out


def test_the_way_to_the_best_is_marked_without_a_terminal(throughtime: Any, runs: Path, trained: Any) -> None:
    ran = throughtime("inspect", runs / "en-fr", "one two .", "--beam", "--device", "cpu")
    way = [node.label for node in beam_tree(trained, "one two .").nodes if node.best]
    assert [word[1:] for word in ran.out.split() if word[0] == "*" and word != "*"] == way
    assert "* marks the way to the best" in ran.out


def test_a_word_is_looked_up_as_it_stands_inside_of_sentences() -> None:
    texts = ["my mother has a letter", "the garden of my mother"] * 40
    codec = Codec.build(texts, "bpe", max_size=300)
    found = Table("tokens", torch.eye(len(codec.vocabulary)), codec.vocabulary, codec)
    assert [found.spell(one) for one in found.ids("mother letter")] == ["mother", "letter"]


def test_the_map_is_the_one_of_most_variance() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(40, 6) * torch.tensor([9.0, 5.0, 1.0, 1.0, 1.0, 1.0])
    flat, explained = principal_axes(vectors)
    decomposition = pytest.importorskip("sklearn.decomposition")
    judge = decomposition.PCA(2).fit(vectors.numpy())
    assert explained == pytest.approx(judge.explained_variance_ratio_.sum(), rel=1e-5)
    np.testing.assert_allclose(np.abs(flat.numpy()), np.abs(judge.transform(vectors.numpy())), atol=1e-4)
