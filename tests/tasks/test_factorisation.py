"""A text's probability from the left and from the right, through the models that people train."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import throughtime as tt
from throughtime.data import dataset as dataset_module
from throughtime.data.records import blocks
from throughtime.tasks.counted import LanguageAssets
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel
from throughtime.text.codec import Codec
from throughtime.text.framing import Framing

LINES = ["abba", "baab a", "a bbb", "bab", "aab"]
TEXT = "\n".join(LINES)
ALPHABET = "ab \n?"  # all that the text is made of, and one letter for the unknown


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """A stream in as many parts as it has lines, as that of a long text."""
    monkeypatch.setattr(dataset_module, "blocks", functools.partial(blocks, size=1))


def opened(folder, text):
    path = folder / f"text{len(list(folder.iterdir()))}.txt"
    path.write_text(text + "\n")
    data = tt.open_dataset(str(path), layout="stream")
    assert len(list(data.texts("all"))) > 3
    return data


def counted(data, backward=False):
    settings = {"data": data.name, "tokens": "char", "split": "all", "layout": "stream", "order": 3}
    return NgramLanguageModel.create(NgramConfig(**settings, backward=backward), data).count(data)


def learned(data, backward=False):
    config = LanguageConfig(
        data=data.name, tokens="char", cell="gru", embedding_size=6, hidden_size=6, reversed=backward
    )
    codec = Codec.build([TEXT], "char", reserved=("<unk>",))
    config = config.complete(data).suit(len(TEXT))
    language = RecurrentLanguage.initialise(config, LanguageAssets(config.frame(codec), None))
    torch.manual_seed(1)
    for weight in language.model.parameters():
        torch.nn.init.normal_(weight)
    language.model.double().eval()
    return language


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kind", [counted, learned])
def test_all_strings_of_length_three_sum_to_one(kind, backward, tmp_path):  # R6
    model = kind(opened(tmp_path, TEXT), backward)
    strings = ["".join(letters) for letters in itertools.product(ALPHABET, repeat=3)]
    probabilities = [math.exp(scored.total) for scored in model.score(strings)]
    assert sum(probabilities) == pytest.approx(1, abs=1e-9)
    assert len({round(p, 12) for p in probabilities}) > 10


def test_counting_from_the_right_is_counting_the_text_turned_round(tmp_path):  # R6
    data, mirrored = opened(tmp_path, TEXT), opened(tmp_path, TEXT[::-1])
    backward, forward = counted(data, backward=True), counted(mirrored)
    for text in ("ab", "b\naab", "bba a"):
        assert backward.score([text])[0].total == pytest.approx(forward.score([text[::-1]])[0].total)
        assert backward.score([text])[0].total != pytest.approx(counted(data).score([text])[0].total)
    one, other = backward.likelihood(data, "all"), forward.likelihood(mirrored, "all")
    assert one.nats == pytest.approx(other.nats)


def test_a_network_reads_the_text_turned_round(tmp_path):  # R6
    data = opened(tmp_path, TEXT)
    forward, backward = learned(data), learned(data, backward=True)
    np.testing.assert_array_equal(backward.ids(data, "all"), forward.ids(data, "all")[::-1])
    for text in ("ab", "b\naab", "bba a"):
        assert backward.score([text])[0].total == pytest.approx(forward.score([text[::-1]])[0].total)


@given(texts=st.lists(st.text("abc", max_size=4), min_size=1, max_size=5))
def test_a_stream_of_many_texts_turns_their_order_round_too(texts):  # R6
    codec = Codec.build(["abc"], "char")
    [forward] = Framing(codec, marked=False).sequences(texts)
    [backward] = Framing(codec, marked=False, backward=True).sequences(texts)
    assert backward == forward[::-1]
