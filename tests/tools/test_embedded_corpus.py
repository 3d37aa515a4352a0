"""The grammar of the embedded sentences writes the file of the package, and divides them as promised."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.embedded import corpus, split

from throughtime.data import embedded

NAMES = ("en-fr", "en-zh")


def test_the_grammar_writes_the_sentences_of_the_package() -> None:
    packed = corpus.FILE.read_bytes()
    assert gzip.decompress(packed).decode() == corpus.table()
    assert packed[4:8] == bytes(4), "a date would change the bytes at every run"
    assert len(packed) < 400_000


def test_the_package_reads_the_sentences_in_the_order_of_the_grammar() -> None:
    for part, sentences in corpus.parts().items():
        assert [tuple(pair) for pair in embedded.pairs("en-fr", part)] == [one[:2] for one in sentences]
        assert [pair.target for pair in embedded.pairs("en-zh", part)] == [
            one.chinese.replace(" ", "") for one in sentences
        ]


def test_every_process_writes_the_same_bytes(tmp_path: Path) -> None:
    script = "import pathlib, sys; from tools.embedded.corpus import write; write(pathlib.Path(sys.argv[1]))"
    for seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", script, str(tmp_path / seed)], env=environment, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "4242").read_bytes()
    assert gzip.decompress((tmp_path / "1").read_bytes()) == gzip.decompress(corpus.FILE.read_bytes())


def test_every_language_has_an_everyday_lexicon() -> None:
    for known in corpus.words():
        assert len(known) >= 350
        assert not any(re.search(r"[。？！，\s.?!]", word) for word in known)


def test_the_chinese_words_are_those_of_the_sentences() -> None:
    *_, known = corpus.words()
    longest = max(map(len, known))
    for pair in embedded.pairs("en-zh", "valid"):
        rest = re.sub(r"[，。？！]", "", pair.target)
        reach = {0}
        for start in range(len(rest)):
            if start in reach:
                reach |= {
                    start + size for size in range(1, longest + 1) if rest[start : start + size] in known
                }
        assert len(rest) in reach, pair.target


def test_one_verb_object_pair_in_ten_is_only_in_test() -> None:
    sentences = corpus.sentences()
    held = split.held_out(sentences)
    every = {unit for sentence in sentences for unit in sentence.units}
    assert len(every) > 400
    assert 0.09 <= len(held) / len(every) <= 0.11
    units = {sentence.english: sentence.units for sentence in sentences}
    for part in ("train", "valid"):
        seen = set().union(*(units[pair.source] for pair in embedded.pairs("en-fr", part)))
        assert not seen & held
        assert len(seen) > 0.8 * (len(every) - len(held)) or part == "valid"
    in_test = set().union(*(units[pair.source] for pair in embedded.pairs("en-fr", "test")))
    assert held <= in_test


def test_held_out_pairs_are_nowhere_in_the_text_of_train() -> None:
    """The same promise, judged by the English words rather than by what the grammar says of itself."""
    held = split.held_out(corpus.sentences())
    forms = {
        "eat": "eat|eats|ate|eaten|eating",
        "buy": "buy|buys|bought|buying",
        "read": "read|reads|reading",
    }
    judged = [(verb, thing) for verb, thing in held if verb in forms and " " not in thing]
    assert judged
    text = "\n".join(pair.source for part in ("train", "valid") for pair in embedded.pairs("en-fr", part))
    for verb, thing in judged:
        found = re.search(rf"\b({forms[verb]}) (?:\w+ )?{thing}s?\b", text)
        assert found is None, found


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_test_occurs_in_train(name: str) -> None:
    sides = {sentence.english: sentence for sentence in corpus.sentences()}

    def words(part: str) -> set[str]:
        found: set[str] = set()
        for pair in embedded.pairs(name, part):
            sentence = sides[pair.source]
            found.update(split.english_words(sentence.english))
            found.update(split.french_words(pair.target) if name == "en-fr" else sentence.chinese.split())
        return found

    assert words("test") <= words("train")
    assert words("valid") <= words("train")
