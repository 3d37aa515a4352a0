"""Translation as a task, on numbers in two languages: what is learned, what comes out, what is kept."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from tests.refusals import refuses
from torch.nn import functional

import throughtime as tt
from throughtime.config import build_config, refuse_idle
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.datasets import open_dataset
from throughtime.data.records import Pair
from throughtime.fit.progress import Reporter
from throughtime.folder import ModelFolder
from throughtime.metrics.bleu import BleuSums, corpus_bleu
from throughtime.results import Translation
from throughtime.runtime.search import MAX_LENGTH_PENALTY, batches_by_length
from throughtime.search.beam import Beam
from throughtime.tasks.objective import likelihood
from throughtime.tasks.texts import DecodingConstraints
from throughtime.tasks.translate.config import ATTENTIVE, TranslateConfig
from throughtime.tasks.translate.evaluation import TranslationScorer, build_signature, search_errors
from throughtime.tasks.translate.model import Translator
from throughtime.tasks.translate.network import PRESETS
from throughtime.tasks.translate.training import batch_pairs, batch_to_score
from throughtime.tasks.translate.translation import combine_translators
from throughtime.text.codec import Codec
from throughtime.text.parallel import Codecs

NUMBERS = dict(
    zip(
        "one two three four five six seven eight".split(),
        "un deux trois quatre cinq six sept huit".split(),
        strict=True,
    )
)
SMALL = {
    "embedding_size": 32,
    "hidden_size": 48,
    "batch_size": 16,
    "lr": 0.01,
    "embedding_dropout": 0.0,
    "output_dropout": 0.1,
    "device": "cpu",
    "precision": "float32",
}


def french(words):
    return " ".join(NUMBERS[word] for word in words)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Three hundred rows of one to four numbers."""
    dice = random.Random(1)
    rows: dict[tuple[str, ...], None] = {}
    while len(rows) < 300:
        rows[tuple(dice.choices(list(NUMBERS), k=dice.randint(1, 4)))] = None
    path = tmp_path_factory.mktemp("pairs") / "numbers.tsv"
    path.write_text("".join(f"{' '.join(row)} .\t{french(row)} !\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def opened(pairs):
    return open_dataset(str(pairs), source="en", target="fr")


@pytest.fixture
def new(pairs, opened):
    """An untrained model, with the settings at hand."""

    def build(**settings):
        given = {"tokens": "space", "source": "en", "target": "fr", **SMALL, **settings}
        return Translator.create(TranslateConfig(data=str(pairs), **given), opened)

    return build


@pytest.fixture(scope="module")
def trained(pairs, opened, tmp_path_factory):
    """The folder of a model that has learned its numbers, and what training measured."""
    config = TranslateConfig(
        data=str(pairs),
        source="en",
        target="fr",
        tokens="space",
        epochs=8,
        num_beams=3,
        structure="attention",
        **SMALL,
    )
    out = tmp_path_factory.mktemp("runs") / "numbers"
    model = Translator.create(config, opened)
    return out, model.fit(opened, out)


@pytest.fixture(scope="module")
def translator(trained):
    return tt.load(trained[0], device="cpu")


def texts(found):
    return [one.text for one in found]


def test_it_learns_to_translate(trained, translator, opened):  # R8, of unaligned sequences
    _, values = trained
    assert values["best"]["bleu"] > 90
    report = translator.evaluate(opened, split="test")
    assert report.values["bleu"] > 90
    assert report.values["perplexity"] < 1.5
    assert "beams:3" in report.signature
    assert texts(translator.translate(["five six ."])) == ["cinq six !"]


def test_the_best_weights_are_those_of_the_highest_bleu(trained):
    out, values = trained
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    found = [(line["bleu"], -line["loss"]) for line in lines if line["kind"] == "valid"]
    assert values["best"]["bleu"] == max(found)[0]
    assert values["best_epoch"] == found.index(max(found)) + 1  # among several of 100, the smallest loss
    assert found[0][0] < max(found)[0]


@pytest.mark.parametrize("columns", [("english", "mandarin"), ("question", "answer")])
def test_training_is_validated_by_the_scorer_of_evaluate(columns, tmp_path, monkeypatch):  # R94, R104
    digits = "零一二三四五六七八九"
    rows = [(f"{n:03d}", "".join(digits[int(digit)] for digit in f"{n:03d}") + "个苹果。") for n in range(40)]
    path = tmp_path / "apples.csv"
    path.write_text("".join(f"{one},{other}\n" for one, other in [columns, *rows]))
    source, target = columns
    dataset = open_dataset(str(path), source=source, target=target)
    config = TranslateConfig(data=str(path), source=source, target=target, tokens="char", **SMALL)
    model = Translator.create(config, dataset)
    wrong = {one: other.replace("零", "十") for one, other in rows}
    monkeypatch.setattr(
        model, "translate", lambda texts, **options: [SimpleNamespace(text=wrong[text]) for text in texts]
    )
    task, expected = model.build_objective(dataset), model.evaluate(dataset, split="valid").values
    assert "|tok:zh|" in expected["bleu_signature"]
    assert 0 < expected["bleu"] < 100
    assert task.summarise(task.validate(0, 1))["bleu"] == pytest.approx(expected["bleu"])
    halves = [task.validate(rank, 2) for rank in range(2)]
    added = {name: halves[0][name] + halves[1][name] for name in halves[0]}
    assert task.summarise(added)["bleu"] == pytest.approx(expected["bleu"])


FRUIT = {
    "mandarin": [" means two apples and a pear."],  # told by the name, though most letters are Latin
    "answer": ["个苹果很好吃。", "个梨。", "个苹果。", " means good apples"],  # by the script of all together
}


@pytest.mark.parametrize("target", FRUIT)
def test_validation_in_parts_is_judged_as_a_whole(target, tmp_path, monkeypatch):  # R94, R104
    tails = itertools.cycle(FRUIT[target])
    rows = [(f"{n:03d}", f"苹果{n:03d}梨子{next(tails)}") for n in range(8)]
    for split in ("train", "valid"):
        text = "".join(f"{one}\t{other}\n" for one, other in [("question", target), *rows])
        (tmp_path / f"{split}.tsv").write_text(text, encoding="utf-8")
    dataset = open_dataset(str(tmp_path), source="question", target=target)
    config = TranslateConfig(data=str(tmp_path), source="question", target=target, tokens="char", **SMALL)
    model = Translator.create(config, dataset)
    said = {one: other.replace("苹果", "桃子", 1) for one, other in rows}
    monkeypatch.setattr(
        model, "translate", lambda texts, **options: [SimpleNamespace(text=said[text]) for text in texts]
    )
    expected, words = (
        corpus_bleu(list(said.values()), [other for _, other in rows], tokenize=tokenize).value
        for tokenize in ("zh", "13a")
    )
    assert abs(expected - words) > 1
    task = model.build_objective(dataset)
    assert model.evaluate(dataset, split="valid").values["bleu"] == pytest.approx(expected)
    shares = [task.validate(rank, len(rows)) for rank in range(len(rows))]  # a sentence each
    added = {name: sum(share[name] for share in shares) for name in shares[0]}
    assert task.summarise(added)["bleu"] == pytest.approx(expected)


@pytest.mark.parametrize("language", ["mandarin", None])
def test_sums_of_mixed_sentences_are_those_of_one_tokenizer(language):  # R94, R104
    references = ["苹果和梨子都很好吃。", "OK 了 today", "他吃了两个苹果。"]
    translations = ["苹果与梨子都很好吃。", "OK 吧 today", "他吃了三个苹果。"]
    scorer = TranslationScorer(language).choose_tokenizer_for(references)
    assert scorer.tokenize == "zh"
    added = sum(map(scorer.sums, [[one] for one in translations], [[one] for one in references]), BleuSums())
    expected = corpus_bleu(translations, references, tokenize="zh").value
    assert added.bleu == pytest.approx(expected)
    assert TranslationScorer(language, tokenize="char").choose_tokenizer_for(references).tokenize == "char"


def test_a_scorer_goes_by_the_name_of_the_language_before_the_script():  # R94, R104
    latin = ["MP3 and USB 2.0", "CD 7 of 9"]
    assert [TranslationScorer(name).choose_tokenizer_for(latin).tokenize for name in ("mandarin", None)] == [
        "zh",
        "13a",
    ]


def test_sizes_of_vocabularies_may_differ(new):  # R73
    pairs = [Pair("a b c d", "x"), Pair("e f", "y x")]
    codecs = Codecs(*(Codec.build([pair[side] for pair in pairs], "space") for side in (0, 1)))
    model = Translator.initialise(new().config, codecs)
    assert len(codecs.source.vocabulary) > len(codecs.target.vocabulary)
    assert model.score(pairs)[0].tokens == ("x", "<eos>")
    assert len(model.translate(["a b", "e"], max_length=4)) == 2


def test_the_softmax_begins_with_the_frequencies_of_the_targets(new, opened):
    begun = new()
    found = begun.model.head.bias.detach().softmax(0)
    labels = [begun.codecs.target.encode(pair.target, eos=True) for pair in opened.pairs("train")]
    counts = torch.bincount(torch.tensor([*itertools.chain(*labels)]), minlength=len(found)) + 1
    torch.testing.assert_close(found, counts / counts.sum())
    assert not new(output_bias="zeros").model.head.bias.any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_a_sum_over_real_tokens_only(new, opened, smoothing):
    task = new(label_smoothing=smoothing, output_dropout=0.0).build_objective(opened)
    batch = next(batch for batch in task.batches(0, 1) if len(set(batch.target_lengths.tolist())) > 1)
    loss, carried = task.loss(batch, ())
    log_probs = task.model.log_probs(batch.source, batch.source_lengths, batch.inputs).detach()
    nats = smoothed = 0.0
    for row, length in enumerate(batch.target_lengths.tolist()):
        real = log_probs[:length, row], batch.labels[:length, row]
        nats += float(functional.nll_loss(*real, reduction="sum"))
        smoothed += float(functional.cross_entropy(*real, reduction="sum", label_smoothing=smoothing))
    assert carried == ()
    assert loss.total.item() == pytest.approx(nats, rel=1e-5)
    assert task.count(batch) == int(batch.target_lengths.sum())
    minimised = loss.total if loss.penalty is None else loss.penalty
    assert minimised.item() == pytest.approx(smoothed, rel=1e-5)
    assert minimised.requires_grad
    assert loss.penalty is None or not loss.total.requires_grad


def test_own_words_are_read_where_teaching_stops(new, opened):  # R86
    taught, free = (
        new(teacher_forcing=ratio, output_dropout=0.0).build_objective(opened) for ratio in (1.0, 0.0)
    )
    batch = next(iter(taught.batches(0, 1)))
    changed = batch.inputs.clone()
    changed[1:] = changed[1:].flip(1)
    other = replace(batch, inputs=changed)
    nats = [[task.loss(one, ())[0].total.item() for one in (batch, other)] for task in (taught, free)]
    assert nats[0][0] != pytest.approx(nats[0][1])
    assert nats[1][0] == pytest.approx(nats[1][1])


def test_a_few_long_pairs_do_not_pad_the_others(translator):  # R112: validation is part of the time
    short, long = [5, 6, 7], [5, 6, 7] * 60
    rows = RaggedIds.of([short] * 31 + [long])
    batches = list(batch_to_score(translator.codecs, (rows, rows), 8))
    assert sum(batch.inputs.numel() for batch in batches) <= 4 * 32 + 8 * 100
    assert sum(batch.inputs.shape[1] for batch in batches) == 32
    whole = likelihood(translator.model, batch_pairs(translator.codecs, (rows, rows), batch_size=32))
    parts = likelihood(translator.model, batches)
    assert (parts.tokens, parts.nats) == (whole.tokens, pytest.approx(whole.nats, rel=1e-5))


def test_another_measure_decides_and_is_evaluated(new, opened):
    translator = new(choose_by="ter", valid_sentences=4)
    task = translator.build_objective(opened)
    measures = task.summarise(task.validate(0, 1))
    assert (task.better, next(iter(measures))) == ("less", "ter")
    assert measures["ter"] > 0
    assert translator.evaluate(opened, split="valid", measures=["ter"], num_beams=1)["ter"] > 0


def test_a_sample_is_a_line_a_sentence_whatever_the_model_says(translator, opened, monkeypatch):
    said = [Translation("un\n\ndeux\x1b[2J\x07\u2028!", 0.0, 0.0, True)]
    monkeypatch.setattr(translator, "translate", lambda texts, **options: said * len(texts))
    sample = translator.build_objective(opened).sample()
    assert [line.split(" → ")[1] for line in sample.splitlines()] == ["un  deux[2J !"] * 3


def test_cut_sentences_are_told_and_written_down(new, opened, tmp_path):  # R72
    class Told(Reporter):
        said: ClassVar[list[str]] = []

        def begin(self, title, *rest):
            self.said.append(title)

        def say(self, message):
            self.said.append(message)

    model = new(max_length=3, epochs=1, valid_sentences=1)
    train = list(opened.pairs("train"))
    sources, targets = (sum(len(pair[side].split()) > 2 for pair in train) for side in (0, 1))
    values = model.fit(opened, tmp_path / "run", reporter=Told())
    assert 0 < sources < len(train)
    [message] = Told.said[1:]
    for part in (f"{sources} sources", f"{targets} targets", f"{len(train)} training pairs", "max_length=3"):
        assert part in message
    written = json.loads((tmp_path / "run" / "training.json").read_text())
    for found in (values, written):
        assert (found["truncated_sources"], found["truncated_targets"]) == (sources, targets)
    whole = new().build_objective(opened)
    whole.batches(0, 1)
    assert whole.notes == ()


@pytest.mark.parametrize(
    "structure", ["attention", "attention-no-feeding", "conditional", "main", "state-only", "context-only"]
)
def test_what_attends_aligns(new, structure):
    model = new(structure=structure, hidden_size=16, embedding_size=16)
    model.model.eval()
    [one] = model.translate(["one two"], max_length=5, align=True)
    assert (one.alignment is not None) == (structure in ("attention", "attention-no-feeding", "conditional"))


def test_no_text_is_lost_whatever_it_is(translator):
    strange = [
        "",
        "   ",
        "\t",
        "x",
        "日本語",
        "emoji 😀",
        "one two .",
        "word " * 10_000,
        "." * 5000,
        "\u200b",
    ]
    found = translator.translate(strange, num_beams=1, max_length=6)
    assert len(found) == len(strange)
    assert texts(found)[:3] == ["", "", ""]
    assert all(one.alternatives == () for one in found)


def test_a_long_text_is_translated_in_parts(trained):
    translator = tt.load(trained[0], device="cpu")
    translator.generation = translator.generation.model_copy(update={"max_source_tokens": 6})
    [whole] = translator.translate(["one two . three four . five six ."], align=True)
    assert whole.text == "un deux ! trois quatre ! cinq six !"
    assert whole.ended
    assert len(whole.alignment.weights) == len(whole.alignment.target)
    parts = translator.translate(["one two .", "three four .", "five six ."])
    assert whole.log_prob == pytest.approx(sum(one.log_prob for one in parts), abs=1e-4)


def test_alignment_points_to_the_words(translator):
    [one] = translator.translate(["three eight one ."], align=True)
    alignment = one.alignment
    assert alignment.source == ("three", "eight", "one", ".", "⟨end⟩")
    assert alignment.target == ("trois", "huit", "un", "!", "⟨end⟩")
    assert [sum(row) for row in alignment.weights] == pytest.approx([1.0] * 5, abs=1e-4)
    assert [alignment.best(word) for word in range(3)] == ["three", "eight", "one"]
    assert one.to_dict()["alignment"]["source"] == list(alignment.source)


def test_it_searches_in_its_precision(trained):
    model = tt.load(trained[0], device="cpu")
    sources = ["one three .", "seven seven two .", "four .", "two eight six one ."]
    exact = model.translate(sources)
    assert model.step_model is model.model
    assert "searched:float32" in build_signature(model)
    model.precision = "bf16"
    rounded = model.translate(sources)
    assert "searched:bf16" in build_signature(model)
    assert [one.text for one in rounded] == [one.text for one in exact]
    assert [one.log_prob for one in rounded] == pytest.approx([one.log_prob for one in exact], abs=0.1)
    assert [one.log_prob for one in rounded] != [one.log_prob for one in exact]
    assert model.score([Pair("one .", "un !")]) == tt.load(trained[0], device="cpu").score(
        [Pair("one .", "un !")]
    )


def test_a_strategy_is_chosen_by_its_name(translator):
    text = ["two five ."]
    assert translator.translate(
        text, search="beam", num_beams=4, num_return_sequences=4
    ) == translator.translate(text, num_beams=4, num_return_sequences=4)
    assert translator.translate(text, search="greedy") == translator.translate(
        text, num_beams=1, length_penalty=0.0
    )
    [best] = translator.translate(text, search="diverse", num_beams=6, groups=3, num_return_sequences=3)
    found = [best, *best.alternatives]
    assert len({one.text for one in found}) == len(found)
    drawn = [translator.translate(text, search="sampling", seed=seed, temperature=3.0) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    with refuses("groups", "beam"):
        translator.translate(text, search="beam", groups=3)
    with refuses("num_beams", "5000"):
        translator.translate(text, search="beam", num_beams=5_000)
    with refuses("search strategy", "'beem'", "'beam'"):
        translator.translate(text, search="beem")


def test_a_translation_is_as_likely_as_its_score_says(translator):
    sources = ["one three .", "seven seven two .", "four ."]
    found = translator.translate(sources)
    scored = translator.score([Pair(source, one.text) for source, one in zip(sources, found, strict=True)])
    assert [one.total for one in scored] == pytest.approx([one.log_prob for one in found], abs=1e-4)
    assert scored[2].tokens == ("quatre", "!", "<eos>")
    right, wrong = translator.score([Pair("one .", "un !"), Pair("one .", "huit !")])
    assert right.total > wrong.total
    assert translator.score([]) == []
    pair = ("one .", "un !")
    assert translator.score([pair]) == translator.score(pair) == translator.score(Pair(*pair))
    for wrong_pair in ("one .", ("one .",), ("one .", 1)):
        with refuses("texts[1]", "'one .'"):
            translator.score([pair, wrong_pair])


def test_constraints_hold(translator):
    def constrained(source, **constraints):
        return texts(translator.translate([source], **constraints))[0]

    assert constrained("one two .", prefix="trois").startswith("trois")
    assert "deux" not in constrained("one two .", forbid=("deux",))
    assert "sept" in constrained("one two .", require=("sept",))
    for option in ("forbid", "require"):  # a text is one word, not a list of letters
        assert constrained("one two .", **{option: "deux"}) == constrained("one two .", **{option: ["deux"]})
    assert len(constrained("one .", min_length=5).split()) >= 5
    said = constrained("one .", min_length=6, no_repeat_ngram=1).split()
    assert len(set(said)) == len(said)


@pytest.fixture(scope="module")
def spelling(pairs, opened):
    """A model of byte pairs that has learned nothing: it says all sorts of things."""
    settings = {**SMALL, "hidden_size": 16, "embedding_size": 16, "max_size": 320}
    model = Translator.create(TranslateConfig(data=str(pairs), source="en", target="fr", **settings), opened)
    model.model.eval()
    return model


@pytest.mark.parametrize(
    ("constraints", "facts"),
    [
        ({"forbid": ("sept",), "require": ("un", "sept")}, ("require", "'sept'", "forbid='sept'")),
        ({"forbid": ("sept",), "prefix": "un sept"}, ("prefix", "'un sept'", "forbid='sept'")),
        ({"require": ("zèbre",)}, ("require", "'zèbre'")),
        ({"prefix": "un zèbre"}, ("prefix", "'un zèbre'")),
        ({"prefix": "un " * 8}, ("prefix", "8", "3", "max_length")),
        ({"require": ("un deux", "six")}, ("require", "4", "3", "max_length")),
        ({"prefix": "un deux", "require": ("six",)}, ("prefix and require", "4", "3")),
    ],
)
def test_constraints_that_cannot_hold_are_refused(translator, constraints, facts):
    with refuses(*facts):
        translator.translate(["one two ."], **constraints, max_length=3)


def test_a_blank_prefix_is_refused():
    with refuses("prefix"):
        DecodingConstraints(prefix="  ")


@pytest.mark.parametrize("most", [None, 12])
def test_prefix_and_required_words_are_said_whatever_the_model_would(spelling, most):
    long = "un deux trois quatre cinq six sept huit " * 12
    room = most and most + len(spelling.codecs.target.encode(long))
    for prefix, required in (("", "huit"), ("un", "huit"), ("huit", "huit"), (long.strip(), "un")):
        constraints = {"prefix": prefix, "require": (required,)}
        [one] = spelling.translate(["one two ."], **constraints, max_length=room)
        assert one.text.startswith(prefix)
        assert required in one.text
        assert one.text == one.text.strip()  # inside a sentence a word brings its space


@pytest.mark.parametrize("prefix", ["huit", "un huit"])
def test_a_required_word_that_the_prefix_says_is_not_said_again(spelling, prefix):
    room, constraints = (
        len(spelling.codecs.target.encode(prefix)),
        {"prefix": prefix, "require": ("huit",)},
    )
    [one] = spelling.translate(["one two ."], **constraints, max_length=room)
    assert one.text == prefix


def test_no_rule_cuts_a_prefix_short(translator):
    constraints = {"prefix": "trois trois deux", "no_repeat_ngram": 1}
    [one] = translator.translate(["one two ."], **constraints)
    first, *rest = one.text.split()[1:]
    assert [first, rest[0]] == ["trois", "deux"]
    assert len({first, *rest}) == len(rest) + 1


@pytest.mark.parametrize("alpha", [300.0, 1e308, float("inf"), -1.0])
def test_a_strange_length_penalty_is_refused_before_anything_is_read(translator, alpha):
    for search in ("beam", "diverse"):
        with refuses("length_penalty", alpha):
            translator.build_search(search, 3, length_penalty=alpha)
    with refuses("length_penalty"):
        build_config(TranslateConfig, {"data": "x", "length_penalty": alpha}, "settings")


def test_the_settings_allow_what_a_beam_does():
    for alpha in (0.0, MAX_LENGTH_PENALTY):
        assert (
            TranslateConfig(data="x", length_penalty=alpha).length_penalty
            == Beam(3, length_penalty=alpha).length_penalty
        )


def test_a_wide_beam_searches_few_sentences_at_a_time(translator, monkeypatch):
    monkeypatch.setattr("throughtime.tasks.translate.translation.MAX_ROWS", 12)
    sources, together_ = ["one two .", "three .", "four five .", "six .", "one ."], []
    start = translator.model.start
    monkeypatch.setattr(translator.model, "start", lambda given: together_.append(len(given)) or start(given))
    found = texts(translator.translate(sources, num_beams=6))
    assert together_ == [2, 2, 1]
    assert found == ["un deux !", "trois !", "quatre cinq !", "six !", "un !"]


def test_unknown_words_are_copied_or_not_said(trained):
    model = tt.load(trained[0], device="cpu")
    unk = model.codecs.target.vocabulary.unk_id
    with torch.no_grad():
        model.model.head.bias[unk] += 20.0  # a model that knows nothing
    plain = texts(model.translate(["one zebra ."], max_length=5))[0]
    assert "<unk>" not in plain
    copied = texts(model.translate(["one zebra ."], max_length=5, copy_unknown=True))[0]
    assert copied
    assert set(copied.split()) <= {"one", "zebra", "."}


def test_words_that_nothing_points_to_are_not_copied(trained, monkeypatch):
    model = tt.load(trained[0], device="cpu")
    monkeypatch.setattr(type(model), "attends", False)
    with refuses("copy_unknown", "attention"):
        model.translate(["one zebra ."], copy_unknown=True)


def test_a_shared_vocabulary_is_loaded_as_one(tmp_path, new):
    model = new(tokens="bpe")
    model.save(tmp_path / "run")
    codecs = tt.load(tmp_path / "run", device="cpu").codecs
    assert model.codecs.shared
    assert codecs.shared
    assert codecs.hash == model.codecs.hash


def test_several_models_translate_together(trained, new):
    out, _ = trained
    models = [tt.load(out, device="cpu") for _ in range(2)]
    one, both = (
        models[0].translate(["six two ."], align=True),
        combine_translators(models).translate(["six two ."], align=True),
    )
    assert both[0].text == one[0].text
    assert both[0].log_prob == pytest.approx(one[0].log_prob, abs=1e-5)
    assert both[0].alignment.target == one[0].alignment.target
    with refuses("others", "init_from"):
        combine_translators([models[0], new(tokens="bpe")])


def test_a_model_that_starts_from_another_has_its_output_bias(trained):
    with refuses("output_bias", "init_from"):
        Translator.initialise_from(trained[0], TranslateConfig(data="x"), {"output_bias": "zeros"})


def test_search_errors_are_counted(translator, opened):
    report = translator.evaluate(opened, search_errors=True, num_beams=2, length_penalty=1.0)
    errors = report.values["search_errors"]
    assert errors["resolved"] + errors["unresolved"] == report.values["sentences"]
    assert errors["errors"] <= errors["resolved"]
    assert {"beams:2", "alpha:1"} <= set(report.signature.split("|"))


def test_a_forbidden_unknown_word_is_no_search_error(trained):
    model = tt.load(trained[0], device="cpu")
    unk, sources = model.codecs.target.vocabulary.unk_id, ["one two .", "five ."]
    with torch.no_grad():
        model.model.head.bias[unk] += 6.0
    prompts = [model.codecs.prompt(source) for source in sources]
    best = [
        one.results[0]
        for one in model.run_search(
            prompts, model.build_search("beam", num_beams=20, length_penalty=0.0), allow_unknown=True
        )
    ]
    assert any(unk in one.tokens for one in best)  # so that a beam without it would lie below
    found = search_errors(model, sources, num_beams=20)
    assert (found.errors, found.resolved) == (0, 2)


def test_a_narrow_beam_misses_what_exact_search_finds(new, opened):
    model = new(hidden_size=16)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.normal_(0, 0.7, generator=torch.Generator().manual_seed(weight.numel()))
    sources = [pair.source for pair in itertools.islice(opened.pairs("train"), 30)]
    model.model.eval()
    narrow, wide = (search_errors(model, sources, num_beams=width, budget=2000) for width in (1, 30))
    assert narrow.resolved > 0
    assert narrow.errors > wide.errors


def test_other_options_and_other_data_are_refused(translator, opened, tmp_path):
    with refuses("cache"):
        translator.evaluate(opened, cache=5)
    text = tmp_path / "text.txt"
    text.write_text("only text\n" * 9)
    with refuses("data", "text.txt"):
        Translator.create(TranslateConfig(data=str(text)), open_dataset(str(text)))
    with refuses("embedded/english", "'en'"):
        open_dataset("embedded/english", source="en", target="fr")
    with refuses("structure", "'nope'"):
        Translator.create(TranslateConfig(data="pairs", structure="nope"), opened)
    (tmp_path / "export.json").write_text("{}")
    with refuses(tmp_path, "throughtime.runtime.load"):
        ModelFolder.at(tmp_path)


def test_batches_are_of_like_lengths_and_hold_every_sentence_once():
    prompts = [[1] * length for length in (3, 50, 7, 33, 17, 16, 4)]
    found = batches_by_length(prompts)
    assert sorted(number for _, batch in found for number in batch) == list(range(7))
    assert [[len(prompts[number]) for number in batch] for _, batch in found] == [
        [3, 4, 7, 16],
        [17],
        [33],
        [50],
    ]
    assert all(most >= 2 * max(len(prompts[number]) for number in batch) for most, batch in found)


def test_parts_of_words_are_shared_unless_told_otherwise(pairs, opened):
    config = TranslateConfig(data=str(pairs)).complete(opened)
    assert (config.source, config.target, config.tokens) == ("en", "fr", "bpe")
    assert (config.shared, config.max_size) == (True, 1000)
    words = TranslateConfig(data=str(pairs), tokens="space").complete(opened)
    assert (words.shared, words.max_size) == (False, None)
    told = TranslateConfig(data=str(pairs), shared=False, max_size=500).complete(opened)
    assert (told.shared, told.max_size) == (False, 500)


@pytest.mark.parametrize(("tokens", "size"), [("space", 7), ("wordpiece", 60), ("unigram", 60), ("bpe", 300)])
def test_a_vocabulary_may_be_of_any_size_that_its_tokens_have_room_in(new, tokens, size):  # R76
    model = new(tokens=tokens, max_size=size)
    assert all(len(codec.vocabulary) <= size for codec in model.codecs)


def test_byte_pairs_need_room_for_all_bytes(new):
    with refuses("max_size", "299", "300", "bpe"):
        new(tokens="bpe", max_size=299)


def test_a_language_is_not_translated_into_itself(new):
    with refuses("target", "'en'"):
        new(target="en")


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("row", "side"), [("a b\t", "target"), ("\tx y", "source"), ("\t", "source")])
def test_pairs_without_a_word_on_a_side_are_refused(tmp_path, row, side, shared):
    file = tmp_path / "pairs.tsv"
    file.write_text(f"{row}\n" * 30)
    config = TranslateConfig(data=str(file), shared=shared, max_size=300)
    with refuses(f"pairs.tsv, {side}"):
        Translator.create(config, open_dataset(str(file)))


@pytest.mark.parametrize(
    ("key", "value", "elsewhere"),
    [
        ("attention", "dot", {"structure": "main"}),
        ("scaled", True, {"structure": "state-only"}),
        ("context", "mean", {}),
        ("teacher_forcing", 0.5, {"structure": "state-only"}),
        ("teacher_forcing", 0.5, {"structure": "context-only"}),
        ("bridge", False, {"structure": "context-only"}),
        ("bridge", False, {"structure": "context-and-input"}),
        ("min_freq", 5, {}),
        ("max_size", 300, {"tokens": "tokenizer.json"}),
    ],
)
def test_settings_without_effect_are_refused(key, value, elsewhere):
    config = TranslateConfig(data="x", **{key: value}, **elsewhere)
    with refuses(key):
        refuse_idle(config, {"data", key, *elsewhere})


@pytest.mark.parametrize("structure", PRESETS)
def test_settings_with_an_effect_are_taken(structure):
    kinds = {
        "attention": structure in ATTENTIVE,
        "scaled": structure in ATTENTIVE,
        "context": structure in ("main", "context-only", "context-and-input"),
        "bridge": structure not in ("context-only", "context-and-input"),
        "teacher_forcing": structure not in ("state-only", "context-only"),
    }
    values = {"attention": "dot", "scaled": True, "context": "max", "bridge": False, "teacher_forcing": 0.5}
    for key, counts in kinds.items():
        config = TranslateConfig(data="x", structure=structure, **{key: values[key]})
        with nullcontext() if counts else refuses(key):
            refuse_idle(config, {"structure", key})
