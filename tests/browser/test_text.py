"""The page splits and joins texts as Python does: tokenizers by rule, subwords, blanks and long texts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from tests.browser.text_samples import LANGUAGE_TEXTS, SENTENCES, draw_texts, foreign_tokenizers

from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.graphs.html import join_modules
from throughtime.text.codec import Codec, labels, pieces, subword_vocabulary
from throughtime.text.framing import Blanks, Framing, token_text
from throughtime.text.parallel import Codecs
from throughtime.text.portable import check_portable, portable_files
from throughtime.text.subword import FileTokenizer
from throughtime.text.texts import split_text
from throughtime.text.tokenizer import CharTokenizer, tokenizer
from throughtime.text.vocabulary import Vocabulary

Ask = Callable[[list[dict[str, Any]]], list[Any]]
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
def trained() -> dict[str, Codec]:
    return {name: _build(name) for name in RULES}


@pytest.fixture(scope="module")
def foreign() -> dict[str, Codec]:
    return {name: _foreign(made.to_str()) for name, made in foreign_tokenizers().items()}


def _foreign(definition: str) -> Codec:
    own = FileTokenizer(definition)
    return Codec(own, subword_vocabulary(own))


def _build(name: str) -> Codec:
    options = dict(RULES[name])
    return Codec.build(options.pop("texts", CORPUS), options.pop("tokenizer"), **options)


@cache
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


@pytest.fixture
def ask(node: Any) -> Ask:
    """A function that gives the answers of the page's code, which node runs."""
    address = (HERE / "read_texts.js").as_uri()
    return lambda asked: list(node(f'import "{address}";\nanswer(readTexts(data));', asked))


@pytest.fixture(params=["node", "chromium", "firefox"])
def readers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Ask, list[str]]:
    """A function that reads texts in node or a browser, and the texts; browsers read some of them."""
    if request.param == "node":
        return request.getfixturevalue("ask"), TEXTS
    page = tmp_path / "page.html"
    run = "() => JSON.stringify(readTexts(JSON.parse(document.querySelector('section').textContent)))"

    def ask_browser(asked: list[dict[str, Any]]) -> list[Any]:
        data = json.dumps(asked).replace("<", r"\u003c").replace("&", r"\u0026")
        script = join_modules(HERE / "read_texts.js")
        page.write_text(
            f"<!doctype html><meta charset=utf-8><section>{data}</section><script>{script}</script>"
        )
        if request.param == "chromium":
            return list(json.loads(request.getfixturevalue("opened")(page).evaluate(run)))
        (visit,) = request.getfixturevalue("firefox")({"address": page, "steps": [{"run": run}]})
        assert not visit["complaints"]
        return list(json.loads(visit["results"][0]))

    return ask_browser, TEXTS[::5]


@cache
def _files(codec: Codec | Codecs) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        if isinstance(codec, Codec):
            codec.save(folder)
        else:
            codec.save(ModelFolder(Path(folder)))
        return portable_files(Path(folder))


def _check(codecs: dict[str, Codec], readers: tuple[Ask, list[str]]) -> None:
    """Check that the page reads texts with these codecs as Python does."""
    ask, texts = readers
    asked = [{"kind": "codec", "files": _files(codec), "texts": texts} for name, codec in codecs.items()]
    for (name, codec), answers in zip(codecs.items(), ask(asked), strict=True):
        for text, answer in zip(texts, answers, strict=True):
            expected = _read(codec, text)
            assert answer == expected, (name, text, [key for key in expected if answer[key] != expected[key]])


def test_trained_tokenizers(trained: dict[str, Codec], readers: tuple[Ask, list[str]]) -> None:
    _check(trained, readers)


def test_tokenizers_of_others(foreign: dict[str, Codec], readers: tuple[Ask, list[str]]) -> None:
    _check(foreign, readers)


def test_blanks(ask: Ask, foreign: dict[str, Codec], trained: dict[str, Codec]) -> None:
    codecs = {
        "unicode": Codec.build(CORPUS, "unicode", reserved=("<pad>", "<unk>", "<bos>", "<eos>", "<mask>")),
        **{name: trained[name] for name in ("wordpiece", "bpe", "unigram")},
        "bert": foreign["bert"],
    }
    texts = [TEXTS[n] + BLANKS[n % len(BLANKS)] + TEXTS[n + 20] for n in range(60)]
    asked = [{"kind": "blanks", "files": _files(codec), "texts": texts} for name, codec in codecs.items()]
    for (name, codec), answers in zip(codecs.items(), ask(asked), strict=True):
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
def test_long_texts_and_words_of_translators(ask: Ask, trained: dict[str, Codec], shared: bool) -> None:
    source, target = trained["unigram"], trained["unicode"]
    codecs = Codecs(source, source) if shared else Codecs(target, source)
    texts = [*TEXTS[:80], *("".join(TEXTS[start : start + 8]) for start in range(0, 80, 8)), "a, b; " * 50]
    asked = [{"kind": "codecs", "files": _files(codecs), "texts": texts, "limit": 12}]
    for text, answer in zip(texts, ask(asked)[0], strict=True):
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
        (
            {"normalizer": {"type": "Replace", "pattern": {"Regex": "a+*"}, "content": ""}},
            "known to end soon",
        ),
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
