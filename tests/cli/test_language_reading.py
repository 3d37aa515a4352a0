"""evaluate, score and generate with a recurrent model, beside a counted one."""

from __future__ import annotations

import io
import math
import re
import tracemalloc

import numpy as np
import pytest
import torch
from tests.refusals import lacks

import throughtime as tt
from throughtime.cli import score as score_command
from throughtime.data.datasets import open_dataset
from throughtime.tasks.language import evaluation as readers
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage

LINES = ["the cat sat on the mat .", "the dog bites the man .", "a man sat , and the dog sat ."] * 12
PAIRS = [
    ("recognize speech", "wreck a nice beach"),
    ("dog bites man", "man bites dog"),
    ("I want to eat, grandma", "I want to eat grandma"),
]
KNOWN = [word for pair in PAIRS for word in pair]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("\n".join(LINES + KNOWN[::2] * 6 + KNOWN) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A run of a tiny model, trained for a moment, with its tokens as asked."""
    runs = {}

    def train(tokens, layout="lines", cell="gru"):
        if (tokens, layout, cell) in runs:
            return runs[tokens, layout, cell]
        config = LanguageConfig(
            data=str(corpus),
            tokens=tokens,
            layout=layout,
            cell=cell,
            embedding_size=16,
            hidden_size=16,
            batch_size=4,
            num_steps=16,
        )
        dataset = open_dataset(str(corpus), layout=layout)
        language = RecurrentLanguage.create(config, dataset)
        task, optimizer = (
            language.build_objective(dataset),
            torch.optim.Adam(language.model.parameters(), 0.02),
        )
        for _ in range(15):
            state = ()
            for batch in task.batches(0, 1):
                loss, state = task.loss(batch, state)
                optimizer.zero_grad()
                (loss.total / batch.count).backward()
                optimizer.step()
        path = tmp_path_factory.mktemp("run") / f"{tokens}-{layout}"
        language.save(path)
        runs[tokens, layout, cell] = path
        return path

    return train


@pytest.fixture
def counted(corpus, tmp_path, throughtime):
    words = ("train", "ngram", "--data", corpus, "--out", tmp_path / "counted", "--json")
    assert throughtime(*words).code == 0
    return tmp_path / "counted"


class Screen(io.StringIO):
    """A stdout that calls itself a terminal."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def isatty(self):
        return True

    def flush(self):
        self.flushed.append(self.getvalue())


@pytest.fixture
def on_terminal(monkeypatch):
    """Run the command on a terminal with colours; what it wrote there comes back."""
    from throughtime.cli.main import main

    def run(*words, **environment):
        screen = Screen()
        with monkeypatch.context() as patch:
            for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
                patch.delenv(name, raising=False)
            shown = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "160", **environment}
            for name, value in shown.items():
                patch.setenv(name, value)
            patch.setattr("sys.stdout", screen)
            assert main([str(word) for word in words]) == 0
        return screen

    return run


