"""The shortlist of a translator: how it is counted, saved, exported and used."""  # R114

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
import throughtime.runtime
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.datasets import open_dataset
from throughtime.graphs.graph import Graph, quantise
from throughtime.graphs.write import to_onnx
from throughtime.ngram.lexicon import choose_pairs, estimate_lexicon
from throughtime.runtime import shortlist as rules
from throughtime.runtime.shortlist import Shortlist
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator
from throughtime.tasks.translate.translation import combine_translators

WORDS = {f"{one}{two}": f"{two}{one}" for one in "abcdef" for two in "uvwxyz"}
SETTINGS = {
    "source": "en",
    "target": "fr",
    "tokens": "space",
    "embedding_size": 16,
    "hidden_size": 24,
    "device": "cpu",
    "precision": "float32",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sentences of words that are translated one by one, in the opposite order."""
    dice = random.Random(1)
    rows = [dice.choices(list(WORDS), k=dice.randint(2, 7)) for _ in range(400)]
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text(
        "".join(f"{' '.join(row)} 7\t7 {' '.join(WORDS[one] for one in row[::-1])}\n" for row in rows)
    )
    return str(path)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A model with drawn weights that has a shortlist."""
    model = Translator.create(TranslateConfig(data=data, **SETTINGS), open_dataset(data))
    torch.manual_seed(2)
    for weight in model.model.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.6)
    vocabulary = model.codecs.target.vocabulary
    with torch.no_grad():  # a trained model does not write these
        model.model.head.bias[[vocabulary.pad_id, vocabulary.bos_id]] = -30.0
    model.build_shortlist()
    out = tmp_path_factory.mktemp("runs") / "model"
    model.save(out)
    return out


@pytest.fixture
def model(folder):
    return tt.load(folder, device="cpu")


SENTENCES = ["au bv 7", "cw dx ey fz", "", "au", "unheard dx", "av aw ax ay az bu bv bw bx"]


def words_of(model, text, count):
    """The words that the shortlist allows."""
    ids = model.shortlist.candidates(model.codecs.prompt(text), count)
    return set(model.codecs.target.vocabulary.tokens(ids.tolist()))


def test_the_likeliest_translation_is_found(model):
    for word, translation in WORDS.items():
        first = model.shortlist.starts[model.codecs.source.vocabulary[word]]
        [best] = model.codecs.target.vocabulary.tokens([int(model.shortlist.ids[first])])
        assert best == translation


def test_a_token_of_both_languages_may_be_copied(model):
    start = model.shortlist.starts[model.codecs.source.vocabulary["7"]]
    assert model.codecs.target.vocabulary.tokens([int(model.shortlist.ids[start])]) == ["7"]


def test_expectation_maximisation_tells_words_apart_that_often_meet():
    # 0 is in every source and 0 in every target; alone, 1 would be as likely a translation of 0.
    pairs = RaggedIds.of([[0, 1], [0, 1], [0, 2], [0, 2]])
    lexicon = estimate_lexicon(pairs, pairs, 3, 3)
    table = np.zeros((4, 3))
    table[lexicon.source, lexicon.target] = lexicon.probability
    assert table.sum(axis=1) == pytest.approx(np.ones(4))
    assert table[:3].argmax(axis=1).tolist() == [0, 1, 2]
    assert table[1, 1] > 0.5


def test_a_large_corpus_is_sampled_so_that_no_token_is_lost():
    dice = random.Random(4)
    rows = RaggedIds.of([[0, 1, 2, dice.randrange(3, 40)] for _ in range(2_000)])
    chosen = choose_pairs(rows, rows, 5_000)
    assert 20 * len(chosen) <= 5_000
    assert set(rows.flat[rows.flat > 2]) == set(rows.select(chosen).flat[rows.select(chosen).flat > 2])
    assert len(choose_pairs(rows, rows, 10**9)) == len(rows)
    empty = RaggedIds.of([[], [1], [2]])
    assert choose_pairs(empty, empty, 10).tolist() == [1, 2]
    assert choose_pairs(empty, empty, 2).tolist() == [1]


