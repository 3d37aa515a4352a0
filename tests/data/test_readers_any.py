"""What holds of every reader: whatever a file holds, there are records or one clear error, nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.memory import RECORDS
from throughtime.data.readers import READERS, build_reader, guess_reader, reader_for, takes
from throughtime.data.readers.lines import PlainText
from throughtime.data.records import Line, Observation, Pair
from throughtime.data.source import BadRecords
from throughtime.errors import InputError
from throughtime.registry import Registry

# Pieces that the formats are made of, and what breaks them.
PIECES = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b",",
        b'"',
        b"--\n",
        b"english: Go.\n",
        b"hsk: 1\n",
        b"#",
        b" ",
        b"O",
        b"\xe9",
        b"\0",
    ),
    *(
        b'{"src": "a", "tgt": "b"}\n',
        b'{"translation": {}}',
        b"source,target\n",
        b"unique_id,ds,y\n",
        b"ds,y\n",
    ),
    *(
        b"2020-01-01,1\n",
        b"2020-13-01",
        b"nan",
        b"1e999",
        b"-7",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
        b"PK\x03\x04",
    ),
]
CONTENT = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=20).map(b"".join)
INPUTS = {"moses": 2, "slots": 3}


def attempt(action: Callable[[], Any]) -> tuple[Any, InputError | None]:
    try:
        return action(), None
    except InputError as error:
        return None, error


pytestmark = pytest.mark.filterwarnings("ignore:.*dropped [0-9,]+ control character")

KINDS = {**RECORDS, Observation: "series"}


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None)
@given(contents=st.tuples(CONTENT, CONTENT, CONTENT))
def test_any_bytes_give_records_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, contents: tuple[bytes, ...]
) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    folder = tmp_path_factory.getbasetemp()
    paths = [folder / f"any-{name}-{number}" for number in range(INPUTS.get(name, 1))]
    for path, content in zip(paths, contents, strict=False):
        path.write_bytes(content)
    for skip in (False, True):
        bad = BadRecords(skip)
        records, error = attempt(lambda bad=bad: list(READERS[name]().read(paths, bad)))
        if error is None:
            assert {KINDS[type(record)] for record in records} <= {READERS[name].kind}
            assert skip or not bad.count
        else:
            assert "\n" not in str(error)
            assert any(str(error).startswith(str(path)) for path in paths)


@settings(deadline=None)
@given(content=CONTENT, suffix=st.sampled_from([".csv", ".txt", ""]))
def test_a_guess_never_breaks(tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content)
    guess, error = attempt(lambda: guess_reader([path]))
    assert guess in READERS if error is None else str(error).startswith(str(path))


def test_several_files_follow_one_another(tmp_path: Path) -> None:
    texts = {
        "a.tsv": "a\tb\n",
        "a.csv": "src,tgt\na,b\n",
        "a.jsonl": '{"src": "a", "tgt": "b"}\n',
        "a.conll": "a\tb\n",
        "s.csv": "ds,y\n2020-01,1\n",
    }
    for name, text in texts.items():
        file = tmp_path / name
        file.write_text(text)
        [record] = reader_for([file]).read([file], BadRecords())
        assert list(reader_for([file]).read([file] * 3, BadRecords())) == [record] * 3


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hsk", "english: Go.\nhsk: 1\nmandarin: 去。\npinyin: qù。\n--\n"),
        ("tsv", "Go.\tVa !\n"),
    ],
)
def test_files_with_a_format_of_their_own_are_never_zipped(
    tmp_path: Path, name: str, text: str, count: int
) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(count)]
    for path in paths:
        path.write_text(text, encoding="utf-8")
    assert guess_reader(paths) == name
    paths[0].write_text("Go.\n", encoding="utf-8")
    with refuses("0.txt:1"):  # neither where only one of them has it
        list(reader_for(paths).read(paths, BadRecords()))


def test_plain_files_stand_side_by_side(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.en", "a.fr", "missing.fr")]
    for path in paths[:2]:
        path.write_text("Go.\nRun.\n")
    assert guess_reader(paths[:2]) == "moses"
    assert guess_reader(paths) == "slots"


SAMPLES = [
    ("running.txt", "one\n\nthree\n"),
    ("pairs.tsv", "Go.\tVa !\nHi.\tSalut !\n"),
    ("pairs.csv", 'source,target\nGo.,Va !\n"a\nb","c\nd"\n'),
    ("pairs.jsonl", '{"source": "Go.", "target": "Va !"}\n{"source": "Hi.", "target": "Salut !"}\n'),
    ("words.conll", "Go\tVERB\n\nHi\tINTJ\n"),
    ("cards.txt", "english: Go.\nhsk: 1\nmandarin: 去。\npinyin: qù.\n--\n"),
    ("series.csv", "ds,y\n2020-01-01,1\n2020-01-02,2\n"),
    ("labels.csv", "text,label\nplay jazz,music\nrain?,weather\n"),
]
"""One small file of each kind, by name."""

SIDES: dict[str, tuple[str, str | int, str | int]] = {
    "tsv": ("pairs.tsv", 0, 1),
    "csv": ("pairs.csv", "source", "target"),
    "jsonl": ("pairs.jsonl", "source", "target"),
    "hsk-pairs": ("cards.txt", "english", "mandarin"),
}
"""By reader with the options `source` and `target`: the sample that it reads, and their values by default."""


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
@pytest.mark.parametrize(("name", "content"), SAMPLES)
def test_old_line_ends_give_the_same_records(tmp_path: Path, name: str, content: str, ending: str) -> None:
    found = []
    for folder, text in (("new", content), ("old", content.replace("\n", ending))):
        file = tmp_path / folder / name
        file.parent.mkdir()
        file.write_bytes(text.encode())
        found.append(list(reader_for([file]).read([file], BadRecords())))
    assert found[0] == found[1] != []


@pytest.mark.parametrize(
    "name", [name for name in READERS if {"source", "target"} <= {*takes(READERS[name])}]
)
def test_the_options_of_a_reader_of_pairs_choose_its_sides(tmp_path: Path, name: str) -> None:
    if name == "parquet":
        pytest.skip("reads its columns like the other tables")
    sample, source, target = SIDES[name]
    file = tmp_path / sample
    file.write_text(dict(SAMPLES)[sample], encoding="utf-8")
    pairs = list(build_reader(name).read([file], BadRecords()))
    for options, expected in (
        ({"source": source, "target": target}, pairs),
        ({"source": target, "target": source}, [Pair(pair.target, pair.source) for pair in pairs]),
    ):
        assert list(build_reader(name, options).read([file], BadRecords())) == expected != []


def test_another_package_adds_a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = EntryPoint("backwards", f"{__name__}:Backwards", "throughtime.readers")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [place] * (group == READERS.group))
    monkeypatch.setattr("throughtime.data.readers.READERS", Registry("reader", READERS.group, READERS._own))
    file = tmp_path / "a.txt"
    file.write_text("Go.\nHi.\n")
    assert list(open_dataset(file, reader="backwards").texts()) == [".oG", ".iH"]
    with refuses("reader", "'backward'", "'backwards'"):
        open_dataset(file, reader="backward")


def test_no_reader_is_imported_before_it_is_used() -> None:
    code = "import sys, throughtime.data.datasets; print('throughtime.data.readers.lines' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


class Backwards(PlainText):
    name = "backwards"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Line]:
        return (Line(line.text[::-1]) for line in super().read(paths, bad))
