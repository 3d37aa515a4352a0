"""The embedded corpora: how many pairs, always the same ones, and divided as promised."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from throughtime.data import embedded
from throughtime.data.embedded import corpus, split
from throughtime.errors import InputError

NAMES = ("en-fr", "en-zh")


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_distinct_pairs(name: str) -> None:
    pairs = embedded.all_pairs(name)
    sources = [pair.source for pair in pairs]
    assert 8_000 <= len(pairs) <= 20_000
    assert len(set(sources)) == len(sources), "every source has one target"
    assert 400 <= len(embedded.pairs(name, "valid")) <= 700
    assert 500 <= len(embedded.pairs(name, "test")) <= 1_600
    assert all(2 <= len(source.split()) <= 14 for source in sources)


@pytest.mark.parametrize("name", NAMES)
def test_either_side_has_an_everyday_lexicon(name: str) -> None:
    source, target = embedded.words(name)
    assert len(source) >= 350
    assert len(target) >= 350
    assert not any(re.search(r"[。？！，\s.?!]", word) for word in source | target)


def test_the_chinese_words_are_those_of_the_sentences() -> None:
    _, known = embedded.words("en-zh")
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


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_is_in_two_parts(name: str) -> None:
    parts = [embedded.pairs(name, part) for part in embedded.SPLITS]
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in part} for part in parts)
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_english_sentences_are_in_the_same_part_of_both_corpora() -> None:
    for part in embedded.SPLITS:
        assert [p.source for p in embedded.pairs("en-fr", part)] == [
            p.source for p in embedded.pairs("en-zh", part)
        ]


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


def digest() -> str:
    text = "\n".join("\t".join(pair) for name in NAMES for pair in embedded.all_pairs(name))
    return hashlib.sha256(text.encode()).hexdigest()


def test_every_process_makes_the_same_corpus() -> None:
    script = (
        "import hashlib; from throughtime.data import embedded;"
        "text = '\\n'.join('\\t'.join(p) for n in ('en-fr', 'en-zh') for p in embedded.all_pairs(n));"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    for seed in ("1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == digest()


def test_importing_and_making_pairs_needs_neither_numpy_nor_torch() -> None:
    script = (
        "import sys; from throughtime.data.embedded.corpus import pairs; pairs('en-fr');"
        "print(sorted({'numpy', 'torch', 'pydantic'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_pairs_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded.pairs("en-fr")

    def again(*_: object) -> None:
        raise AssertionError("the corpus was made a second time")

    monkeypatch.setattr(corpus, "divide", again)
    assert embedded.pairs("en-zh")


def test_callers_may_change_what_they_get() -> None:
    embedded.pairs("en-fr", "valid").clear()
    assert embedded.pairs("en-fr", "valid")


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown embedded pairs 'en-ft'; did you mean 'en-fr'"):
        embedded.pairs("en-ft")
    with pytest.raises(InputError, match="unknown split 'trian'; did you mean 'train'"):
        embedded.pairs("en-fr", "trian")
    with pytest.raises(InputError, match="unknown series 'sinus'"):
        embedded.series("sinus")
    with pytest.raises(InputError, match="length: is 0"):
        embedded.series("sine", length=0)


def test_sine_is_a_slow_wave_with_noise() -> None:  # R3
    values = embedded.series("sine")
    noise = values - np.sin(0.01 * np.arange(1, 1001))
    assert values.shape == (1000,)
    assert values.dtype == np.float64
    assert abs(noise.mean()) < 0.03
    assert 0.18 < noise.std() < 0.22


def test_ramp_is_a_climb_with_noise() -> None:  # R3
    values = embedded.series("ramp")
    noise = values - np.linspace(0, 10, 1000)
    assert values.shape == (1000,)
    assert abs(noise.mean()) < 0.06
    assert 0.46 < noise.std() < 0.54


def test_series_follow_their_seed_and_length() -> None:  # R3
    assert np.array_equal(embedded.series("sine", seed=3), embedded.series("sine", seed=3))
    assert not np.array_equal(embedded.series("sine", seed=3), embedded.series("sine", seed=4))
    assert embedded.series("ramp", length=7).shape == (7,)


def test_english_is_the_story_and_the_english_sides_without_overlap():
    parts = {split: embedded.english(split) for split in embedded.SPLITS}
    everything = [text for part in parts.values() for text in part]
    assert len(everything) == len(set(everything))
    assert parts["train"][: len(embedded.story())] == embedded.story()
    assert len(embedded.story()) == len(set(embedded.story())) > 80
