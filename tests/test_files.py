"""Files and folders appear whole or not at all."""

from __future__ import annotations

import pytest

from throughtime.files import whole_file, whole_folder


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
