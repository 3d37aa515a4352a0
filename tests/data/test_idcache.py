"""Ids on disk: encoded once, found again, rebuilt when damaged, keyed by content and codec."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data import idcache
from throughtime.data.datasets import open_dataset
from throughtime.data.idcache import token_ids


class Words:
    """A codec with one id a word, which counts how often it is asked."""

    def __init__(self, words: str = "<unk> <eos> a b c", size: int | None = None) -> None:
        self.words = words.split()
        self.hash = words
        self.asked = 0
        self.size = size or len(self.words)
        self.eos_id = self.words.index("<eos>") if "<eos>" in self.words else None

    @property
    def tokenizer(self) -> Words:
        return self

    @property
    def vocabulary(self) -> Words:
        return self

    def __len__(self) -> int:
        return self.size

    def tokenize(self, text: str) -> list[str]:
        self.asked += 1
        return text.split()

    def encode_array(self, tokens: list[str]) -> npt.NDArray[np.int32]:
        return np.array([self.words.index(t) if t in self.words else 0 for t in tokens], np.int32)


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("a b\n\nc x a\n")
    return path


def test_lines_with_and_without_end(poem: Path, tmp_path: Path) -> None:
    found = token_ids(open_dataset(str(poem)), "all", Words(), eos=True, cache=tmp_path / "cache")
    assert found.ids.tolist() == [2, 3, 1, 1, 4, 0, 2, 1]
    assert found.starts.tolist() == [0, 3, 4, 8]
    assert (len(found), found.text(1).tolist(), found.text(2).tolist()) == (8, [1], [4, 0, 2, 1])
    assert isinstance(found.ids, np.memmap)
    assert found.ids.dtype == np.uint16
    plain = token_ids(open_dataset(str(poem)), "all", Words(), eos=False, cache=tmp_path / "cache")
    assert (plain.ids.tolist(), plain.starts.tolist()) == ([2, 3, 4, 0, 2], [0, 2, 2, 5])


def test_stream_is_one_text(poem: Path, tmp_path: Path) -> None:
    dataset = open_dataset(str(poem), layout="stream")
    found = token_ids(dataset, "all", Words(), eos=True, cache=tmp_path)
    assert (found.ids.tolist(), found.starts.tolist()) == ([2, 3, 4, 0, 2, 1], [0, 6])


def test_second_time_nothing_is_encoded(poem: Path, tmp_path: Path) -> None:
    codec = Words()
    first = token_ids(open_dataset(str(poem)), "all", codec, eos=True, cache=tmp_path)
    asked = codec.asked
    second = token_ids(open_dataset(str(poem)), "all", codec, eos=True, cache=tmp_path)
    assert (codec.asked, second.folder) == (asked, first.folder)
    assert second.ids.tolist() == first.ids.tolist()


def test_key_follows_content_codec_split_and_reading(poem: Path, tmp_path: Path) -> None:
    def folder(
        codec: Words | None = None, split: str = "all", eos: bool = False, layout: str = "lines"
    ) -> Path:
        dataset = open_dataset(str(poem), layout=layout)
        return token_ids(dataset, split, codec or Words(), eos=eos, cache=tmp_path / "cache").folder

    folders = [
        folder(),
        folder(Words("<unk> <eos> a")),
        folder(split="train"),
        folder(eos=True),
        folder(layout="stream"),
    ]
    poem.write_text("a b\n\nc x b\n")
    os.utime(poem, ns=(1, 1))
    folders.append(folder())
    assert len(set(folders)) == 6
    moved = poem.rename(tmp_path / "elsewhere.txt")
    again = token_ids(open_dataset(str(moved)), "all", Words(), eos=False, cache=tmp_path / "cache")
    assert again.folder == folders[-1]


@pytest.mark.parametrize("name", ["ids.bin", "starts.bin", "header.json"])
def test_damaged_entry_is_rebuilt(poem: Path, tmp_path: Path, name: str) -> None:
    dataset = open_dataset(str(poem))
    first = token_ids(dataset, "all", Words(), eos=True, cache=tmp_path)
    expected = first.ids.tolist()
    with (first.folder / name).open("r+b") as file:
        file.truncate(3)
    codec = Words()
    assert token_ids(dataset, "all", codec, eos=True, cache=tmp_path).ids.tolist() == expected
    assert codec.asked == 3


def test_failure_leaves_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\nbroken\n")
    with refuses("pairs.tsv:2", "2"):
        token_ids(open_dataset(str(path)), "all", Words(), eos=True, cache=tmp_path / "cache")
    assert list((tmp_path / "cache" / "ids").iterdir()) == []


def test_sides_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a c\tb b\nc\ta\n")
    dataset = open_dataset(str(path))
    target = token_ids(dataset, "all", Words(), eos=False, side="target", cache=tmp_path)
    assert (target.ids.tolist(), target.starts.tolist()) == ([3, 3, 2], [0, 2, 3])


def test_end_token_has_to_exist(poem: Path, tmp_path: Path) -> None:
    with refuses("vocabulary", "<eos>", "[SEP]"):
        token_ids(open_dataset(str(poem)), "all", Words("<unk> a"), eos=True, cache=tmp_path)


def test_another_process_may_finish_first(
    poem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, build = open_dataset(str(poem)), idcache._build

    def overtaken(*arguments: object) -> None:
        monkeypatch.setattr(idcache, "_build", build)
        token_ids(dataset, "all", Words(), eos=True, cache=tmp_path)
        build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(idcache, "_build", overtaken)
    found = token_ids(dataset, "all", Words(), eos=True, cache=tmp_path)
    assert found.ids.tolist() == [2, 3, 1, 1, 4, 0, 2, 1]
    assert [entry.name for entry in (tmp_path / "ids").iterdir()] == [found.folder.name]


TEXTS = st.lists(st.lists(st.sampled_from("abcx"), max_size=6).map(" ".join), min_size=1, max_size=30)


@given(TEXTS, st.booleans(), st.integers(1, 40))
def test_ids_are_those_of_each_text(texts: list[str], eos: bool, chunk: int) -> None:
    codec = Words()
    pieces = [
        idcache._encode_texts(part, codec, 1 if eos else None) for part in idcache._chunks(texts, chunk)
    ]
    ids = [value for part, _ in pieces for value in part.tolist()]
    each = [codec.encode_array(text.split()).tolist() + [1] * eos for text in texts]
    assert ids == [value for part in each for value in part]
    lengths = [int(length) for _, ends in pieces for length in np.diff(ends, prepend=0)]
    assert lengths == [len(part) for part in each]


def test_two_processes_build_the_same_entry(tmp_path: Path) -> None:
    pytest.importorskip("throughtime.text.codec")
    path = tmp_path / "poem.txt"
    path.write_text("the time traveller sat by the fire\n" * 20_000)
    program = """
