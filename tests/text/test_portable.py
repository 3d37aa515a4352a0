"""What an exported page needs to split texts: tables of characters and simple steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.browser.text_samples import foreign_tokenizers

from throughtime.errors import InputError
from throughtime.text import characters, portable
from throughtime.text.characters import (
    CharacterSets,
    all_characters,
    python_table,
    translate_pattern,
    write_ranges,
)
from throughtime.text.codec import Codec, subword_vocabulary
from throughtime.text.portable import check_portable, describe_subword, portable_files
from throughtime.text.subword import FileTokenizer
from throughtime.text.tokenizer import CharTokenizer
from throughtime.text.vocabulary import Vocabulary

STEPS = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Bytes", "Prefix", "Split"} | {
    "Precompiled"
}
JOINS = {
    "Fuse",
    "ByteFallback",
    "ByteLevel",
    "Strip",
    "Replace",
    "WordPiece",
    "BPEDecoder",
    "Metaspace",
}


@pytest.fixture(autouse=True)
def _few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at few characters: all of them take a second for each set."""
    few = all_characters()[:0x500] + "ⅷ漢か\ufe00\u1100"
    for module in (characters, portable):
        monkeypatch.setattr(module, "all_characters", lambda: few)
    characters._find_matched.cache_clear()


def _read_ranges(written: str) -> set[int]:
    lengths = [int(value, 36) for value in written.split()]
    ends = [sum(lengths[: place + 1]) for place in range(len(lengths))]
    return {code for start, end in zip(ends[::2], ends[1::2], strict=True) for code in range(start, end)}


def test_ranges_hold_the_characters() -> None:
    assert _read_ranges(write_ranges("az09é漢😀")) == set(map(ord, "az09é漢😀"))
    assert write_ranges(all_characters()) == "0 16o0 1kw mneo"  # all but the surrogates
    assert write_ranges("") == ""


def test_the_table_knows_every_character() -> None:
    table = json.loads(python_table())
    values = [int(value, 36) for value in table["runs"].split()]
    assert sum(values[1::2]) == 0x110000
    found, place = {}, 0
    for kind, length in zip(values[::2], values[1::2], strict=True):
        for one in "aß5 \u0301漢٣\u0378\U0010ffff":
            if place <= ord(one) < place + length:
                found[one] = table["kinds"][kind]
        place += length
    assert {one: tuple(kind) for one, kind in found.items()} == {
        "a": ("w", 2 + 4 + 16 + 128, "LATIN"),
        "ß": ("w", 2 + 4 + 16 + 128, "LATIN"),
        "5": ("d", 4 + 8 + 16, ""),
        " ": ("s", 1 + 16, ""),
        "\u0301": ("m", 16 + 64 + 256, ""),
        "漢": ("i", 2 + 4 + 16, "CJK"),
        "٣": ("d", 4 + 8 + 16, ""),
        "\u0378": ("p", 32, ""),
        "\U0010ffff": ("p", 32, ""),
    }


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        (r"^##(?=.)", [r"(?:^|(?<=\n)(?=[^]))", r"\u{23}", r"\u{23}", "(?=", 0, ")"]),
        (r"\Aa|(b)\z", ["^", "a", "|", "(?:", "b", ")", "(?![^])"]),
        (r"[[:alpha:]&&[^]a]]{2,}?", [0, "{2,}?"]),
        (r"(?i:k\x{41})\t\\", ["(?:", 0, 1, ")", r"\u{9}", r"\u{5c}"]),
    ],
)
def test_patterns(source: str, parts: list[str | int]) -> None:
    assert translate_pattern({"Regex": source}, CharacterSets()) == parts


def test_sets_are_what_the_library_finds() -> None:
    sets = CharacterSets()
    translate_pattern({"Regex": r"\p{Lu}(?i:k)[^\S\n]"}, sets)
    upper, letter, space = map(_read_ranges, sets.written)
    assert {ord("A"), ord("É"), ord("Σ")} <= upper
    assert not upper & set(map(ord, "aé5 "))
    assert letter == {ord("k"), ord("K")}  # the sign of Kelvin is not among the few characters
    assert {ord(" "), ord("\t"), 0xA0} <= space
    assert ord("\n") not in space


