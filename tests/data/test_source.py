"""Opening files as they are: packing, encoding, line ends, and every fault in one sentence."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.source import BadRecords, lines_or_errors, read_lines
from throughtime.errors import InputError, ThroughtimeWarning

# Any text that a line may hold: U+2028 and the like are no line breaks here.
LINE = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\t\u2028\u2029 é。"))


def texts(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


def pack_zip(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/inner.txt", data)


PACKERS: dict[str, Callable[[Path, bytes], object]] = {
    "plain.txt": Path.write_bytes,
    "packed.gz": lambda path, data: path.write_bytes(gzip.compress(data)),
    "packed.xz": lambda path, data: path.write_bytes(lzma.compress(data)),
    "packed.zip": pack_zip,
    "gzip-without-suffix": lambda path, data: path.write_bytes(gzip.compress(data)),
}


@pytest.mark.parametrize("name", PACKERS)
def test_every_packing_gives_the_same_lines(tmp_path: Path, name: str) -> None:
    PACKERS[name](tmp_path / name, "Va !\n\ndéjà vu\n".encode())
    assert list(read_lines(tmp_path / name)) == [(1, "Va !"), (2, ""), (3, "déjà vu")]


@pytest.mark.parametrize("name", ["packed.gz", "packed.xz", "packed.zip"])
def test_truncated_packing_is_one_sentence(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    PACKERS[name](file, b"".join(b"%d\n" % (number * 7919) for number in range(5000)))
    file.write_bytes(file.read_bytes()[:-40])
    with refuses(name):
        texts(file)


@settings(deadline=None)
@given(
    lines=st.lists(LINE, min_size=1),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.booleans(),
    final=st.booleans(),
)
def test_lines_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ending: str, mark: bool, final: bool
) -> None:
    if not final and not lines[-1]:
        lines[-1] = "."  # without a final line break an empty last line is no line
    if lines[0].startswith("\ufeff") and not mark:
        lines[0] = "." + lines[0]
    data = ("\ufeff" if mark else "") + ending.join(lines) + (ending if final else "")
    file = tmp_path_factory.mktemp("lines") / "file.txt"
    file.write_bytes(data.encode())
    assert list(read_lines(file)) == list(enumerate(lines, start=1))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", PACKERS)
def test_faults_name_their_line_whatever_ends_lines(tmp_path: Path, name: str, ending: str) -> None:
    PACKERS[name](tmp_path / name, ending.join(["un", "deux", "d\xe9j\xe0", "b\x07"]).encode("latin-1"))
    found = list(lines_or_errors(tmp_path / name))
    assert found[:2] == [(1, "un"), (2, "deux")]
    place = 8 + 2 * len(ending) - 1  # "un", "deux" and a letter stand before the byte
    assert f":3: is not UTF-8, byte 0xE9 at offset {place};" in str(found[2][1])
    assert ":4: holds a control character, U+0007 at column 2" in str(found[3][1])


def test_undecodable_byte_names_line_and_offset(tmp_path: Path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"\xef\xbb\xbfgo\r\nd\xe9j\xe0\nfine\n")
    with refuses("latin.txt:2", "UTF-8", "0xE9", "8", "WINDOWS-1252") as caught:
        texts(file)
    assert caught.value.line == 2
    assert [line for _, line in lines_or_errors(file) if isinstance(line, str)] == ["go", "fine"]


def test_utf16_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "wide.txt"
    file.write_bytes("go".encode("utf-16"))
    with refuses("wide.txt:1", "UTF-16"):
        texts(file)


@pytest.mark.parametrize("control", ["\0", "\x0b", "\x0c", "\x1b", "\x7f", "\x85"])
def test_control_characters_name_their_line(tmp_path: Path, control: str) -> None:
    file = tmp_path / "file.txt"
    file.write_bytes(f"a\tb\nab{control}c\n".encode())
    rf"file\.txt:2: holds a control character, U\+{ord(control):04X} at column 3"
    with refuses("file.txt:2", f"U+{ord(control):04X}", "3"):
        texts(file)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "nothing.txt"
    file.write_bytes(data)
    with refuses("nothing.txt"):
        texts(file)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("x")
    with refuses("trian.tsv", "'train.tsv'"):
        texts(tmp_path / "trian.tsv")
    with refuses("train.tsv"):
        texts(tmp_path / "nowhere" / "train.tsv")
    with refuses(tmp_path):
        texts(tmp_path)


def test_zip_with_many_members_wants_one_named(tmp_path: Path) -> None:
    archive = tmp_path / "pairs.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("about.txt", "about\n")
        packed.writestr("data/fra.txt", "Go.\n")
    with refuses("pairs.zip", "2", "about.txt", "data/fra.txt"):
        texts(archive)
    assert texts(Path(f"{archive}!data/fra.txt")) == ["Go."]
    with refuses("pairs.zip", "'data/fr.txt'", "'data/fra.txt'"):
        texts(Path(f"{archive}!data/fr.txt"))


def test_a_zip_with_damaged_names_is_damaged(tmp_path: Path) -> None:
    archive = tmp_path / "named.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("content-é.txt", "a line\n")
    whole = archive.read_bytes()
    for header in (whole.index(b"PK\x03\x04"), whole.index(b"PK\x01\x02")):
        at = whole.index("é".encode(), header)
        archive.write_bytes(whole[:at] + b"\xcb\xcf" + whole[at + 2 :])
        with refuses("named.zip", "damaged"):
            texts(archive)


def test_a_member_of_what_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "false.zip").write_text("plain\n")
    assert texts(tmp_path / "false.zip") == ["plain"]
    with refuses("false.zip"):
        texts(tmp_path / "false.zip!member")
    with zipfile.ZipFile(tmp_path / "hollow.zip", "w"):
        pass
    with refuses("hollow.zip"):
        texts(tmp_path / "hollow.zip")


@pytest.mark.parametrize("ending", ["\n", "\r"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / "long.txt"
    with file.open("w", newline=ending) as out:
        for number in range(200_000):
            out.write(f"line {number} of a file that is a good deal longer than one block\n")
    tracemalloc.start()
    count = sum(1 for _ in read_lines(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200_000
    assert file.stat().st_size > 12_000_000
    assert peak < 3_000_000


def test_bad_records_refuse_or_count() -> None:
    errors = [InputError("pairs.tsv", f"has {n} columns, expected 2", line=n) for n in (1, 1, 3, 1, 1, 1, 1)]
    with refuses("pairs.tsv:1", "1"):
        BadRecords().handle(errors[0])
    bad = BadRecords(skip=True)
    assert bad.report() == "skipped no bad records"
    for error in errors:
        bad.handle(error)
    assert bad.count == 7
    assert bad.reasons == {"has 1 columns": 6, "has 3 columns": 1}
    assert len(bad.examples) == BadRecords.kept == 5
    assert bad.report().startswith(
        "skipped 7 bad records of pairs.tsv: line 1 has 1 columns, expected 2; line 1"
    )
    assert bad.report().endswith("; and 2 more")
    bad = BadRecords(skip=True)
    bad.handle(InputError("a.en", "is bad", line=1))
    bad.handle(InputError("b.fr", "is worse", line=2))
    assert bad.report() == "skipped 2 bad records of a.en, b.fr: a.en line 1 is bad; b.fr line 2 is worse"


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_texts_of_a_table_lose_their_control_characters_and_it_is_said(tmp_path, suffix):
    table, mark = tmp_path / f"texts.{suffix}", "," if suffix == "csv" else "\t"
    rows = ["text label", "the\x00_soup_was\x1b_cold a", "a_lovely\x02_evening b", "never\x7f_again a"]
    table.write_text("".join(f"{row}\n".replace(" ", mark) for row in rows))
    with pytest.warns(ThroughtimeWarning, match=r"texts\.\wsv: dropped 4 .* line 2"):
        records = list(tt.open_dataset(table, kind="labelled").records("all"))
    assert [record.text for record in records] == ["the_soup_was_cold", "a_lovely_evening", "never_again"]


@pytest.mark.parametrize("row", ["2020-01-02,1\x002.5", "2\x000\x002\x000\x00,\x001\x00"])
def test_control_characters_in_numbers_and_in_what_is_no_text_are_refused(tmp_path, row):
    table = tmp_path / "series.csv"
    table.write_text(f"ds,y\n2020-01-01,3\n{row}\n")
    with refuses("series.csv:3", "U+0000"):
        list(tt.open_dataset(table, kind="series").records("all"))
