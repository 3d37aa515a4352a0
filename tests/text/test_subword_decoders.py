"""Tokenizer files without a decoder: their texts are put together by the marks in their pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refuses

from throughtime.text.codec import Codec
from throughtime.text.subword import FileTokenizer, tokenizer_file


def trained_file(
    path: Path, model: Any, trainer: Any, texts: list[str], pre_tokenizer: Any = None, normalizer: Any = None
) -> FileTokenizer:
    """A tokenizer of the library without a decoder, trained on texts and saved."""
    from tokenizers import Tokenizer

    library = Tokenizer(model)
    if pre_tokenizer is not None:
        library.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        library.normalizer = normalizer
    library.train_from_iterator(texts, trainer)
    assert library.decoder is None
    library.save(str(path))
    return tokenizer_file(path)


CHINESE = ["嘿，蓝迪，你吃午饭了吗？", "我今天吃了两个苹果。"]
WORDS = ["low lower lowest now", "new newer newest go", "the way we were"]


def decoderless(kind: str) -> dict[str, Any]:
    """What makes a tokenizer of a kind that shows in its pieces where words begin."""
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    unk = {"special_tokens": ["[UNK]"], "show_progress": False}
    bpe, pair_trainer = models.BPE(unk_token="[UNK]"), trainers.BpeTrainer(vocab_size=60, **unk)
    pieces = {"model": models.WordPiece(unk_token="[UNK]")}
    unigram = {
        "model": models.Unigram(),
        "trainer": trainers.UnigramTrainer(vocab_size=60, unk_token="[UNK]", **unk),
    }
    signs = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made: dict[str, dict[str, Any]] = {
        "wordpiece": {**pieces, "pre_tokenizer": pre_tokenizers.WhitespaceSplit()},
        "wordpiece of whole texts": pieces,
        "wordpiece with @@": {
            "model": models.WordPiece(unk_token="[UNK]", continuing_subword_prefix="@@"),
            "trainer": trainers.WordPieceTrainer(vocab_size=60, continuing_subword_prefix="@@", **unk),
            "pre_tokenizer": pre_tokenizers.WhitespaceSplit(),
        },
        "bpe with </w>": {
            "model": models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"),
            "trainer": trainers.BpeTrainer(vocab_size=60, end_of_word_suffix="</w>", **unk),
            "pre_tokenizer": pre_tokenizers.WhitespaceSplit(),
        },
        "bpe with @@ and </w>": {
            "model": models.BPE(unk_token="[UNK]", continuing_subword_prefix="@@", end_of_word_suffix="</w>"),
            "trainer": trainers.BpeTrainer(
                vocab_size=60, continuing_subword_prefix="@@", end_of_word_suffix="</w>", **unk
            ),
            "pre_tokenizer": pre_tokenizers.WhitespaceSplit(),
        },
        "bytes": {"model": models.BPE(), "pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False)},
        "bytes after a space": {"model": models.BPE(), "pre_tokenizer": pre_tokenizers.ByteLevel()},
        "bpe of whole texts": {"model": bpe},
        "bpe with spaces as ▁": {"model": bpe, "normalizer": signs},
        "bpe in metaspace": {"model": bpe, "pre_tokenizer": pre_tokenizers.Metaspace()},
        "unigram in metaspace": {**unigram, "pre_tokenizer": pre_tokenizers.Metaspace()},
        "unigram in metaspace, nothing before": {
            **unigram,
            "pre_tokenizer": pre_tokenizers.Metaspace(prepend_scheme="never"),
        },
        "unigram of whole texts": unigram,
        "word": {
            "model": models.WordLevel(unk_token="[UNK]"),
            "trainer": trainers.WordLevelTrainer(**unk),
            "pre_tokenizer": pre_tokenizers.WhitespaceSplit(),
        },
    }
    usual = trainers.WordPieceTrainer(vocab_size=60, **unk) if kind.startswith("wordpiece") else pair_trainer
    return {"trainer": usual, **made[kind]}


@pytest.mark.parametrize(
    "kind",
    [
        "wordpiece",
        "wordpiece of whole texts",
        "wordpiece with @@",
        "bpe with </w>",
        "bpe with @@ and </w>",
        "bytes",
        "bytes after a space",
        "bpe of whole texts",
        "bpe with spaces as ▁",
        "bpe in metaspace",
        "unigram in metaspace",
        "unigram in metaspace, nothing before",
        "unigram of whole texts",
        "word",
    ],
)
def test_a_file_without_a_decoder_is_joined_by_its_own_marks(kind: str, tmp_path: Path) -> None:
    # R75
    made = decoderless(kind)
    mine = trained_file(tmp_path / "mine.json", texts=WORDS + CHINESE, **made)
    for text in WORDS + CHINESE:
        assert mine.detokenize(mine.tokenize(text)) == text
    codec = Codec.build([], mine)
    codec.save(tmp_path)
    assert Codec.load(tmp_path).decode(codec.encode(WORDS[0])) == WORDS[0]


def test_a_wordpiece_file_of_chinese(tmp_path: Path) -> None:
    # R75
    from tokenizers import Tokenizer, models

    pieces = {"[UNK]": 0, "嘿": 1, "##，": 2, "##蓝": 3, "##迪": 4}
    Tokenizer(models.WordPiece(pieces, unk_token="[UNK]")).save(str(tmp_path / "mine.json"))
    codec = Codec.build([], str(tmp_path / "mine.json"))
    assert codec.encode("嘿，蓝迪") == [1, 2, 3, 4]
    assert codec.decode([1, 2, 3, 4]) == "嘿，蓝迪"
    assert codec.decode([3, 4]) == "蓝迪"  # a model may begin with a piece from inside a word


def test_a_piece_that_is_the_bare_prefix_is_a_word(tmp_path: Path) -> None:
    # R75
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = {"[UNK]": 0, "##": 1, "play": 2, "##ing": 3, "cards": 4}
    library = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.save(str(tmp_path / "mine.json"))
    codec = Codec.build([], str(tmp_path / "mine.json"))
    for text in ("playing ## cards", "## cards", "playing ##", "## ##"):
        assert codec.decode(codec.encode(text)) == text


@pytest.mark.parametrize("scheme", ["never", "always", "first"])
def test_a_space_before_a_text_is_taken_away_only_if_metaspace_put_it_there(
    scheme: str, tmp_path: Path
) -> None:
    # R75
    from tokenizers import pre_tokenizers

    made = {
        **decoderless("bpe in metaspace"),
        "pre_tokenizer": pre_tokenizers.Metaspace(prepend_scheme=scheme),
    }
    mine = trained_file(tmp_path / "mine.json", texts=WORDS, **made)
    assert mine.detokenize(mine.tokenize("low lower")) == "low lower"
    assert mine.detokenize(["▁", "l", "o", "w"]) == (" low" if scheme == "never" else "low")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "bytes", "metaspace"])
def test_a_file_whose_pieces_do_not_show_where_words_begin_is_refused(kind: str, tmp_path: Path) -> None:
    # R75
    from tokenizers import models, pre_tokenizers, trainers

    space = pre_tokenizers.Whitespace()
    usual = {"model": models.BPE(unk_token="[UNK]"), "pre_tokenizer": space}
    made: dict[str, dict[str, Any]] = {
        "bpe": usual,
        "wordpiece": {
            "model": models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=""),
            "trainer": trainers.WordPieceTrainer(continuing_subword_prefix="", special_tokens=["[UNK]"]),
            "pre_tokenizer": space,
        },
        "bytes": {
            **usual,
            "pre_tokenizer": pre_tokenizers.Sequence(
                [space, pre_tokenizers.ByteLevel(add_prefix_space=False)]
            ),
        },
        "metaspace": {
            **usual,
            "pre_tokenizer": pre_tokenizers.Sequence(
                [space, pre_tokenizers.Metaspace(prepend_scheme="never")]
            ),
        },
    }
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=["[UNK]"], show_progress=False)
    with refuses("mine.json"):
        trained_file(tmp_path / "mine.json", texts=WORDS, **{"trainer": trainer, **made[kind]})
