"""`throughtime data list`, `show` and `fetch`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import lacks

from throughtime.data import catalogue
from throughtime.data.catalogue import CORPORA
from throughtime.files import sha256_of

Run = Callable[..., Any]


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("THROUGHTIME_DATA", raising=False)
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, folders: Path) -> Path:
    """A corpus of the catalogue, made small and published in a folder that stands for the web."""
    source = folders / "web" / "input.txt"
    source.parent.mkdir()
    source.write_text("First Citizen:\nSpeak.\n")
    corpus = CORPORA["tinyshakespeare"]
    file = type(corpus.files[0])(
        "input.txt", sha256_of(source), source.stat().st_size, "https://web.test/input.txt"
    )
    small = type(corpus)(**{**vars(corpus), "files": (file,)})
    monkeypatch.setitem(CORPORA, "tinyshakespeare", small)

    def bring(
        address: str, path: Path, *, sha256: str, limit: int, progress: Callable[[int, int], None]
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        progress(file.size, file.size)
        return path

    monkeypatch.setattr("throughtime.data.download.download", bring)
    return folders / "cache" / "data" / "tinyshakespeare" / "input.txt"


def test_list(throughtime: Run, folders: Path) -> None:
    ran = throughtime("data", "list", "--json")
    listed = {row["name"]: row for row in ran.json["corpora"]}
    assert list(listed) == catalogue.names()
    assert (listed["ptb"]["where"], listed["hsk-en-zh"]["where"], listed["embedded/sine"]["where"]) == (
        "fetchable",
        "missing",
        "found",
    )
    assert listed["series/ETTh1"]["bytes"] == 2_589_657
    shown = throughtime("data", "list")
    assert (shown.code, shown.err) == (0, "")
    assert all(name in shown.out for name in listed)


def test_list_with_the_corpora(throughtime: Run, corpora: Path) -> None:
    assert {row["where"] for row in throughtime("data", "list", "--json").json["corpora"]} == {"found"}


def test_show_without_files(throughtime: Run, folders: Path) -> None:
    values = throughtime("data", "show", "multi30k/tok", "--json").json
    assert len(values["files"]) == 9
    assert (values["parts"][0]["tokens"], values["sample"], values["where"]) == ("space", [], "fetchable")
    ran = throughtime("data", "show", "series")
    assert ran.code == 0
    for expected in ("series/ETTh1", "Informer", CORPORA["series"].files[0].sha256, "90, 5, 5 %"):
        assert expected in ran.out


def test_show_with_a_sample(throughtime: Run, published: Path) -> None:
    throughtime("data", "fetch", "tinyshakespeare")
    values = throughtime("data", "show", "tinyshakespeare", "--json").json
    assert values["sample"] == [{"text": "First Citizen:"}, {"text": "Speak."}]
    assert values["files"][0]["place"] == str(published)
    assert "First Citizen:" in throughtime("data", "show", "tinyshakespeare").out


def test_fetch_then_verify_then_repair_then_force(throughtime: Run, published: Path) -> None:
    ran = throughtime("data", "fetch", "tinyshakespeare", "--json")
    assert (ran.code, ran.json["fetched"]) == (0, ["input.txt"])
    again = throughtime("data", "fetch", "tinyshakespeare")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("tinyshakespeare: ")
    published.write_text("First Citizen:\nSPEAK.\n")
    assert throughtime("data", "fetch", "tinyshakespeare", "--json").json["fetched"] == ["input.txt"]
    assert published.read_text() == "First Citizen:\nSpeak.\n"
    assert throughtime("data", "fetch", "tinyshakespeare", "--force", "--json").json["fetched"] == [
        "input.txt"
    ]


def test_fetch_what_cannot_be_fetched(throughtime: Run, folders: Path) -> None:
    ran = throughtime("data", "fetch", "hsk-en-zh")
    assert ran.code == 2
    assert not lacks(ran.err, "$THROUGHTIME_DATA/hsk-en-zh/hsk-en-zh.txt")
    assert "https://huggingface.co/datasets/swaption2009" in ran.err


def test_unknown_name(throughtime: Run, folders: Path) -> None:
    ran = throughtime("data", "show", "wikitext2", "--json")
    assert ran.code == 2
    assert not lacks(ran.json["error"], "corpus", "'wikitext2'", "'wikitext-2'")
