"""The lines that a filter reads."""

from __future__ import annotations

from tests.refusals import refuses

from throughtime.cli.inputs import read_blocks


def test_only_line_breaks_end_a_line(typed, capsys, monkeypatch):
    monkeypatch.setattr("throughtime.cli.inputs.LINES_AT_ONCE", 2)
    typed("one\x0b\u2028still one\r\n\nthree".encode() + b"\xff")
    assert list(read_blocks(None)) == [["one\x0b\u2028still one", ""], ["three\N{REPLACEMENT CHARACTER}"]]
    assert capsys.readouterr().err == ""


def test_all_three_line_ends_end_a_line(typed, tmp_path):
    mixed = b"one\rtwo\r\n\rfour\nfive\r"
    typed(mixed)
    assert list(read_blocks(None)) == [["one", "two", "", "four", "five"]]
    file = tmp_path / "old.txt"
    file.write_bytes(mixed)
    assert list(read_blocks(file)) == [["one", "two", "", "four", "five"]]


def test_an_empty_line_is_a_line(typed, capsys):
    typed(b"\n")
    assert list(read_blocks(None)) == [[""]]
    assert capsys.readouterr().err == ""


def test_a_named_file_without_lines_is_refused_but_an_empty_stdin_is_told(typed, capsys, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.touch()
    with refuses("empty.txt"):
        list(read_blocks(empty))
    typed(b"")
    assert list(read_blocks(None)) == []
    assert capsys.readouterr().err.startswith("stdin ")