def test_nothing_to_count_gives_an_empty_table():
    nothing = RaggedIds.of([[]])
    assert len(estimate_lexicon(nothing, nothing, 3, 3).source) == 0


@pytest.mark.parametrize("options", [{}, {"search": "greedy"}, {"num_beams": 3, "num_return_sequences": 3}])
def test_translations_have_candidates_only(narrow, options):
    found = narrow.translate(SENTENCES, shortlist=2, max_length=8, **options)
    for text, best in zip(SENTENCES, found, strict=True):
        for one in (best, *best.alternatives):
            assert set(one.text.split()) <= words_of(narrow, text, 2)


@pytest.fixture
def narrow(model):
    """The same with few words that every sentence may use."""
    old = model.shortlist
    model.shortlist = Shortlist(old.starts, old.ids, old.always[:4])
    return model


@pytest.mark.parametrize("search", ["beam", "greedy", "diverse", "sampling", "exact"])
def test_every_search_keeps_to_the_list_and_neighbours_change_nothing(narrow, search):
    options = {"search": search, "shortlist": 1, "max_length": 5}
    options |= {"seed": 3} if search == "sampling" else {}
    texts = SENTENCES[:2]
    found = narrow.translate(texts, **options)
    for text, one in zip(texts, found, strict=True):
        assert set(one.text.split()) <= words_of(narrow, text, 1)
    if search != "sampling":  # which numbers its sentences
        assert [one.text for one in found] == [narrow.translate(text, **options)[0].text for text in texts]


def test_models_translate_together_with_a_list(narrow, folder):
    both = combine_translators([narrow, tt.load(folder, device="cpu")])
    alone = narrow.translate(SENTENCES, shortlist=2)
    assert [one.text for one in both.translate(SENTENCES, shortlist=2)] == [one.text for one in alone]


def test_large_vocabularies_on_a_cpu_use_it_by_default(model, monkeypatch):
    assert model.choose_shortlist() == 0
    monkeypatch.setattr(rules, "MIN_VOCABULARY", 10)
    assert model.choose_shortlist() == rules.DEFAULT_CANDIDATES
    assert model.choose_shortlist(0) == 0
    found = model.evaluate(split="valid", num_beams=2)
    assert f"|shortlist:{rules.DEFAULT_CANDIDATES}|" in found.signature
    assert "shortlist" not in model.evaluate(split="valid", num_beams=2, shortlist=0).signature
    model.shortlist = None
    assert model.choose_shortlist() == 0


def test_what_cannot_be_is_refused(model):
    with refuses("shortlist", -1, 100):
        model.translate("au", shortlist=-1)
    with refuses("shortlist", 101, 100):
        model.translate("au", shortlist=101)
    model.model.head = torch.nn.Identity()
    assert model.choose_shortlist() == 0
    with refuses("shortlist", 3):
        model.choose_shortlist(3)
    model.shortlist = None
    with refuses("shortlist", 3):
        model.translate("au", shortlist=3)


def test_training_counts_it_for_large_vocabularies(data, tmp_path, monkeypatch):
    monkeypatch.setattr("throughtime.tasks.translate.model.MIN_VOCABULARY", 10)
    settings = {**SETTINGS, "epochs": 1, "valid_sentences": 2}
    out = tmp_path / "run"
    tt.train("translate", data, out=out, progress="none", **settings)
    trained = tt.load(out, device="cpu")
    assert trained.shortlist is not None
    assert "shortlist.safetensors" in (out / "manifest.json").read_text()
    again = Translator.create(TranslateConfig(data=data, **SETTINGS), open_dataset(data))
    again.build_shortlist()
    for name, array in vars(again.shortlist).items():
        assert array.tolist() == getattr(trained.shortlist, name).tolist()


