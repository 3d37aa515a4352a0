"""Text to ids and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.errors import InputError
from throughtime.text.codec import Codec, pieces
from throughtime.text.subword import TRAINED
from throughtime.text.tokenizer import TOKENIZERS

TEXTS = [
    "The owl sees a mouse; the mouse sees nothing!",
    "Où est le hibou\u202f? « Ici. »",
    "猫头鹰看见老鼠。 😀",
]
RULES = [name for name in TOKENIZERS if name not in (*TRAINED, "file")]


@pytest.mark.parametrize("name", [*RULES, *TRAINED])
def test_decoding_gives_the_normalised_text(name: str) -> None:
    # R23
    codec = Codec.build(TEXTS, name, max_size=400)
    for text in TEXTS:
        assert codec.decode(codec.encode(text, bos=True, eos=True)) == codec.tokenizer.normalise(text)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(), max_size=4))
def test_any_text_inside_the_vocabulary_survives(name: str, texts: list[str]) -> None:
    # R23
    codec = Codec.build([*texts, "some word"], name)
    for text in texts:
        assume(not codec.vocabulary.reserved & set(codec.tokenizer.tokenize(text)))
        assert codec.decode(codec.encode(text)) == codec.tokenizer.normalise(text)


@pytest.mark.parametrize("name", [*RULES, *TRAINED])
def test_saved_and_loaded_is_the_same(tmp_path: Path, name: str) -> None:
    codec = Codec.build(TEXTS, name, max_size=400)
    codec.save(tmp_path / "model")
    again = Codec.load(tmp_path / "model")
    assert again.hash == codec.hash
    assert again.vocabulary == codec.vocabulary
    for text in (*TEXTS, "an owl never seen"):
        assert again.encode(text) == codec.encode(text)
    expected = {"tokenizer.json"} if name in TRAINED else {"vocabulary.txt"}
    assert {path.name for path in (tmp_path / "model").iterdir()} == expected | {"tokenizer_config.json"}


@pytest.mark.parametrize(
    "options",
    [None, [[None, False]], {"normaliser": None}, {"normaliser": ["letters"]}, {"normaliser": 7}, 3],
)
def test_odd_options_in_a_folder_are_refused(tmp_path: Path, options: object) -> None:
    Codec.build(TEXTS, "char").save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer": "char", "options": options}))
    with pytest.raises(InputError):
        Codec.load(tmp_path)


def test_the_notes_ids() -> None:
    # R74
    texts = ["I love NLP", "NLP loves nobody", "I read about NLP, and I love it", "We love it too"]
    codec = Codec.build(texts, "basic-english", reserved=("<pad>", "<unk>"))
    assert codec.encode("I love NLP") == [2, 3, 4]
    assert codec.encode("I love cheese") == [2, 3, 1]


def test_reserved_tokens_are_left_out_save_the_unknown() -> None:
    codec = Codec.build(["a b"], "space")
    assert codec.decode([2, 4, 1, 5, 3, 0, 0]) == "a <unk> b"
    assert codec.decode([2, 4, 3], skip_reserved=False) == "<bos> a <eos>"
    assert codec.decode(np.array([4, 5])) == "a b"


def test_missing_ends_are_named() -> None:
    codec = Codec.build(["a"], "char", reserved=("<unk>",))
    with refuses("vocabulary", "<eos>"):
        codec.encode("a", eos=True)
    with refuses("vocabulary", "<bos>"):
        codec.encode("a", bos=True)


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    with refuses("tokenizer_config.json"):
        Codec.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with refuses("tokenizer_config.json"):
        Codec.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[" * 100_000)
    with refuses("tokenizer_config.json"):
        Codec.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer": "char", "options": {}}')
    with refuses("vocabulary.txt"):
        Codec.load(tmp_path)


def test_the_last_byte_of_a_character_adds_only_the_character() -> None:
    codec = Codec.build(["aa bb"], "bpe", max_size=300)
    assert pieces(codec, codec.encode("aa 识别")) == ["aa", " ", "\ufffd", "", "识", "\ufffd", "", "别"]