def test_evaluate_tells_what_was_used(trained, throughtime):
    ran = throughtime("evaluate", trained("word"), "--split", "test", "--device", "cpu", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["perplexity"] == pytest.approx(2 ** ran.json["bits_per_token"])
    assert "|reader:plain|device:cpu|precision:float32|" in ran.json["signature"]
    assert ran.err == ""
    wrong = throughtime("evaluate", trained("word"), "--device", "abacus")
    assert wrong.code == 2
    assert "abacus" in wrong.err


def test_evaluate_reads_the_split_as_one_text(trained, throughtime):
    run = trained("word")
    language = tt.load(run, device="cpu")
    ids = language.ids(open_dataset(language.config.data), "test").tolist()
    [log_probs] = language.model.log_probs([[language.framing.begin_id, *ids]])
    ran = throughtime("evaluate", run, "--json").json
    assert ran["nats"] == pytest.approx(-log_probs[1:].sum(), rel=1e-5)
    assert ran["tokens"] == len(ids)


def test_evaluate_learns_while_it_reads(trained, throughtime, tmp_path):
    run = trained("word")
    strange = tmp_path / "strange.txt"
    strange.write_text("mat the bites on sat cat\n" * 60)
    words = ("evaluate", run, "--data", strange, "--split", "all", "--json")
    weights = (run / "model.safetensors").read_bytes()
    plain = throughtime(*words).json
    cache = throughtime(*words, "--cache", 50, "--cache-share", 0.4).json
    dynamic = throughtime(*words, "--dynamic", 0.5).json
    both = throughtime(*words, "--cache", 50, "--cache-share", 0.4, "--dynamic", 0.5).json
    scaled = throughtime(*words, "--dynamic", 0.5, "--dynamic-scaled").json
    assert scaled["perplexity"] < plain["perplexity"]
    assert scaled["perplexity"] != dynamic["perplexity"]
    assert "|reader:dynamic-0.5-0.001-5-scaled|" in scaled["signature"]
    assert cache["perplexity"] < plain["perplexity"]
    assert dynamic["perplexity"] < plain["perplexity"]
    assert both["perplexity"] < plain["perplexity"]
    assert "|reader:cache-50-0.3-0.4|" in cache["signature"]
    assert "|reader:cache-50-0.3-0.4+dynamic-0.5-0.001-5|" in both["signature"]
    assert (run / "model.safetensors").read_bytes() == weights
    assert throughtime(*words, "--dynamic", 0).json["nats"] == pytest.approx(plain["nats"], rel=1e-5)


def test_scales_are_measured_on_so_many_batches_of_the_training_text(trained, corpus, monkeypatch):
    language, dataset = tt.load(trained("word")), open_dataset(str(corpus))
    seen, told = [], []
    monkeypatch.setattr(readers, "gradient_scales", lambda model, pieces: seen.extend(pieces))
    monkeypatch.setattr(readers, "ROWS", 4)
    monkeypatch.setattr(readers, "BATCHES", 2)
    options = readers.ReadingOptions(dynamic=0.1, dynamic_steps=3, dynamic_scaled=True)
    readers.dynamic_evaluation(options, None, language, dataset, lambda *place: told.append(place))
    assert told == [(0, 2), (1, 2)]
    ids = torch.from_numpy(language.ids(dataset, "train").astype("int64"))
    for number, (inputs, labels) in enumerate(seen):
        assert torch.equal(inputs[:, 0], ids[3 * number : 3 * number + 3])
        assert torch.equal(labels[:, 0], ids[3 * number + 1 : 3 * number + 4])


def test_options_of_learning_are_refused_in_a_sentence(trained, counted, throughtime):
    for option in ("--cache", "--dynamic"):
        ran = throughtime("evaluate", counted, option, 1)
        assert ran.code == 2
        assert option in ran.err
        assert "recurrent" in ran.err
    switches = {"--cache-theta": "--cache", "--cache-share": "--cache", "--dynamic-decay": "--dynamic"}
    for option, needed in switches.items():
        ran = throughtime("evaluate", trained("word"), option, 0.1)
        assert ran.code == 2
        assert not lacks(ran.err, "error:", f"{option}:", needed.lstrip("-"))
    ran = throughtime("evaluate", trained("word"), "--dynamic-scaled")
    assert ran.code == 2
    assert not lacks(ran.err, "error:", "--dynamic-scaled:", "dynamic")
    wrong = {
        "--cache-share": ["--cache", 5, "--cache-share", 1],
        "--cache-theta": ["--cache", 5, "--cache-theta", "inf"],
        "--dynamic": ["--dynamic", -1],
        "--dynamic-decay": ["--dynamic", 0.1, "--dynamic-decay", 2],
        "--dynamic-steps": ["--dynamic", 0.1, "--dynamic-steps", 0],
    }
    for option, words in wrong.items():
        ran = throughtime("evaluate", trained("word"), *words)
        assert ran.code == 2
        assert ran.err.startswith(f"error: {option}: ")


def test_a_bar_is_shown_where_somebody_looks(trained, throughtime, monkeypatch):
    from rich.console import Console

    screen = io.StringIO()
    monkeypatch.setattr(
        "throughtime.cli.output.stderr", lambda: Console(file=screen, force_terminal=True, width=100)
    )
    ran = throughtime("evaluate", trained("char"), "--split", "all", "--json")
    assert ran.json["tokens"] > 512  # more than one piece
    assert "all" in screen.getvalue()
    assert f"{ran.json['tokens']}" in screen.getvalue()


@pytest.mark.parametrize("kind", ["counted", "learned", "char"])
def test_score_ranks_the_pairs_of_the_notes(kind, counted, trained, throughtime):  # R17
    # Nobody chose the tokens of the first two: a comma must be a token by default.
    run = {"counted": lambda: counted, "learned": lambda: trained(None), "char": lambda: trained("char")}[
        kind
    ]()
    ran = throughtime("score", run, *KNOWN, "--json").json
    sentences = ran["sentences"]
    assert ran["ranking"] == sorted(range(6), key=lambda i: -sentences[i]["log_prob"])
    assert ran["ranking_per_token"] == sorted(range(6), key=lambda i: -sentences[i]["log_prob_per_token"])
    for one in sentences:
        assert one["log_prob"] == pytest.approx(-math.log(2) * sum(one["surprisal_bits"]))
        assert one["log_prob_per_token"] == pytest.approx(one["log_prob"] / len(one["tokens"]))
    with_comma, without = sentences[4], sentences[5]
    assert "," in with_comma["tokens"]
    assert [token for token in with_comma["tokens"] if token != ","] == without["tokens"]
    assert with_comma["log_prob"] != without["log_prob"]
    if kind != "char":  # enough was read to know which order of words is the usual one
        assert ran["ranking"].index(2) < ran["ranking"].index(3)


def test_score_is_a_coloured_line_on_a_terminal(trained, on_terminal):
    shown = on_terminal("score", trained("char"), "the dog", "xxxxxxx").getvalue()
    assert "\x1b[" in shown
    assert "bits of surprise" in shown
    assert "the dog⏎" in _without_colours(shown)
    numbers = _without_colours(on_terminal("score", trained("word"), "the dog sat", "--numbers").getvalue())
    assert " dog " in numbers
    assert "the dog sat" not in numbers  # numbers stand between


def test_score_is_numbers_where_colours_are_lost(trained, on_terminal, throughtime):
    silent = throughtime("score", trained("word"), "the dog").out
    assert "\x1b" not in silent
    colourless = _without_colours(on_terminal("score", trained("word"), "the dog", NO_COLOR="1").getvalue())
    for shown in (silent, colourless):
        assert re.search(r"the \d+\.\d  dog \d+\.\d  <eos> \d+\.\d", shown)
        assert "bits of surprise" not in shown


def test_shades_darken_with_surprise():
    styles = [score_command.shade(bits) for bits in (0.5, 1.5, 3, 6, 12, 40, math.inf)]
    assert len(dict.fromkeys(styles)) == 6
    light = [sum(int(style[-6:][i : i + 2], 16) for i in (0, 2, 4)) for style in styles[1:6]]
    assert light == sorted(light, reverse=True)


@pytest.mark.parametrize("tokens", ["word", "char", "bpe"])
def test_a_line_reads_as_the_text(trained, tokens):
    language = tt.load(trained(tokens), device="cpu")
    [one] = language.score(["the dog bites , man"])
    shown = score_command.draw_shades(one, language.framing).plain
    assert shown == language.framing.text(language.framing.ids("the dog bites , man")) + "⏎"


def test_a_right_to_left_line_reads_from_the_left(corpus, tmp_path, throughtime):
    out = tmp_path / "backward"
    throughtime("train", "ngram", "--data", corpus, "--tokens", "space", "--backward", "--out", out)
    model = tt.load(out)
    [one] = model.score(["the dog sat ."])
    assert score_command.draw_shades(one, model.framing).plain.strip("⏎ ") == "the dog sat ."


def test_streaming_prints_as_it_goes(trained, on_terminal):
    run = trained("char", "stream")
    screen = on_terminal("generate", run, "--prompt", "the dog", "--max-new-tokens", 20, "--seed", 3)
    assert screen.flushed[0] == "the dog"  # R41: the prompt alone while it is read
    assert [len(text) for text in screen.flushed[1:21]] == list(range(8, 28))
    language = tt.load(run)
    whole = language.generate("the dog", max_new_tokens=20, strategy=language.strategy(seed=3))
    assert screen.getvalue() == whole[0].text + "\n"


def test_streaming_needs_no_more_memory_for_a_longer_text(trained):
    language = tt.load(trained("char", "stream"), device="cpu")
    sizes = set()
    step = language.model.step

    def watched(last, state, memory):
        found = step(last, state, memory)
        sizes.add(tuple(part.shape for part in found.state))
        return found

    language.model.step = watched
    told = language.stream("the ", max_new_tokens=3000, strategy=language.strategy(seed=0))
    for _ in range(1000):
        next(told)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    held = _held_by_tensors()
    count = sum(1 for _ in told)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2001
    assert len(sizes) == 1
    assert after - before < 100_000
    assert _held_by_tensors() <= held


def test_the_first_token_of_a_stream_is_predicted_from_nothing(trained):
    language = tt.load(trained("char", "stream"), device="cpu")
    total = sum(np.exp(one.total) for one in language.score([*language.framing.codec.vocabulary]))
    assert 0.5 < total <= 1 + 1e-5  # all single characters; reserved tokens are no single characters


def _held_by_tensors():
    import gc

    return sum(
        one.untyped_storage().nbytes()
        for one in gc.get_objects()
        if type(one) is torch.Tensor and one.numel()
    )


def _without_colours(text):
    from rich.text import Text

    return Text.from_ansi(text).plain
