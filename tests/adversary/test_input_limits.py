"""Input that is wide, long, packed or out of range: read in linear time and bounded memory, or refused."""

from __future__ import annotations

import gzip
import io
import itertools
import lzma
import re
import subprocess
import sys
import time
import zipfile

import pytest
from tests.refusals import refuses

from throughtime import files
from throughtime.data import source
from throughtime.data.datasets import open_dataset
from throughtime.data.readers.dates import DateCell, DateForm, check_date_format, settle_form
from throughtime.data.readers.panel import Roles, read_panel
from throughtime.data.readers.tables import MAX_CELLS
from throughtime.data.source import BadRecords, read_lines
from throughtime.errors import InputError
from throughtime.interrupt import InterruptError, interruptible
from throughtime.settings import read_settings

WIDE = 40_000


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    names = ",".join(f"c{number}" for number in range(WIDE))
    rows = "".join(f"2020-01-0{day},{','.join(['1.5'] * WIDE)}\n" for day in (1, 2, 3))
    path.write_text(f"ds,{names}\n{rows}")
    return path


def test_wide_tables_are_read_in_linear_time(wide):
    """Quadratic code needs more than a minute for this; linear code less than a second."""
    began = time.process_time()
    panel = read_panel(wide)
    assert (len(panel.series), panel.series[-1].unique_id) == (WIDE, f"c{WIDE - 1}")
    helpers = tuple(f"c{number}" for number in range(1, WIDE))
    assert read_panel(wide, Roles(target=("c0",), known=helpers)).series[0].known.shape == (3, WIDE - 1)
    assert time.process_time() - began < 15


@pytest.mark.parametrize("cell", ["", "a", "1"])
def test_a_row_of_a_million_cells_is_refused_before_its_columns_are_guessed(tmp_path, cell):
    path = tmp_path / "wide.csv"
    path.write_text((",".join([cell] * 1_000_000) + "\n") * 2)
    began = time.process_time()
    for read in (read_panel, lambda path: list(open_dataset(path).records())):
        with refuses("wide.csv:1", "1,000,000", f"{MAX_CELLS:,}"):
            read(path)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(("cells", "rows"), [(30, 100_000), (1_000, 3_000), (99_000, 30)])
def test_three_megabytes_of_commas_are_refused_at_once(tmp_path, cells, rows):
    path = tmp_path / "commas.csv"
    path.write_text(("," * (cells - 1) + "\n") * rows)
    began = time.process_time()
    for read in (read_panel, lambda path: list(open_dataset(path).records())):
        with refuses("commas.csv:1"):
            read(path)
    assert time.process_time() - began < 5


