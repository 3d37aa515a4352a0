"""The page splits and joins texts as Python does: tokenizers by rule, subwords, blanks and long texts."""

from __future__ import annotations

import json
import os
import subprocess
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
from throughtime.text.tokenizer import CharTokenizer, tokenizer
from throughtime.text.vocabulary import Vocabulary

HERE = Path(__file__).parent
TEXTS = draw_texts(6 * int(os.environ.get("THROUGHTIME_INPUTS", "50")))
CORPUS = [*SENTENCES, *LANGUAGE_TEXTS]
BLANKS = ("___", " [MASK] ", " __ __", "a____b [MASK]")
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


def test_blanks(tmp_path: Path, foreign: dict[str, Codec]) -> None:
    codecs = {
        "unicode": Codec.build(CORPUS, "unicode", reserved=("<pad>", "<unk>", "<bos>", "<eos>", "<mask>")),
        **{name: _build(name) for name in ("wordpiece", "bpe", "unigram")},
        "bert": foreign["bert"],
    }
    texts = [TEXTS[n] + BLANKS[n % len(BLANKS)] + TEXTS[n + 20] for n in range(60)]
    asked = [
        {"kind": "blanks", "files": _files(codec, tmp_path / name), "texts": texts}
        for name, codec in codecs.items()
    ]
    for (name, codec), answers in zip(codecs.items(), ask_page(tmp_path, asked), strict=True):
        for text, answer in zip(texts, answers, strict=True):
            read = Blanks.of(text, codec)
            words = [(place * 7 + 5) % len(codec.vocabulary) for place in read.places]
            expected = {
                "ids": list(read.ids),
                "places": list(read.places),
                "filled": read.fill(words, codec),
                "words": [token_text(word, codec) for word in words],
            }
            assert answer == expected, (name, text)


@pytest.mark.parametrize("shared", [True, False])
def test_long_texts_and_words_of_translators(tmp_path: Path, shared: bool) -> None:
    source, target = _build("unigram"), _build("unicode")
    codecs = Codecs(source, source) if shared else Codecs(target, source)
    texts = [*TEXTS[:80], *("".join(TEXTS[start : start + 8]) for start in range(0, 80, 8)), "a, b; " * 50]
    asked = [{"kind": "codecs", "files": _files(codecs, tmp_path / "files"), "texts": texts, "limit": 12}]
    for text, answer in zip(texts, ask_page(tmp_path, asked)[0], strict=True):
        stripped, count = text.strip(), lambda part: len(codecs.prompt(part))
        own, other = (codec.vocabulary.tokens(codec.encode(text)[:30]) for codec in codecs)
        rows = np.array(
            [[(row * 3 + n * 7) % 11 for n in range(len(own) + 1)] for row in range(len(other) + 1)]
        )
        aligned = codecs.align_words(rows, own, other)
        assert answer.pop("parts") == (split_text(stripped, 12, count) if stripped else []), text
        assert answer["source"] == list(aligned.source), text
        assert answer["target"] == list(aligned.target), text
        assert np.allclose(answer["weights"], aligned.weights, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "has the pre-tokenizer UnicodeScripts, which a page"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a++"}, "content": ""}}, r"'a\+\+'"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a+*"}, "content": ""}}, "from '.' on"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(a)\\1"}, "content": ""}}, "from '.*1' on"),
        ({"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}}, "CTC"),
    ],
)
def test_refuses_what_the_page_cannot_do(
    foreign: dict[str, Codec], change: dict[str, Any], problem: str
) -> None:
    definition = json.loads(foreign["gpt2"].tokenizer.options()["definition"])
    with pytest.raises(InputError, match=problem):
        check_portable(_foreign(json.dumps(definition | change)))


def test_refuses_tokenizers_of_other_packages() -> None:
    class Lines(CharTokenizer):
        name = "lines"

    with pytest.raises(InputError, match="is 'lines', which a page does not have"):
        check_portable(Codec(Lines(), Vocabulary(["a"])))