def test_a_folder_without_one_is_read_as_before(folder, model, tmp_path):
    model.shortlist = None
    model.save(tmp_path / "plain")
    assert tt.load(tmp_path / "plain", device="cpu").shortlist is None
    assert not (tmp_path / "plain" / "shortlist.safetensors").exists()


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("starts", lambda starts: starts[:-1]),
        ("starts", lambda starts: starts[::-1].copy()),
        ("ids", lambda ids: ids + 1_000),
        ("ids", lambda ids: -ids),
        ("ids", lambda ids: ids.astype(np.float32)),
        ("always", lambda always: always[::-1].copy()),
        ("always", lambda always: always[None]),
    ],
)
def test_a_table_that_does_not_fit_is_refused(model, tmp_path, part, damage):
    parts = dict(vars(model.shortlist))
    model.shortlist = Shortlist(**parts | {part: damage(parts[part])})
    model.save(tmp_path / "bad")
    with refuses(tmp_path / "bad" / "shortlist.safetensors"):
        tt.load(tmp_path / "bad", device="cpu")


@pytest.fixture(scope="module", params=[False, True], ids=["float32", "int8"])
def runner(request, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "model"
    tt.load(folder, device="cpu").export(out, int8=request.param)
    return throughtime.runtime.load(out)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_runner_keeps_to_the_same_list(runner, narrow, beams, monkeypatch):
    monkeypatch.setattr(runner, "shortlist", narrow.shortlist)
    asked = {"num_beams": beams, "num_return_sequences": beams, "max_length": 7}
    for count in (0, 1, 3):
        found, expected = (one.translate(SENTENCES, shortlist=count, **asked) for one in (runner, narrow))
        for text, best, other in zip(SENTENCES, found, expected, strict=True):
            if count:
                for one in (best, *best.alternatives):
                    assert set(one.text.split()) <= words_of(narrow, text, count)
            if "int8" not in repr(runner):
                assert [one.text for one in best.alternatives] == [one.text for one in other.alternatives]
                assert best.text == other.text
                assert best.score == pytest.approx(other.score, abs=1e-4)
            else:
                assert best.score == pytest.approx(other.score, abs=0.6)


def test_the_runner_has_the_same_default_and_refusals(runner, monkeypatch):
    monkeypatch.setattr(rules, "MIN_VOCABULARY", 10)
    assert runner.translate(SENTENCES) == runner.translate(SENTENCES, shortlist=rules.DEFAULT_CANDIDATES)
    with refuses("shortlist", 101):
        runner.translate("au", shortlist=101)
    monkeypatch.setattr(runner, "shortlist", None)
    with refuses("shortlist", 2):
        runner.translate("au", shortlist=2)


def test_an_export_whose_table_does_not_fit_is_refused(model, tmp_path):
    shortlist = model.shortlist
    model.shortlist = Shortlist(shortlist.starts, shortlist.ids + 1_000, shortlist.always)
    model.export(tmp_path / "bad")
    with refuses("shortlist.onnx"):
        throughtime.runtime.load(tmp_path / "bad")


@pytest.mark.parametrize("tied", [False, True])
def test_int8_rows_are_those_of_the_whole_layer(tied):
    """The product over some rows equals that over all, to the last bit of the quantised sums."""
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    weight, bias = torch.randn(40, 16), torch.randn(40)
    graph = Graph("rows", int8=True)
    x, rows = graph.input("x", "float32", ["n", 16]), graph.input("rows", "int64", ["r"])
    own = None if tied else bias
    graph.output(graph.linear(x, weight, own), "whole", "float32", ["n", 40])
    graph.output(graph.linear_rows(x, weight, own, rows), "some", "float32", ["n", "r"])
    session = onnxruntime.InferenceSession(to_onnx(graph), providers=["CPUExecutionProvider"])
    given = {"x": torch.randn(6, 16).numpy(), "rows": np.array([3, 39, 0, 17])}
    whole, some = session.run(["whole", "some"], given)
    np.testing.assert_allclose(some, whole[:, given["rows"]], atol=1e-5)
    values, scale = quantise(weight.numpy())
    exact = given["x"] @ (values * scale[:, None]).T + (0 if own is None else bias.numpy())
    assert np.abs(whole - exact).max() < 0.05 * np.abs(exact).max()
