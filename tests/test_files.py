"""Files and folders appear whole or not at all."""

from __future__ import annotations

import pytest

from throughtime.errors import InputError
from throughtime.files import check_place, whole_file, whole_folder


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "sub" / "numbers.txt"
    with whole_file(path) as file:
        file.write("old")
    with pytest.raises(RuntimeError, match="power cut"), whole_file(path) as file:
        file.write("new, but only ha")
        raise RuntimeError("power cut")
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["numbers.txt"]


def test_binary_and_text_modes(tmp_path):
    with whole_file(tmp_path / "b", "wb") as file:
        file.write(b"\xff\n")
    with whole_file(tmp_path / "t") as file:
        file.write("é\n")
    assert (tmp_path / "b").read_bytes() == b"\xff\n"
    assert (tmp_path / "t").read_bytes() == "é\n".encode()


def test_a_failed_folder_never_appears(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), whole_folder(tmp_path / "run") as folder:
        (folder / "config.json").write_text("{}")
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
    with whole_folder(tmp_path / "run") as folder:
        (folder / "config.json").write_text("{}")
    assert (tmp_path / "run" / "config.json").read_text() == "{}"


def test_a_file_where_a_folder_is_wanted_is_named(tmp_path):
    (tmp_path / "notes").write_text("kept")
    for path in (tmp_path / "notes" / "x.csv", tmp_path / "notes" / "deep" / "x.csv"):
        for written in (whole_file, whole_folder):
            with pytest.raises(InputError, match="notes: is a file, expected a folder"), written(path):
                pass
    check_place(tmp_path / "notes")
    check_place(tmp_path / "new" / "x.csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]
