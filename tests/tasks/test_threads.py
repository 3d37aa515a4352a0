"""A model that several threads use at once answers each of them as if it were alone."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.tiny import save_untrained

import throughtime as tt

THREADS = 4
SENTENCES = ["one two", "three one five two", "four", "two two three four five", "five three one"]
ASK = {
    "ngram": [
        lambda model, number: model.generate("one", seed=number, max_new_tokens=9),
        lambda model, number: model.score(SENTENCES),
    ],
    "language": [
        lambda model, number: model.generate("one", seed=number, max_new_tokens=9),
        lambda model, number: model.generate("two", num_beams=3, max_new_tokens=9),
        lambda model, number: model.score(SENTENCES[number]),
    ],
    "translate": [
        lambda model, number: model.translate(SENTENCES[number:] * 2),
        lambda model, number: model.translate(SENTENCES[number:], search="sampling", seed=number),
        lambda model, number: model.score([("one two", "un deux"), ("four", "cinq")]),
    ],
    "tag": [lambda model, number: model.tag(SENTENCES[number:])],
    "fill": [lambda model, number: model.fill(f"{SENTENCES[number]} ___ ___")],
    "classify": [lambda model, number: model.classify(SENTENCES[number:])],
    "compose": [lambda model, number: model.compose("even", seed=number)],
    "forecast": [
        lambda model, number: [one.to_dict() for one in model.forecast(h=4, level=[80], seed=number)],
        lambda model, number: [one.to_dict() for one in model.forecast({"a": [1.0, number] * 8}, h=4)],
    ],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of an untrained model of each task."""
    return save_untrained(tmp_path_factory.mktemp("saved"))


def ask_at_once(model, asks):
    """Return what each of several threads gets for its own questions; all begin at the same time."""
    together = threading.Barrier(THREADS)

    def work(number):
        together.wait()
        return [ask(model, number) for ask in asks]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns within every step
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(work, range(THREADS)))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("task", ASK)
def test_threads_do_not_disturb_each_other(task, saved):
    alone = tt.load(saved[task], device="cpu")
    expected = [[ask(alone, number) for ask in ASK[task]] for number in range(THREADS)]
    for _ in range(2):  # a model that was never asked has caches to fill
        assert ask_at_once(tt.load(saved[task], device="cpu"), ASK[task]) == expected


@pytest.mark.parametrize("task", ["translate", "classify"])
def test_threads_do_not_disturb_each_other_in_an_export(task, saved, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    tt.load(saved[task], device="cpu").export(tmp_path / "out")
    asks = ASK[task][:1]
    alone = tt.runtime.load(tmp_path / "out", threads=1)
    expected = [[ask(alone, number) for ask in asks] for number in range(THREADS)]
    assert ask_at_once(tt.runtime.load(tmp_path / "out", threads=1), asks) == expected
