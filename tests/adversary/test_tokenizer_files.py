"""A tokenizer.json from elsewhere decides neither the memory nor the time of loading it, or of a text."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import time

import pytest
from tests.browser.text_samples import foreign_tokenizers
from tests.refusals import refuses

from throughtime.text.definition import count_attempts
from throughtime.text.subword import FileTokenizer, tokenizer_file

MAX_CHARACTERS = 20_000  # characters of a request


def definition(**changes):
    """A tokenizer of whole words, with some parts changed."""
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    rest = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    return json.dumps({**parts, **rest, **changes})


def sequence(*steps, name="normalizers"):
    return {"type": "Sequence", name: list(steps)}


def replace(content, **pattern):
    return {"type": "Replace", "pattern": pattern or {"String": "a"}, "content": content}


def table(content):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


def damaged(unit, texts=b"X\0", place=0):
    """The table of one replacement, of a by X, with another unit, text, or place of the text."""
    units = [1 << 10, *([0] * 95), unit, 1 << 31 | place, *([0] * 158)]
    return table(struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts)


LETTER = 1 << 10 | 1 << 8 | ord("a")
CUT = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
MARK = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WORDPIECE = {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "vocab": {"a": 0}}
HOSTILE = {
    "prepend": ({"normalizer": {"type": "Prepend", "prepend": "a" * 1_000_000}}, ["'prepend'", "1,000,000"]),
    "growth": ({"normalizer": sequence(*[replace("a" * 100)] * 9)}, ["1,000,000,000,000,000,000"]),
    "marks": ({"pre_tokenizer": sequence(*[MARK, CUT] * 9, name="pretokenizers")}, ["pre_tokenizer", 512]),
    "bytes": ({"pre_tokenizer": sequence(*[BYTES] * 9, name="pretokenizers")}, ["pre_tokenizer"]),
    "answers": ({"decoder": replace("b" * 400)}, ["decoder", 400]),
    "steps": ({"normalizer": sequence(*[{"type": "NFC"}] * 99)}, [99, 40]),
    "unknown": ({"normalizer": {"type": "Program"}}, ["'Program'"]),
    "unnamed": ({"pre_tokenizer": {}}, []),
    "list": ({"pre_tokenizer": [1]}, []),
    "model": ({"model": {"type": "Program", "vocab": {}}}, ["'Program'"]),
    "words": ({"model": {**WORDPIECE, "max_input_chars_per_word": 10**9}}, ["1,000,000,000", 500]),
    "token": ({"model": {"type": "WordLevel", "vocab": {"a" * 5000: 0}, "unk_token": "a"}}, ["5,000"]),
    "added": ({"added_tokens": [{"id": 2, "content": "b" * 5000, "special": True}]}, ["5,000"]),
    "panic": ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, []),
    "table": ({"normalizer": table(b"\4\0\0\0\1\1\1\1abc")}, ["Precompiled"]),
    "table without trie": ({"normalizer": table(b"\0\0\0\0abc")}, ["Precompiled"]),
    "table larger than itself": ({"normalizer": table(b"\xfc\xff\xff\xffabcd")}, ["Precompiled"]),
    "table that leads outside": ({"normalizer": damaged(LETTER | 1 << 20)}, ["Precompiled"]),
    "table behind its texts": ({"normalizer": damaged(LETTER, place=9)}, ["Precompiled"]),
    "table inside a letter": ({"normalizer": damaged(LETTER, "é".encode()[1:])}, ["Precompiled"]),
    "no base64": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "abc"}}, []),
    "expression": ({"normalizer": replace("", Regex="(a+)+b")}, ["'b'"]),
    "long expression": ({"normalizer": replace("", Regex="a" * 10_000)}, []),
    "many expressions": ({"normalizer": sequence(*[replace("", Regex="a*b")] * 9)}, []),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_definitions_are_refused_at_once(name, tmp_path):
    changes, facts = HOSTILE[name]
    (tmp_path / "tokenizer.json").write_text(definition(**changes))
    began = time.process_time()
    with refuses("tokenizer.json", *facts):
        tokenizer_file(tmp_path)
    assert time.process_time() - began < 2


PADDING = {"strategy": {"Fixed": 100_000_000}, "direction": "Right", "pad_to_multiple_of": None}
PADDING |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
TRUNCATION = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}


def test_padding_and_truncation_are_ignored():
    """In a process of its own: the padding alone would take 9 GB."""
    text = definition(padding=PADDING, truncation=TRUNCATION)
    program = (
        "import resource, sys; from throughtime.text.subword import FileTokenizer\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "print(FileTokenizer(sys.argv[1]).tokenize('a b a'))"
    )
    ran = subprocess.run([sys.executable, "-c", program, text], capture_output=True, text=True, check=True)
    assert ran.stdout == "['a', '[UNK]', 'a']\n"


@pytest.mark.parametrize("contents", [("b" * 400,), ("b" * 90, "c" * 90)])
def test_a_text_may_not_become_much_longer(contents):
    steps = [replace(content, String=letter) for letter, content in zip("ab", contents, strict=False)]
    tokenizer = FileTokenizer(definition(normalizer=sequence(*steps)))
    assert tokenizer.tokenize("a") == ["[UNK]"]
    with refuses("tokenizer.json", f"{MAX_CHARACTERS:,}"):
        tokenizer.tokenize("a" * MAX_CHARACTERS)


def test_a_failure_inside_the_library_is_an_error(monkeypatch):
    tokenizer = FileTokenizer(definition())

    class Panic(BaseException):
        pass

    class Backend:
        def encode(self, *_, **__):
            raise Panic("index out of bounds")

    monkeypatch.setattr(tokenizer, "backend", Backend())
    with refuses("tokenizer.json", "index out of bounds"):
        tokenizer.tokenize("a")


@pytest.mark.parametrize("name", foreign_tokenizers())
def test_tokenizers_of_other_programs_are_accepted(name, tmp_path):
    library = foreign_tokenizers()[name]
    library.save(str(tmp_path / "tokenizer.json"))
    text = "Some words, 12 of them: é, ﷺ and 漢字 😀." * 20
    assert tokenizer_file(tmp_path).tokenize(text) == library.encode(text, add_special_tokens=False).tokens


ENDLESS = [
    "(a+)+b",
    "(a|aa)*b",
    r"(a)\1",
    r"(?<x>a|b\g<x>)",
    "((a{99}){99}){99}",
    "a{99999}",
    "a{9}{9}",
    "a**",
]
ENDLESS += ["(?>a*)*b", "(a", "a)", "[a", "*a", r"(?i)a", r"a\Kb", "(?#*)a"]


@pytest.mark.parametrize("expression", ENDLESS)
def test_expressions_without_a_bound_are_refused(expression):
    with refuses("tokenizer.json"):
        count_attempts(expression, "tokenizer.json")


@pytest.mark.parametrize(
    ("expression", "attempts"),
    [
        *(("abc", 1), ("a?b", 2), ("a*", 1), ("a*b", 20_001), ("a+b|c", 20_001), ("(?:a|b)?c", 3)),
        *(("a{,3}b", 4), ("a?" * 30 + "a" * 30, 2**30), ("a*a*b", 20_001**2), ("(a*)b", 20_001)),
        ("x(?=a*b)", 20_001),
    ],
)
def test_attempts_are_counted(expression, attempts):
    assert count_attempts(expression, "") == attempts
