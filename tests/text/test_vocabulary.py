"""Tokens and their numbers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.text.vocabulary import Vocabulary

TOKENS = st.lists(st.text(min_size=1, max_size=6), max_size=40)


def test_ids_fall_by_frequency_and_ties_by_first_appearance() -> None:
    # R25
    vocabulary = Vocabulary.build(list("badacba"), reserved=("<pad>", "<bos>", "<eos>", "<unk>"))
    assert list(vocabulary) == ["<pad>", "<bos>", "<eos>", "<unk>", "a", "b", "d", "c"]  # not by letters
    assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2, 3)
    assert vocabulary.mask_id is None
    assert vocabulary["never seen"] == 3
    assert vocabulary[["a"]] == [4]
    assert vocabulary[["a", "x"]] == [4, 3]
    assert vocabulary.tokens([5, 4]) == ["b", "a"]


def test_min_freq_and_max_size() -> None:
    # R25
    tokens = list("aaabbc")
    assert list(Vocabulary.build(tokens, min_freq=2)) == ["<unk>", "a", "b"]
    assert list(Vocabulary.build(tokens, max_size=2)) == ["<unk>", "a"]
    with refuses("max_size", "1", "2"):
        Vocabulary.build(tokens, max_size=1, reserved=("<pad>", "<unk>"))


def test_encode_array_is_of_32_bits_and_knows_unknown() -> None:
    ids = Vocabulary(["a", "<unk>"]).encode_array(["x", "a"])
    assert ids.dtype == np.int32
    assert ids.tolist() == [1, 0]


def test_text_that_already_holds_unk_has_one_unk() -> None:
    vocabulary = Vocabulary.build(["the", "<unk>", "of", "<unk>", "of"])
    assert list(vocabulary) == ["<unk>", "of", "the"]
    assert vocabulary.counts == {"<unk>": 2, "of": 2, "the": 1}


def test_without_unk_an_unknown_token_is_an_error() -> None:
    with refuses("token 'x'", "<unk>"):
        Vocabulary(["a"])["x"]


def test_ids_outside_are_errors() -> None:
    for number in (-1, 2):
        with refuses(f"id {number}", "0", "1"):
            Vocabulary(["a", "b"]).token(number)


@given(
    tokens=TOKENS,
    special=st.sampled_from(["\n", "\t", "\\", "\\n", "\r", "\u2028", "\x85", "\ufeff", "\\u0085"]),
)
def test_saved_and_loaded_is_equal(tokens: list[str], special: str) -> None:
    # R23
    vocabulary = Vocabulary.build([*tokens, special], reserved=("<pad>", "<unk>", "<sep>"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.txt"
        vocabulary.save(path)
        again = Vocabulary.load(path)
        assert path.read_text(encoding="utf-8").count("\n") == len(vocabulary)
    assert list(again) == list(vocabulary)
    assert again == vocabulary
    assert again.counts == vocabulary.counts
    assert again.reserved == vocabulary.reserved >= {"<pad>", "<unk>", "<sep>"}
    assert again.hash == vocabulary.hash


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"a\nb\na\n", ("vocabulary.txt:3", "'a'")),
        (b"", ("vocabulary.txt",)),
        (b"a\n\nb\n", ("vocabulary.txt:2",)),
        (b"a\tmany\n", ("vocabulary.txt:1", "'many'")),
        (b"a\n\\q\n", ("vocabulary.txt:2", "'\\\\q'")),
        (b"a\nb\xff\n", ("vocabulary.txt:2", "UTF-8")),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, content: bytes, facts: tuple[str, ...]
) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with refuses(*facts):
        Vocabulary.load(path)


def test_twice_the_same_token_is_refused() -> None:
    with refuses("token 'a'"):
        Vocabulary(["a", "b", "a"])
    with refuses("vocabulary"):
        Vocabulary(["a", ""])


def test_hash_depends_on_tokens_and_order_and_is_the_same_everywhere() -> None:
    tokens = ["<unk>", "é", "ab"]
    digest = Vocabulary(tokens).hash
    assert digest == "6116be761efe953c8bc6345ec2cdab2fd72fbb3776d4ef786edbceda7df99c59"
    assert len({digest, Vocabulary(tokens[::-1]).hash, Vocabulary(["<unk>", "éa", "b"]).hash}) == 3


def test_no_torch_in_text() -> None:
    program = "import sys, throughtime.text.codec, throughtime.text.vocabulary, throughtime.text.statistics\n"
    subprocess.run([sys.executable, "-c", program + "assert 'torch' not in sys.modules"], check=True)
