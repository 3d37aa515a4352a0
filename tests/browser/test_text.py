"""The page splits and joins texts as Python does: tokenizers by rule, subwords, blanks and long texts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser.text_samples import LANGUAGE_TEXTS, SENTENCES, draw_texts, foreign_tokenizers

from throughtime.errors import InputError
from throughtime.tasks.language.framing import Framing
from throughtime.tasks.translate.texts import Codecs
from throughtime.text.blanks import Blanks, token_text
from throughtime.text.codec import Codec, labels, pieces, subword_vocabulary
from throughtime.text.portable import check_portable, portable_files
from throughtime.text.subword import FileTokenizer
from throughtime.text.texts import split_text
from throughtime.text.tokenizer import tokenizer

HERE = Path(__file__).parent
TEXTS = draw_texts(6 * int(os.environ.get("THROUGHTIME_INPUTS", "50")))
CORPUS = [*SENTENCES, *LANGUAGE_TEXTS]
RULES: dict[str, dict[str, Any]] = {
    "char": {"tokenizer": "char"},
    "char-nfc": {"tokenizer": "char", "normaliser": "nfc"},
    "char-lower": {"tokenizer": "char", "normaliser": "lower"},
    "char-letters": {"tokenizer": "char", "normaliser": "letters"},
    "word": {"tokenizer": "word"},
    "space": {"tokenizer": "space"},
    "basic-english": {"tokenizer": "basic-english"},
    "translation": {"tokenizer": "translation"},
    "unicode": {"tokenizer": "unicode"},
    "unicode-lower": {"tokenizer": "unicode", "lowercase": True},
    "unicode-french": {"tokenizer": tokenizer("unicode", french=True)},
    "english": {"tokenizer": "unicode", "texts": LANGUAGE_TEXTS[:2]},
    "wordpiece": {"tokenizer": "wordpiece", "max_size": 600},
    "bpe": {"tokenizer": "bpe", "max_size": 600},
    "unigram": {"tokenizer": "unigram", "max_size": 600},
    "wordpiece-lower": {"tokenizer": "wordpiece", "max_size": 300, "lowercase": True},
    "bpe-lower": {"tokenizer": "bpe", "max_size": 300, "lowercase": True, "texts": LANGUAGE_TEXTS[:2]},
    "unigram-lower": {"tokenizer": "unigram", "max_size": 300, "lowercase": True},
}


@pytest.fixture(scope="module")
def foreign() -> dict[str, Codec]:
    return {name: _foreign(made.to_str()) for name, made in foreign_tokenizers().items()}


def _foreign(definition: str) -> Codec:
    own = FileTokenizer(definition)
    return Codec(own, subword_vocabulary(own))


def _build(name: str) -> Codec:
    options = dict(RULES[name])
    return Codec.build(options.pop("texts", CORPUS), options.pop("tokenizer"), **options)


def _read(codec: Codec, text: str) -> dict[str, Any]:
    ids = codec.encode(text)
    parts = pieces(codec, ids[:12])
    return {
        "ids": ids,
        "text": codec.decode(ids),
        "normal": codec.tokenizer.normalise(text),
        "pieces": parts,
        "labels": labels(parts),
        "additions": Framing(codec, marked=False, backward=True).pieces(ids[:12]),
        "warnings": codec.warnings.of([text], dropped=True),
    }


def ask_page(folder: Path, asked: list[dict[str, Any]]) -> list[Any]:
    """Return the answers of the page's code, which node runs."""
    (folder / "asked.json").write_text(json.dumps(asked))
    node = ["node", "--experimental-default-type=module", str(HERE / "read_texts.js")]
    subprocess.run([*node, str(folder / "asked.json"), str(folder / "answered.json")], check=True)
    answers: list[Any] = json.loads((folder / "answered.json").read_text(encoding="utf-8"))
    return answers


def _files(codec: Codec | Codecs, folder: Path) -> dict[str, str]:
    folder.mkdir()
    if isinstance(codec, Codec):
        codec.save(folder)
    else:
        codec.save(type("Folder", (), {"path": folder}))
    return portable_files(folder)


def _check(codecs: dict[str, Codec], folder: Path) -> None:
    """Check that the page reads all texts with these codecs as Python does."""
    asked = [
        {"kind": "codec", "files": _files(codec, folder / name), "texts": TEXTS}
        for name, codec in codecs.items()
    ]
    for (name, codec), answers in zip(codecs.items(), ask_page(folder, asked), strict=True):
        assert len(answers) == len(TEXTS)
        for text, answer in zip(TEXTS, answers, strict=True):
            expected = _read(codec, text)
            assert answer == expected, (name, text, [key for key in expected if answer[key] != expected[key]])


def test_trained_tokenizers(tmp_path: Path) -> None:
    _check({name: _build(name) for name in RULES}, tmp_path)


def test_tokenizers_of_others(tmp_path: Path, foreign: dict[str, Codec]) -> None:
    _check(foreign, tmp_path)
