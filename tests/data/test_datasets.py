"""Opening data by name and by path: splits, records, texts and directions."""

from __future__ import annotations

import gzip
import itertools
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.dataset import bounds
from throughtime.data.datasets import open_dataset
from throughtime.data.records import Flashcard, Line, Pair, TaggedSentence, blocks
from throughtime.files import sha256_of

LINES = [f"line {number}" for number in range(40)]


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


@given(st.integers(0, 5_000))
def test_splits_of_one_file_use_every_record_once(count: int) -> None:
    edges = [bounds(split, count) for split in ("train", "valid", "test")]
    assert [edge for pair in edges for edge in pair] == sorted(edge for pair in edges for edge in pair)
    assert (edges[0][0], edges[0][1], edges[1][1], edges[2][1]) == (0, edges[1][0], edges[2][0], count)
    assert bounds("heldout", count) == (edges[1][0], count)
    sizes = [after - first for first, after in edges]
    if count > 2:
        assert sizes[1] == sizes[2] >= 1
        assert abs(sizes[1] - count / 20) < 1


def test_single_file(poem: Path) -> None:
    dataset = open_dataset(str(poem))
    assert (dataset.kind, dataset.layout, dataset.splits) == ("text", "lines", ("train", "valid", "test"))
    parts = [list(dataset.texts(split)) for split in dataset.splits]
    assert [len(part) for part in parts] == [36, 2, 2]
    assert list(itertools.chain.from_iterable(parts)) == LINES == list(dataset.texts())
    assert list(dataset.texts("heldout")) == LINES[36:]
    assert list(dataset.records("test")) == [Line(text) for text in LINES[38:]]
    assert dataset.files("valid") == (poem,)
    with refuses("poem.txt", "'dev'", "train", "valid", "test", "heldout", "all"):
        dataset.records("dev")


