"""What comes from a model folder is never printed raw to a terminal, nor unquoted in a command."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.text import Text
from tests.adversary.conftest import change_config

from throughtime.cli import console, output
from throughtime.cli.main import main
from throughtime.text.texts import escape_controls

EVIL = "\x1b]0;owned\x07\x9b31m\u202eevil\u2066\x7f\r"
HARMFUL = set(EVIL) - set("]0;owned31mevil")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Make stdout and stderr terminals, with colours; returns one stream that both write to."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def begin():  # when the test runs, as pytest sets the streams in between
        stream = Terminal()
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, stream)
        return stream

    return begin


def test_only_what_controls_is_escaped():
    assert not HARMFUL & set(escape_controls(EVIL))
    kept = "naïve 中文 עברית\u200f عربي\u200c 👩\u200d🚀\ttab\nline"
    assert escape_controls(kept) == kept
    assert escape_controls("\x00\x1f\x80") == r"\u0000\u001f\u0080"


@pytest.mark.parametrize("shown", [EVIL, Text(EVIL, "bold red"), output.build_table("a", rows=[(EVIL,)])])
def test_consoles_escape_what_they_show_but_not_their_own_colours(shown, terminal):
    stream = terminal()
    console.stdout().print(shown, markup=False)
    console.stderr().print(shown, markup=False)
    printed = stream.getvalue()
    assert printed.count("evil") == 2
    assert not HARMFUL - {"\x1b"} & set(printed)
    assert "\x1b]" not in printed  # of ESC, only colours are left
    assert ("\x1b[1;31m" in printed) == isinstance(shown, Text)


def test_pipes_get_what_was_written(capsys):
    console.print_text(EVIL)
    console.stdout().print(Text("a\x1bb"))
    assert capsys.readouterr().out == f"{EVIL}\na\x1bb\n"
    output.print_json({"text": EVIL})
    printed = capsys.readouterr().out
    assert not HARMFUL & set(printed)
    assert json.loads(printed) == {"text": EVIL}


def vocabulary_of_evil(folder):
    """Replace every word that a model may write by one with an escape sequence."""
    path = folder / "vocabulary.txt"
    lines = path.read_text().splitlines()
    words = [line if "reserved" in line else f"{EVIL.strip()}{number}" for number, line in enumerate(lines)]
    path.write_text("".join(f"{line}\n" for line in words))


def test_nothing_that_a_model_says_reaches_the_terminal_raw(model_folder, terminal):
    stream = terminal()
    language, ngram = (model_folder(task) for task in ("language", "ngram"))
    for folder in (language, ngram):
        vocabulary_of_evil(folder)
        for words in (("--seed", "1"), ("--num-beams", "2"), ("--greedy", "--json")):
            assert main(["generate", str(folder), "--trust-changed", *words]) == 0
    assert main(["score", str(language), "one two", "--trust-changed"]) == 0
    change_config(language, cell=EVIL)
    assert main(["generate", str(language), "--trust-changed"]) == 2
    change_config(language, data=EVIL, cell="lstm", **{EVIL: 3})
    assert main(["evaluate", str(language), "--trust-changed"]) == 2
    printed = stream.getvalue()
    assert printed.count("evil") > 9
    assert not HARMFUL - {"\x1b"} & set(printed)
    assert "\x1b]" not in printed
