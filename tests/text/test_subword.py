"""Subword tokenizers, trained here or read from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.text.codec import Codec
from throughtime.text.framing import find_mask_id
from throughtime.text.parallel import Codecs
from throughtime.text.subword import TRAINED, SubwordTokenizer, tokenizer_file
from throughtime.text.subword_training import SPECIAL_TOKENS, train_subword
from throughtime.text.tokenizer import tokenizer

TEXTS = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Quickly, quicker, quickest: the foxes were jumping over dogs!",
    "我爱你。你爱我吗？ 我们都爱 NLP 😀👍🏽",
    "  two  spaces, a\ttab, ## hashes # and [brackets] [SEP]  ",
    "Être ou ne pas être\u202f? L'été, c'est naïf.",
] * 3
SEEN = "".join(sorted(set("".join(TEXTS))))
ALL_TRAINED = [train_subword(kind, TEXTS, vocabulary_size=400) for kind in TRAINED]


@pytest.fixture(params=ALL_TRAINED, ids=TRAINED)
def trained(request: pytest.FixtureRequest) -> SubwordTokenizer:
    found = request.param
    assert isinstance(found, SubwordTokenizer)
    return found


@pytest.mark.parametrize("text", [*TEXTS[:5], "", " ", "fox", " fox", "##fox", "dog  ", "[SEP]", "爱fox 😀"])
def test_spaces_chinese_and_emoji_survive(trained: SubwordTokenizer, text: str) -> None:
    # R76
    codec = Codec.build([], trained)
    assert codec.decode(codec.encode(text)) == text == trained.normalise(text)


@settings(max_examples=150, deadline=None)
@given(text=st.text(SEEN))
def test_any_text_of_known_characters_survives(text: str) -> None:
    # R76
    for trained in ALL_TRAINED:
        codec = Codec.build([], trained)
        # A mark on its own, or a letter never seen inside a word, is unknown to wordpiece alone.
        if codec.vocabulary.unk_id not in codec.encode(text):
            assert codec.decode(codec.encode(text)) == trained.normalise(text) == text
        else:
            assert trained.name == "wordpiece"


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_hold_any_text(text: str) -> None:
    # R76
    trained = next(one for one in ALL_TRAINED if one.name == "bpe")
    assert trained.detokenize(trained.tokenize(text)) == text


def test_special_tokens_come_first_and_have_their_roles(trained: SubwordTokenizer) -> None:
    # R76
    vocabulary = Codec.build([], trained).vocabulary
    assert list(vocabulary)[:5] == list(SPECIAL_TOKENS)
    roles = (vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id, vocabulary.pad_id, vocabulary.mask_id)
    assert roles == (0, 1, 2, 3, 4)
    assert vocabulary.reserved == set(SPECIAL_TOKENS)
    assert len(vocabulary) <= 400


def test_ids_agree_with_the_library(trained: SubwordTokenizer) -> None:
    # R75
    from tokenizers import Tokenizer

    library = Tokenizer.from_str(trained.definition)
    library.encode_special_tokens = True
    codec = Codec.build([], trained)
    for text in TEXTS[:5]:
        ids = codec.encode(text)
        assert ids == library.encode(text).ids
        assert library.decode(ids) == text


def test_a_character_never_seen_is_unknown_and_does_not_stop_anything() -> None:
    for trained in ALL_TRAINED:
        codec = Codec.build([], trained)
        ids = codec.encode("the \u0f00 fox")
        assert (codec.vocabulary.unk_id in ids) == (trained.name != "bpe")
        assert codec.decode(ids).endswith(" fox")


def test_lowercase() -> None:
    for kind in TRAINED:
        trained = train_subword(kind, TEXTS, vocabulary_size=300, lowercase=True)
        assert trained.normalise("The FOX") == "the fox" == trained.detokenize(trained.tokenize("The FOX"))


def test_training_is_the_same_in_every_process() -> None:
    program = (
        "import hashlib, sys; from throughtime.text.subword import TRAINED\n"
        "from throughtime.text.subword_training import train_subword\n"
        "texts = [f'{a}{b} {b}{c}{a}, {c}' for a in 'abcxy' for b in 'uvwe' for c in ('st', 'no', 'é')]\n"
        "for kind in TRAINED:\n"
        "    print(hashlib.sha256(train_subword(kind, texts, 300).definition.encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(3)
    }
    assert len(found) == 1


def test_unigram_pieces_are_a_distribution_and_fit_better_when_more() -> None:
    lengths = []
    for size in (20, 100, 150):
        trained = train_subword("unigram", TEXTS, vocabulary_size=size)
        pieces = json.loads(trained.definition)["model"]["vocab"][5:]
        assert sum(2.718281828459045**score for _, score in pieces) == pytest.approx(1.0, abs=1e-4)
        lengths.append(sum(len(trained.tokenize(text)) for text in TEXTS))
    assert lengths[0] > lengths[1] > lengths[2]


def test_any_tokenizer_file_is_a_tokenizer(tmp_path: Path) -> None:
    # R75
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    library = Tokenizer(
        models.WordLevel({"<s>": 0, "</s>": 1, "<unk>": 2, "go": 3, "now": 5}, unk_token="<unk>")
    )
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.add_special_tokens(["<s>", "</s>"])
    library.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    codec = Codec.build([], tokenizer_file(tmp_path))
    assert codec.encode("go now", bos=True, eos=True) == [0, 3, 5, 1] == library.encode("go now").ids
    assert codec.encode("go home") == [3, 2]
    assert codec.decode([0, 3, 5, 1]) == "go now"
    assert len(codec.vocabulary) == 6, "the id that the file skips has a place"


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "tokenizer.json"
    with refuses("tokenizer.json"):
        tokenizer_file(bad)
    bad.write_text('{"model": 1}')
    with refuses("tokenizer.json"):
        tokenizer_file(bad)
    bad.write_bytes(b"\xff\xfe")
    with refuses("tokenizer.json", "UTF-8"):
        tokenizer_file(bad)


def test_a_tokenizer_file_that_cannot_work_is_refused_by_its_name(tmp_path: Path) -> None:
    # R75
    from tokenizers import Tokenizer, models, pre_tokenizers

    file = tmp_path / "mine.json"
    Tokenizer(models.BPE()).save(str(file))
    with refuses("mine.json"):
        tokenizer_file(file)
    lacking = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="[UNK]"))
    lacking.pre_tokenizer = pre_tokenizers.Whitespace()
    lacking.save(str(file))
    with refuses("mine.json"):
        tokenizer_file(file)
    bare = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    bare.save(str(file))
    codec = Codec.build(["a b"], str(file))
    assert codec.encode("a c") == [0, 2]
    with refuses("mine.json", "<bos>", "<eos>"):
        _ = Codecs(codec, codec).begin_id
    with refuses("mine.json", "[MASK]"):
        find_mask_id(codec)


def test_a_file_is_named_by_its_path_and_offered_under_no_other_name() -> None:
    with refuses("tokens", "'file'", "tokenizer.json"):
        Codec.build(["a b"], "file")
    with refuses("tokenizer", "'flie'") as caught:
        tokenizer("flie")
    assert "file" not in str(caught.value).replace("flie", "")


def test_impossible_training_is_refused() -> None:
    with refuses("subword tokenizer", "'wordpeice'", "'wordpiece'"):
        train_subword("wordpeice", TEXTS)
    with refuses("vocabulary_size", "5", "max_size"):
        train_subword("bpe", TEXTS, vocabulary_size=5)