LONG = """
import resource, sys
from pathlib import Path
from throughtime.data.source import read_lines
from throughtime.errors import InputError
from throughtime.interrupt import InterruptError, interruptible
from throughtime.settings import read_settings
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    [*read_lines(Path(sys.argv[1]))]
except InputError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_line_of_200_megabytes_is_refused_with_the_limit(tmp_path):
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        file.write(b"short\n")
        file.truncate(200_000_000)  # zeros that take no room on the disk
    ran = subprocess.run([sys.executable, "-c", LONG, str(path)], capture_output=True, text=True, check=True)
    error, megabytes = ran.stdout.splitlines()
    assert error.startswith(f"{path}:2: ")
    assert f"{files.MAX_LINE_BYTES:,}" in error
    assert int(megabytes) < 300


def test_a_long_line_is_read_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 4 * source.BLOCK)
    path = tmp_path / "long.txt"
    path.write_bytes(b"a" * 4 * source.BLOCK)
    assert [len(line) for _, line in read_lines(path)] == [4 * source.BLOCK]
    path.write_bytes(b"a" * 6 * source.BLOCK + b"\n")
    with pytest.raises(InputError, match=r":1: .*1,048,576"):
        list(read_lines(path))


PACKERS = {"gz": gzip.compress, "xz": lzma.compress}


@pytest.fixture(params=["gz", "xz", "zip"])
def bomb(request, tmp_path, monkeypatch):
    """A file that unpacks to 300 times its size and more, and a limit that is small enough for a test."""
    monkeypatch.setattr(files, "SMALL", 1 << 20)
    content = b"the cat sat on the mat\n" * 200_000
    path = tmp_path / f"lines.txt.{request.param}"
    if request.param == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("lines.txt", content)
    else:
        path.write_bytes(PACKERS[request.param](content))
    return path


def test_packed_files_unpack_to_a_limit(bomb, monkeypatch):
    limit = max(1 << 20, files.RATIO * bomb.stat().st_size)
    with pytest.raises(InputError, match=f"{limit:,}.*THROUGHTIME_MAX_UNPACKED"):
        list(read_lines(bomb))
    monkeypatch.setenv("THROUGHTIME_MAX_UNPACKED", "5000000")
    assert sum(1 for _ in read_lines(bomb)) == 200_000
    monkeypatch.setenv("THROUGHTIME_MAX_UNPACKED", "5 MB")
    with pytest.raises(InputError, match="THROUGHTIME_MAX_UNPACKED"):
        list(read_lines(bomb))


def test_a_packed_file_that_lies_about_its_size_is_refused_all_the_same(bomb):
    whole = bytearray(bomb.read_bytes())
    size = (200_000 * len("the cat sat on the mat\n")).to_bytes(4, "little")
    whole = whole.replace(size, (9).to_bytes(4, "little"))
    bomb.write_bytes(whole)
    with pytest.raises(InputError):
        list(read_lines(bomb))


@pytest.mark.parametrize("cell", ["1e308", "-1e308", "1.1e18", "3e38"])
def test_numbers_whose_square_is_no_float32_are_refused(tmp_path, cell):
    path = tmp_path / "rain.csv"
    path.write_text(f"ds,rain,heat\n2020-01-01,1e18,2\n2020-01-02,4,{cell}\n")
    place = rf"rain\.csv:3: .*{re.escape(f'{float(cell):g}')}.*'heat'"
    for read in (read_panel, lambda path: list(open_dataset(path).records())):
        with pytest.raises(InputError, match=place):
            read(path)
    bad = BadRecords(skip=True)
    assert [one.y.tolist() for one in read_panel(path, Roles(), bad).series] == [[1e18], [2.0]]
    assert bad.count == 1


def test_such_numbers_are_refused_in_vectors_and_in_python_objects(tmp_path):
    with pytest.raises(InputError, match=r"data, item 2: .*1e\+308"):
        read_panel(open_dataset([1.0, 1e308, 2.0]).tables[0])
    described = tmp_path / "days.jsonl"
    described.write_text('{"vector": [1, 1e29], "text": "a cold day"}\n')
    with pytest.raises(InputError, match=r"days\.jsonl:1: .*'vector'"):
        list(open_dataset(described).records())


def zipped(compression: int) -> bytearray:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        archive.writestr("lines.txt", "the cat sat on the mat\n" * 50)
    return bytearray(content.getvalue())


def cut(content: bytearray) -> bytearray:
    return content[:4] + content[6:]  # the table at the end points before the beginning


def changed(content: bytearray) -> bytearray:
    content[50:60] = b"x" * 10
    return content


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("damage", [cut, changed])
def test_damaged_archives_are_refused(tmp_path, compression, damage):
    path = tmp_path / "lines.zip"
    path.write_bytes(zipped(compression))
    assert sum(1 for _ in read_lines(path)) == 50
    path.write_bytes(damage(zipped(compression)))
    with pytest.raises(InputError, match=r"lines\.zip: "):
        list(read_lines(path))


@pytest.mark.parametrize("date_format", ["%Y" + "%A" * 300_000, "%Y-%m-%d" + "x" * 900_000, "%Y%Y", "%Y%z%z"])
def test_formats_of_dates_are_bounded(date_format):
    """Anybody may send one to /forecast: `strptime` needs minutes for a long one, and `re` fails."""
    began = time.monotonic()
    with refuses("date_format"):
        check_date_format(date_format)
    assert time.monotonic() - began < 1
    assert DateForm(format="%Y %B").read("2020 " + "May" * 90_000) is None


def test_finding_the_order_of_many_dates_can_be_stopped():
    rounds = itertools.count()
    cells = [DateCell(None, "a", "01/02/2020")] * 1_000
    with pytest.raises(InterruptError), interruptible(lambda: next(rounds) == 100):
        settle_form(cells, "ds")


@pytest.mark.parametrize("part", ["a", '" "', "'x'", '"\\""', "a ", '"\\\\"'])
@pytest.mark.parametrize("around", ["{}=1", "[{}]", "[[{}]]", "b={{{}=1}}", "b='\\'\n{}=1"])
def test_names_of_many_parts_in_toml_are_refused(part, around, tmp_path):
    """Those of 120 kB took 20 seconds and more than 8 GB."""
    path = tmp_path / "s.toml"
    path.write_text(around.format(".".join([part] * 5_000)))
    with refuses("s.toml:2" if "\n" in around else "s.toml:1", 20):
        read_settings(path)


def test_the_names_in_toml_are_looked_for_in_linear_time(tmp_path):
    path = tmp_path / "s.toml"
    for text in ("a" * 250_000, '"' + r"\"" * 120_000, "a " * 120_000, 'x"' * 80_000 + "\\", "'\"" * 120_000):
        path.write_text(text)
        began = time.process_time()
        with refuses("s.toml:1"):
            read_settings(path)
        assert time.process_time() - began < 2
    path.write_text(
        "d = '" + ". . " * 300 + "'\nw = [" + "0.5, " * 500 + "]\n" + ".".join(["a"] * 20) + " = 1"
    )
    assert list(read_settings(path)) == ["d", "w", "a"]