@pytest.mark.parametrize("source", ["a++", "a+*", r"(a)\1", r"\bword", "x$", "[a", "(?>a)", "{2}", "a{2}?"])
def test_patterns_that_a_page_cannot_use(source: str) -> None:
    with pytest.raises(InputError, match=r"has the regular expression .* on; train with another tokenizer"):
        translate_pattern({"Regex": source}, CharacterSets())


def test_tokenizers_of_other_programs_become_simple_steps() -> None:
    for made in foreign_tokenizers().values():
        described = describe_subword(FileTokenizer(made.to_str()))
        assert {one["type"] for one in described["normalizers"] + described["splitters"]} <= STEPS
        assert {one["type"] for one in described["decoders"]} <= JOINS
        assert described["tokens"] == [made.id_to_token(number) for number in range(made.get_vocab_size())]


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    from tokenizers import Tokenizer, models

    read: dict[str, Any] = json.loads(
        Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<unk>": 3}, [("a", "b")], unk_token="<unk>")).to_str()
    )
    read["decoder"] = {"type": "Fuse"}
    return read


def _describe(definition: dict[str, Any], **change: Any) -> dict[str, Any]:
    return describe_subword(FileTokenizer(json.dumps(definition | change)))


def test_steps(definition: dict[str, Any]) -> None:
    normalizers = [
        {"type": "Nmt"},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "ByteLevel"},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
         "lowercase": True},
        {"type": "Replace", "pattern": {"String": "$"}, "content": "$1"},
    ]  # fmt: skip
    splitters = [
        {"type": "Whitespace"},
        {"type": "CharDelimiterSplit", "delimiter": "|"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        {"type": "Digits", "individual_digits": False},
    ]
    described = _describe(
        definition,
        normalizer={"type": "Sequence", "normalizers": normalizers},
        pre_tokenizer={"type": "Sequence", "pretokenizers": splitters},
    )
    kinds = [one["type"] for one in described["normalizers"]]
    assert kinds == ["Replace"] * 4 + ["Bytes"] + ["Replace"] * 3 + ["NFD", "Replace", "Lowercase", "Replace"]
    assert described["normalizers"][-1]["content"] == "$$1"
    behaviors = [one.get("behavior") for one in described["splitters"]]
    assert behaviors == ["Removed", "Removed", None, None, "MergedWithNext", "Contiguous"]
    assert described["splitters"][3] == {"type": "Prefix", "text": "▁", "first": True}
    assert described["model"]["merges"] == [0, 1]
    assert described["model"]["unk"] == "<unk>"
    assert "漢" in map(chr, _read_ranges(described["sets"][described["normalizers"][7]["pattern"][1]]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "the pre-tokenizer UnicodeScripts"),
        ({"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}}, "CTC"),
        ({"added_tokens": [{"id": 4, "content": "x", "single_word": True, "lstrip": False, "rstrip": False,
                            "normalized": False, "special": False}]}, "the added token 'x' with options"),
    ],
)  # fmt: skip
def test_steps_that_a_page_lacks(definition: dict[str, Any], change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=f"has .*{problem}, which a page does not support"):
        _describe(definition, **change)
    dropping = {"model": definition["model"] | {"dropout": 0.5}}
    with pytest.raises(InputError, match="has dropout, which a page does not support"):
        _describe(definition, **dropping)


def test_files_of_a_model(tmp_path: Path, definition: dict[str, Any]) -> None:
    own = FileTokenizer(json.dumps(definition))
    Codec(own, subword_vocabulary(own)).save(tmp_path / "source")
    Codec.build(["a b"], "space").save(tmp_path / "target")
    files = portable_files(tmp_path)
    assert sorted(files) == [
        "characters.json",
        "source/tokenizer.json",
        "source/tokenizer_config.json",
        "target/tokenizer_config.json",
        "target/vocabulary.txt",
    ]
    assert json.loads(files["source/tokenizer.json"])["tokens"] == ["a", "b", "ab", "<unk>"]


def test_rules_that_a_page_lacks() -> None:
    class Lines(CharTokenizer):
        name = "lines"

    with pytest.raises(InputError, match="tokens: is 'lines', which a page does not have; it has char, word"):
        check_portable(Codec(Lines(), Vocabulary(["a"])))
    char = CharTokenizer()
    char.normaliser = "upper"
    with pytest.raises(InputError, match="normaliser: is 'upper', which a page does not have; it has none"):
        check_portable(Codec(char, Vocabulary(["a"])))