import pathlib, sys
from throughtime.data.datasets import open_dataset
from throughtime.data.idcache import token_ids
from throughtime.text.codec import Codec
dataset = open_dataset(sys.argv[1])
codec = Codec.build(dataset.texts(), "space", reserved=("<unk>", "<eos>"))
found = token_ids(dataset, "train", codec, eos=True, cache=pathlib.Path(sys.argv[2]))
print(len(found), codec.decode(found.text(7).tolist()))
"""
    words = [sys.executable, "-c", program, str(path), str(tmp_path / "cache")]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [child.communicate(timeout=60)[0] for child in children]
    assert said == ["144000 the time traveller sat by the fire\n"] * 2
    assert len(list((tmp_path / "cache" / "ids").iterdir())) == 1


def test_token_counts_of_the_benchmarks(corpora: Path, tmp_path: Path) -> None:  # R23
    from throughtime.text.codec import Codec

    for name, types, expected in (
        ("ptb", 10_000, [929_589, 73_760, 82_430]),
        ("wikitext-2", 33_278, [2_088_628, 217_646, 245_569]),
    ):
        dataset = open_dataset(name)
        codec = Codec.build(dataset.texts("train"), dataset.tokens, reserved=("<unk>", "<eos>"))
        assert len(codec.vocabulary) == types
        found = [token_ids(dataset, split, codec, eos=True, cache=tmp_path) for split in dataset.splits]
        assert [len(ids) for ids in found] == expected
        text = next(dataset.texts("test"))
        assert codec.decode(found[2].text(0).tolist()) == codec.tokenizer.normalise(text)
