"""Files and folders appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager

import pytest
from tests.refusals import refuses

from throughtime.files import check_file, check_place, whole_file, whole_folder


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "sub" / "numbers.txt"
    with whole_file(path) as file:
        file.write("old")
    with pytest.raises(RuntimeError, match="power cut"), whole_file(path) as file:
        file.write("new, but only ha")
        raise RuntimeError("power cut")
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["numbers.txt"]


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
            with refuses("notes"), written(path):
                pass
    check_place(tmp_path / "notes")
    check_place(tmp_path / "new" / "x.csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]


def test_a_folder_where_a_file_is_wanted_is_refused_at_once(tmp_path):
    (tmp_path / "sales.csv").mkdir()
    for path in (tmp_path / "sales.csv", ""):
        with refuses(path):
            check_file(path)
    with refuses("sales.csv"), whole_file(tmp_path / "sales.csv"):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["sales.csv"]


@contextmanager
def small_disk():
    """No file can be longer than 4096 bytes. Not for a whole test: pytest may be writing to a file, too."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_has_no_room_is_named_and_leaves_no_litter(tmp_path):
    path = tmp_path / "numbers.txt"
    with pytest.raises(OSError, match="File too large") as full, small_disk(), whole_file(path) as file:
        file.write("1" * 10_000)
    assert full.value.filename == str(path)
    with (
        pytest.raises(OSError, match="File too large") as full,
        small_disk(),
        whole_folder(tmp_path / "run") as folder,
        whole_file(folder / "model.bin", "wb") as file,
    ):
        file.write(b"1" * 10_000)
    assert full.value.filename == str(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_of_what_is_written_not_of_what_is_read(tmp_path):
    with pytest.raises(OSError, match="No space") as full, whole_folder(tmp_path / "copy"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "source"))
    assert full.value.filename == str(tmp_path / "copy")
    with pytest.raises(FileNotFoundError) as missing, whole_folder(tmp_path / "copy") as folder:
        shutil.copy(tmp_path / "nothing", folder / "nothing")
    assert missing.value.filename == str(tmp_path / "nothing")


def test_a_folder_that_somebody_else_made_meanwhile_is_named(tmp_path):
    with pytest.raises(OSError, match="not empty") as taken, whole_folder(tmp_path / "run"):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "theirs").write_text("kept")
    assert taken.value.filename == str(tmp_path / "run")
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "theirs"]


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "kept").mkdir()
    link = tmp_path / "latest.txt"
    link.symlink_to(tmp_path / "kept" / "numbers.txt")
    for text in ("one", "two"):  # to a file that is not there yet, and to one that is
        with whole_file(link) as file:
            file.write(text)
        assert link.is_symlink()
        assert (tmp_path / "kept" / "numbers.txt").read_text() == text
    with pytest.raises(RuntimeError, match="power cut"), whole_file(link) as file:
        file.write("thr")
        raise RuntimeError("power cut")
    assert link.read_text() == "two"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["numbers.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_or_a_device_is_written_to_and_stays_what_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with whole_file(pipe) as file:
            file.write("through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
