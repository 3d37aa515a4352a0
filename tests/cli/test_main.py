"""The command as a person types it: help, errors in one sentence, exit codes, a quick start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from tests.refusals import lacks

from throughtime.cli.main import app
from throughtime.version import __version__


def every_command(group=None, path=()):
    """The words of every command there is."""
    import typer

    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = {" ".join(words): command for words, command in every_command()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_debug_and_help_with_an_example(name, throughtime):
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert {"--json", "--debug"} <= options
    ran = throughtime(*name.split(), "--help")
    assert ran.code == 0
    assert f"throughtime {name}" in ran.out.split("Usage:", 1)[1].split("\n", 1)[1], "no example in the help"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_and_explains_every_option(name, throughtime, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = throughtime(*name.split(), "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "{throughtime" not in shown
    for parameter in COMMANDS[name].params:
        assert (parameter.help or "").split(" \\[")[0].endswith("."), parameter.name


def test_help_without_words(throughtime):
    ran = throughtime()
    assert ran.code == 2
    assert ran.out.count("Usage: throughtime") == 1


def test_version(throughtime):
    assert throughtime("--version").out.strip() == f"throughtime {__version__}"


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["trian"], ("'trian'",)),
        (["generate", "run", "--promt", "x"], ("--promt",)),
        (["evaluate"], ("'RUN'",)),
        (["evaluate", "nowhere"], ("nowhere:",)),
        (["train", "ngram", "--data", "ptb", "--out", "x", "--order", "0"], ("order", "0")),
    ],
)
def test_bad_words_get_one_sentence_and_code_two(throughtime, words, facts):
    ran = throughtime(*words)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_errors_are_json_too(throughtime):
    ran = throughtime("evaluate", "nowhere", "--json")
    assert ran.code == 2
    assert ran.json["error"].startswith("nowhere: ")


def test_debug_shows_the_traceback(throughtime):
    assert "Traceback" in throughtime("evaluate", "nowhere", "--debug").err


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (RuntimeError("the disk sang"), ("RuntimeError", "the disk sang")),
        (RuntimeError("the disk sang.\nframe 1: song\nframe 2: disk"), ("RuntimeError", "the disk sang")),
        (AssertionError(), ("AssertionError",)),
    ],
)
def test_the_first_line_of_an_unexpected_error_is_told_with_code_one(throughtime, monkeypatch, error, facts):
    def broken(run):
        raise error

    monkeypatch.setattr("throughtime.cli.evaluate.read_task_name", broken)
    ran = throughtime("evaluate", "run")
    assert ran.code == 1
    assert not lacks(ran.err, "error:", "--debug", *facts)
    assert ran.err.count("\n") == 1
    debugged = throughtime("evaluate", "run", "--debug").err
    assert str(error) in debugged
    assert debugged.endswith(ran.err)


NOT_UTF8 = os.fsdecode(b"a\xff")


def test_bytes_that_are_no_text_are_read_as_on_stdin(throughtime, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sleeps\nthe dog sees the cat\n" * 5)
    throughtime("train", "ngram", "--data", tmp_path / "text.txt", "--out", tmp_path / "run")
    scored = throughtime("score", tmp_path / "run", f"the {NOT_UTF8}", "--json")
    assert scored.code == 0
    assert "the a\N{REPLACEMENT CHARACTER}" in scored.out
    told = throughtime("generate", tmp_path / "run", "--prompt", NOT_UTF8, "--max-new-tokens", "1")
    assert told.code == 0
    assert told.err.startswith("warning: ")


@pytest.mark.parametrize("option", ["--data", "--out"])
def test_a_name_that_is_not_utf8_is_refused_before_the_work(throughtime, tmp_path, option, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (b"text.txt", b"a\xff"):
        (tmp_path / os.fsdecode(name)).write_text("the cat sleeps\n" * 9)
    given = {"--data": "text.txt", "--out": "run"} | {option: NOT_UTF8}
    ran = throughtime("train", "ngram", *(word for pair in given.items() for word in pair), "--json")
    assert ran.code == 2
    assert ran.json.keys() == {"error"}
    assert not lacks(ran.json["error"], "a\N{REPLACEMENT CHARACTER}:", "UTF-8")
    assert ran.err.count("\n") == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_heavy_is_imported_before_a_command_runs():
    program = "import sys; from throughtime.cli.main import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"torch", "numpy", "pydantic", "tokenizers", "sacrebleu", "matplotlib"}


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "throughtime", "evaluate", "nowhere", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "error" in json.loads(done.stdout)


def test_the_time_of_a_command_begins_with_its_process():
    code = "import time; time.sleep(0.3); from throughtime.cli.main import _process_began as began"
    code += "; print(time.monotonic() - began())"
    began = time.monotonic()
    age = float(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout)
    assert 0.3 < age <= time.monotonic() - began + 0.02  # a tick of the kernel's clock
