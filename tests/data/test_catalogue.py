"""The catalogue's table, and where its files are looked for, checked and fetched."""

from __future__ import annotations

import gzip
import hashlib
import string
import zipfile
from pathlib import Path

import pytest
from tests.refusals import refuses

from throughtime.data import catalogue
from throughtime.data.catalogue import CORPORA, Corpus, CorpusFile, CorpusPart
from throughtime.data.download import ChecksumError
from throughtime.errors import ThroughtimeError
from throughtime.files import cache_folder

TEXT = b"one two\nthree\n"
SUM = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    data, cache = tmp_path / "data", tmp_path / "cache"
    monkeypatch.setenv("THROUGHTIME_DATA", str(data))
    monkeypatch.setenv("THROUGHTIME_CACHE", str(cache))
    return data, cache


def corpus_of(*files: CorpusFile, preparation: str = "") -> Corpus:
    part = CorpusPart("text", "text", {"all": tuple(file.path for file in files)})
    return Corpus(
        "tiny", "Tiny", "A text.", "CC0", "nobody", "https://tiny.test", (part,), files, preparation
    )


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA.keys())
def test_table_is_complete(corpus: Corpus) -> None:
    assert all((corpus.title, corpus.description, corpus.licence, corpus.citation))
    paths = {file.path for file in corpus.files}
    assert len(paths) == len(corpus.files)
    for file in corpus.files:
        assert len(file.sha256) == 64
        assert set(file.sha256) <= set(string.hexdigits.lower())
        assert file.size > 0
        assert not file.address or file.address.startswith("https://")
    assert all(file.address for file in corpus.files) or (corpus.home and corpus.preparation)
    used = {file.path for name in corpus.names for file in catalogue.list_files(name)}
    assert used == paths
    for part in corpus.parts:
        assert set(part.splits) in ({"all"}, {"train", "valid", "test"})


def test_readers_tokenizers_and_normalisers_exist() -> None:
    readers = pytest.importorskip("throughtime.data.readers")
    for corpus in CORPORA.values():
        for part in corpus.parts:
            if part.reader != "embedded":
                assert readers.build_reader(part.reader).kind == part.kind


def test_every_file_of_the_folder_has_its_sum(corpora: Path) -> None:
    listed = {}
    for line in (corpora / "SHA256SUMS").read_text().splitlines():
        total, path = line.split()
        listed[path.removeprefix("./")] = total
    assert listed == {
        f"{corpus.name}/{file.path}": file.sha256 for corpus in CORPORA.values() for file in corpus.files
    }