def test_folder_of_splits(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("Go.\tVa !\nHi.\tSalut !\n", "utf-8")
    (tmp_path / "dev.tsv.gz").write_bytes(gzip.compress(b"Run!\tCours !\n"))
    (tmp_path / "README.md").write_text("not data")
    dataset = open_dataset(str(tmp_path))
    assert dataset.splits == ("train", "valid")
    assert list(dataset.records("heldout")) == [Pair("Run!", "Cours !")]
    assert list(dataset.texts(side="target")) == ["Va !", "Salut !", "Cours !"]
    assert list(dataset.texts("valid")) == ["Run!", "Cours !"]
    with refuses(tmp_path, "'test'", "train", "valid", "heldout", "all"):
        dataset.texts("test")


def test_folder_of_parallel_files(tmp_path: Path) -> None:
    for split, words in (("train", ["one", "two"]), ("valid", ["three"])):
        for language in ("en", "fr", "de"):
            (tmp_path / f"{split}.{language}").write_text(
                "".join(f"{w}-{language}\n" for w in words), "utf-8"
            )
    with refuses(tmp_path, "de", "en", "fr", "source", "target"):
        open_dataset(str(tmp_path))
    dataset = open_dataset(str(tmp_path), source="fr", target="de")
    assert dataset.languages == ("fr", "de")
    assert list(dataset.records()) == [Pair(f"{w}-fr", f"{w}-de") for w in ("one", "two", "three")]
    assert dataset.files("valid") == (tmp_path / "valid.fr", tmp_path / "valid.de")
    (tmp_path / "valid.de").unlink()
    with refuses(tmp_path, "valid", "de"):
        open_dataset(str(tmp_path), source="fr", target="de")


def test_folder_without_splits_or_with_two_of_one(tmp_path: Path) -> None:
    with refuses(tmp_path, "train", "valid", "test"):
        open_dataset(str(tmp_path))
    (tmp_path / "valid.txt").write_text("a\n")
    (tmp_path / "dev.txt").write_text("b\n")
    with refuses(tmp_path, "dev.txt", "valid.txt", "valid"):
        open_dataset(str(tmp_path))


def test_two_files_in_either_direction(tmp_path: Path) -> None:
    english, french = tmp_path / "a.en", tmp_path / "a.fr"
    english.write_text("Go.\n", "utf-8")
    french.write_text("Va !\n", "utf-8")
    dataset = open_dataset(f"{english},{french}")
    assert (dataset.languages, next(dataset.records())) == (("en", "fr"), Pair("Go.", "Va !"))
    turned = open_dataset(f"{english},{french}", source="fr")
    assert (turned.languages, next(turned.records())) == (("fr", "en"), Pair("Va !", "Go."))


def test_a_folder_of_slot_files(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        for name, line in (("seq.in", "play  jazz "), ("seq.out", "O B-genre"), ("label", "PlayMusic")):
            (tmp_path / split / name).write_text(line + "\n")
    dataset = open_dataset(str(tmp_path))
    assert list(dataset.records("test")) == [TaggedSentence(("play", "jazz"), ("O", "B-genre"), "PlayMusic")]
    assert list(dataset.texts("train")) == ["play jazz"]


def test_path_or_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THROUGHTIME_DATA", raising=False)
    Path("ptb").write_text("mine\n")
    with refuses("ptb", "THROUGHTIME_DATA/ptb/ptb.train.txt", "2"):
        open_dataset("ptb", download=False)
    assert list(open_dataset("./ptb").texts()) == ["mine"]
    Path("notes").write_text("mine too\n")
    assert list(open_dataset("notes").texts()) == ["mine too"]
    for absent in ("./missing.txt", "missing.txt", "folder/missing.txt", "a.en,missing.fr"):
        with refuses("a.en" if "," in absent else "missing.txt"):
            open_dataset(absent)
    Path("with, comma.txt").write_text("one\n")
    assert list(open_dataset("with, comma.txt").texts()) == ["one"]
    with refuses("corpus", "'tinyshakespear'", "'tinyshakespeare'"):
        open_dataset("tinyshakespear")


def test_bad_records_are_refused_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a b\tb\nbroken\n" + "c a\td\ne\tf\ng\th\n", "utf-8")
    with refuses("pairs.tsv:2", "1", "2"):
        list(open_dataset(str(path)).records())
    dataset = open_dataset(str(path), skip_bad=True)
    for split, count in (("all", 4), ("train", 2), ("all", 4)):
        assert len(list(dataset.records(split))) == count
        assert dataset.bad.count == 1


def test_cards_give_pairs_in_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "deck.txt"
    path.write_text("english: Hi: there.\nhsk: 1\nmandarin: 你好。\npinyin: nǐ hǎo。\n--\n", "utf-8")
    dataset = open_dataset(str(path))
    assert (dataset.kind, next(dataset.records())) == (
        "cards",
        Flashcard("Hi: there.", "1", "你好。", "nǐ hǎo。"),
    )
    assert list(dataset.pairs()) == [Pair("Hi: there.", "你好。")]
    assert list(dataset.texts(side="target")) == ["你好。"]


def test_sides_kinds_and_layouts_that_are_not_there(poem: Path) -> None:
    dataset = open_dataset(str(poem))
    with refuses("poem.txt", "source"):
        dataset.texts(side="source")
    with refuses("side", "'left'"):
        dataset.texts(side="left")
    with refuses("poem.txt"):
        dataset.pairs()
    with refuses("layout", "'strem'", "'stream'"):
        open_dataset(str(poem), layout="strem")
    assert list(open_dataset(str(poem), layout="stream").texts("heldout")) == ["\n".join(LINES[36:])]


def test_series_are_cut_along_time(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    rows = [
        f"{name},{year}-01,{year + shift}"
        for name, shift in (("a", 0), ("b", 0.5))
        for year in range(2000, 2020)
    ]
    path.write_text("unique_id,ds,y\n" + "\n".join(rows) + "\n")
    dataset = open_dataset(str(path))
    assert [(r.unique_id, r.y) for r in dataset.records("heldout")] == [
        ("a", 2018),
        ("a", 2019),
        ("b", 2018.5),
        ("b", 2019.5),
    ]
    assert [(r.unique_id, r.ds, r.y) for r in dataset.records("test")] == [
        ("a", "2019-01", 2019),
        ("b", "2019-01", 2019.5),
    ]
    with refuses("two.csv"):
        dataset.texts()


def test_embedded_corpora() -> None:
    pairs = open_dataset("embedded/en-fr")
    first = next(pairs.records("valid"))
    assert next(open_dataset("embedded/en-fr", source="fr").records("valid")) == Pair(
        first.target, first.source
    )
    english = open_dataset("embedded/english")
    texts = list(english.texts())
    both = [pair.source for name in ("en-fr", "en-zh") for pair in open_dataset(f"embedded/{name}").records()]
    assert first.source in texts
    assert set(both) < set(texts)
    assert len(list(open_dataset("embedded/sine").records("train"))) == 900
    assert len(list(open_dataset("embedded/sine").records("heldout"))) == 100
    with refuses("embedded/en-fr", "'de'", "en", "fr"):
        open_dataset("embedded/en-fr", source="de")
    with refuses("source and target", "'fr'"):
        open_dataset("embedded/en-fr", source="fr", target="fr")


def letters(text: str) -> str:
    return re.sub("[^A-Za-z]+", " ", text).lower()


WRAPPED = st.lists(
    st.text(alphabet="ab C1.,é\t—", max_size=6) | st.sampled_from(["", " x", "3 b", "A b", '"b"', "b "]),
    max_size=40,
)


@given(WRAPPED, st.integers(1, 20))
def test_blocks_are_the_text_and_rules_cannot_tell(lines: list[str], size: int) -> None:  # R24
    cut = list(blocks(lines, size))
    text = "\n".join(lines)
    assert "".join(cut) == text
    if all(len(block) < 8 * size for block in cut):  # a longer block may have been cut in any place
        assert "".join(letters(block) for block in cut) == letters(text)
        assert [word for block in cut for word in block.split()] == text.split()


def test_blocks_of_a_text_without_latin_letters_stay_bounded() -> None:
    lines = ["时间机器"] * 1_000
    cut = list(blocks(lines, size=100))
    assert max(map(len, cut)) <= 8 * 100 + 5
    assert "".join(cut) == "\n".join(lines)


def test_counts_of_the_corpora(corpora: Path) -> None:  # R77
    expected = {
        "timemachine": 3_221,
        "tatoeba-fra-eng": 167_130,
        "tatoeba-cmn-eng": 32_028,
        "hsk-en-zh": 22_131,
        "multi30k/tok": 29_000 + 1_014 + 1_000,
        "ud-english-ewt": 12_544 + 2_001 + 2_077,
        "snips-slots": 13_084 + 700 + 700,
        "ptb": 42_068 + 3_370 + 3_761,
        "wikitext-2": 36_718 + 3_760 + 4_358,
    }
    assert {name: sum(1 for _ in open_dataset(name).records()) for name in expected} == expected
    assert open_dataset("ptb").files("heldout") == (
        corpora / "ptb/ptb.valid.txt",
        corpora / "ptb/ptb.test.txt",
    )


def test_time_machine_in_blocks_is_the_whole_book(corpora: Path) -> None:  # R24
    lines = [record.text for record in open_dataset("timemachine").records()]
    cut = list(blocks(lines, size=5_000))
    assert len(cut) > 20
    assert len("".join(letters(block) for block in cut)) == 173_428
    assert sum(len(letters(block).split()) for block in cut) == 32_775


def test_directions_of_multi30k(corpora: Path) -> None:
    default, turned = open_dataset("multi30k"), open_dataset("multi30k", source="fr", target="en")
    assert (default.languages, turned.languages) == (("en", "de"), ("fr", "en"))
    assert next(default.records("test")).source == next(turned.records("test")).target


def test_pairs_of_one_file_are_drawn_by_source_and_every_direction_has_the_same_splits(tmp_path):
    rows = [(f"source {n // 2}", f"target {n}") for n in range(2_000)]  # two translations each
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    data = open_dataset(str(path))
    parts = {split: list(data.records(split)) for split in ("train", "valid", "test")}
    assert sorted(pair for part in parts.values() for pair in part) == sorted(rows)
    sources = [{pair.source for pair in part} for part in parts.values()]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    assert [len(part) for part in parts.values()] == [1800, 100, 100]
    assert list(data.records("heldout")) == [row for row in rows if row[0] not in sources[0]]


def test_members_of_one_archive_are_data_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from throughtime.data.idcache import token_ids
    from throughtime.text.codec import Codec

    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("one.txt", "Go now.\n" * 3)
        archive.writestr("two/b.txt", "Run.\n" * 3)
    with refuses("a.zip", "'a.zip!one.txt'"):
        open_dataset("a.zip")
    found = [open_dataset(f"a.zip!{name}") for name in ("one.txt", "two/b.txt")]
    assert [next(one.texts()) for one in found] == ["Go now.", "Run."]
    assert [one.checksums() for one in found] == [
        [["a.zip!one.txt", sha256_of(Path("a.zip"))]],
        [["b.txt", sha256_of(Path("a.zip"))]],
    ]
    codec = Codec.build(["Go now. Run."], "space")
    ids = [token_ids(one, "all", codec, eos=False, cache=tmp_path / "cache") for one in found]
    assert [len(one) for one in ids] == [6, 3]
    with refuses("a.zip", "'three.txt'"):
        open_dataset("a.zip!three.txt")