def test_every_corpus_is_found_by_its_folder(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THROUGHTIME_DATA", str(corpora))
    for corpus in CORPORA.values():
        assert catalogue.whereabouts(corpus, corpus.files) == "found"
        assert catalogue.find_unsound(corpus, corpus.files) == []


def test_names() -> None:
    assert catalogue.find("multi30k/tok").part.tokens == "space"
    corpus, part = catalogue.find("multi30k/raw")
    assert corpus.get_part_name(part) == "multi30k"
    assert catalogue.find("ptb/ptb.valid").part.splits == {"all": ("ptb.valid.txt",)}
    single = catalogue.find("snips-slots/train/label").part
    assert (single.reader, single.kind) == ("text", "text")
    with refuses("corpus", "'pbt'", "'ptb'"):
        catalogue.find("pbt")
    with refuses("corpus", "'series/ETTh2'", "'series/ETTh1'"):
        catalogue.find("series/ETTh2")
    with refuses("series", "series/ETTh1"):
        catalogue.find("series")


def test_own_folder_goes_before_cache(places: tuple[Path, Path]) -> None:
    data, cache = places
    file = CorpusFile("a.txt", SUM, len(TEXT), "https://tiny.test/a.txt")
    tiny = corpus_of(file)
    assert catalogue.whereabouts(tiny, tiny.files) == "fetchable"
    kept = cache / "data" / "tiny" / "a.txt"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(TEXT)
    assert (catalogue.whereabouts(tiny, tiny.files), catalogue.locate(tiny, file)) == ("cache", kept)
    own = data / "tiny" / "a.txt"
    own.parent.mkdir(parents=True)
    own.write_bytes(TEXT)
    assert (catalogue.whereabouts(tiny, tiny.files), catalogue.locate(tiny, file)) == ("found", own)


def test_what_cannot_be_fetched_says_where_to_put_it(places: tuple[Path, Path]) -> None:
    tiny = corpus_of(CorpusFile("a.txt", SUM, len(TEXT)), preparation="Cut it out")
    assert catalogue.whereabouts(tiny, tiny.files) == "missing"
    with refuses("tiny", places[0] / "tiny" / "a.txt", "https://tiny.test", "Cut it out"):
        catalogue.require(tiny, ["a.txt"])


def test_fetching_can_be_forbidden() -> None:
    tiny = corpus_of(CorpusFile("a.txt", SUM, len(TEXT), "https://tiny.test/a.txt"))
    with refuses("tiny", "throughtime data fetch tiny", "https://tiny"):
        catalogue.require(tiny, ["a.txt"], fetch_missing=False)


def test_another_text_under_the_same_name_is_refused(places: tuple[Path, Path]) -> None:
    own = places[0] / "tiny" / "a.txt"
    own.parent.mkdir(parents=True)
    own.write_bytes(TEXT + b"more\n")
    tiny = corpus_of(CorpusFile("a.txt", SUM, len(TEXT)))
    with refuses("a.txt", "19", "tiny", "14"):
        catalogue.require(tiny, ["a.txt"])
    own.write_bytes(TEXT.upper())
    with refuses("a.txt", SUM):
        catalogue.find_unsound(tiny, tiny.files)


def test_offline_says_where_to_put_the_file(places: tuple[Path, Path]) -> None:
    tiny = corpus_of(CorpusFile("a.txt", SUM, len(TEXT), "https://127.0.0.1:9/a.txt"))
    with refuses("https://127.0.0.1:9/a.txt", places[0] / "tiny" / "a.txt", error=ThroughtimeError):
        catalogue.require(tiny, ["a.txt"])


def pretend_download(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Packed files come out of archives that the real downloader is tested to bring."""
    asked: list[str] = []

    def bring(address: str, path: Path, **options: object) -> Path:
        asked.append(address)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    monkeypatch.setattr("throughtime.data.download.download", bring)
    return asked


def test_gzip_is_unpacked(monkeypatch: pytest.MonkeyPatch, places: tuple[Path, Path]) -> None:
    pretend_download(monkeypatch, gzip.compress(TEXT))
    tiny = corpus_of(CorpusFile("deep/a.txt", SUM, len(TEXT), "https://tiny.test/a.txt.gz"))
    [path] = catalogue.require(tiny, ["deep/a.txt"])
    assert path == places[1] / "data" / "tiny" / "deep" / "a.txt"
    assert path.read_bytes() == TEXT
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_members_of_one_archive_come_with_one_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("in/a.txt", TEXT)
        archive.writestr("in/b.txt", TEXT)
    asked = pretend_download(monkeypatch, (tmp_path / "all.zip").read_bytes())
    files = [CorpusFile(f"{x}.txt", SUM, len(TEXT), f"https://tiny.test/all.zip!in/{x}.txt") for x in "ab"]
    tiny = corpus_of(*files)
    paths = catalogue.require(tiny, ["a.txt", "b.txt"])
    assert [path.read_bytes() for path in paths] == [TEXT, TEXT]
    assert asked == ["https://tiny.test/all.zip"]
    assert sorted(entry.name for entry in paths[0].parent.iterdir()) == ["a.txt", "b.txt"]
    with refuses("https://tiny.test/all.zip!in/c.txt", "'in/c.txt'", error=ThroughtimeError):
        catalogue.fetch(tiny, [CorpusFile("c.txt", SUM, 1, "https://tiny.test/all.zip!in/c.txt")])


def test_damaged_or_wrong_archives_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = corpus_of(CorpusFile("a.txt", SUM, len(TEXT), "https://tiny.test/a.txt.gz"))
    pretend_download(monkeypatch, gzip.compress(TEXT)[:-4])
    with refuses("https://tiny.test/a.txt.gz", error=ThroughtimeError):
        catalogue.require(tiny, ["a.txt"])
    pretend_download(monkeypatch, gzip.compress(b"something else"))
    with refuses("https://tiny.test/a.txt.gz", SUM, error=ChecksumError):
        catalogue.require(tiny, ["a.txt"])
    assert list(catalogue.cached_path(tiny, tiny.files[0]).parent.iterdir()) == []


def test_cache_folder_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("THROUGHTIME_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "throughtime"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "throughtime"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "throughtime"
