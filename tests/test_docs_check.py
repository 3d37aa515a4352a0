"""How `make test-docs` reads pages, shortens trainings and compares output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refuses
from tools.docs.commands import MINUTES, left_out, made, mentions, shortened, words
from tools.docs.compare import difference
from tools.docs.fixtures import Fixtures
from tools.docs.interpreter import run_examples, run_python
from tools.docs.one_page import Run, run_page
from tools.docs.pages import PYTHON, SHELL, Block, PageError, blocks_of
from tools.docs.shell import Shell, at_port, with_port

ROOT = Path(__file__).parents[1]

PAGE = """\
# A page

```bash
# a comment of its own is no command
throughtime train tag --data "a \\
b" --out runs/x      # and one behind it
make demo
```

<!-- test-docs: set epochs=3 -->
```console
$ throughtime stats a.txt \\
    --tokens word
tokens 3

types 2
$ throughtime stats no.txt
error: no.txt: does not exist
```

<!-- source: src/x.py -->
```python
x = 1
```
"""


def test_a_page_falls_into_blocks_and_commands():
    script, console, quoted = blocks_of(PAGE, "page.md")
    assert [(block.language, block.line) for block in (script, console, quoted)] == [
        ("bash", 4),
        ("console", 12),
        ("python", 23),
    ]
    assert [(command.line, command.text) for command in script.commands()] == [
        (5, 'throughtime train tag --data "a \\\nb" --out runs/x      # and one behind it'),
        (7, "make demo"),
    ]
    fine, refused = console.commands()
    assert (fine.text, fine.line) == ("throughtime stats a.txt \\\n    --tokens word", 12)
    assert (fine.shown, fine.refused) == ("tokens 3\n\ntypes 2", False)
    assert (refused.shown, refused.refused) == ("error: no.txt: does not exist", True)
    assert console.instructions == {"set": "epochs=3"}
    assert "src/x.py" in quoted.instructions["skip"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("```\nx\n```", 1),  # no language
        ("```bash\nx", 1),  # no end
        ("words\n\n    throughtime stats x", 3),  # indented
        ("<!-- test-docs: hurry -->\n```bash\nx\n```", 1),  # unknown instruction
        ("<!-- test-docs: skip -->\n```bash\nx\n```", 1),  # a skip without a reason
        ("<!-- test-docs: whole -->\nwords", 2),  # an instruction for nothing
    ],
)
def test_what_is_wrong_with_a_page_is_told_with_its_line(text, line):
    with refuses(f"page.md:{line}", error=PageError):
        blocks_of(text, "page.md")


def test_a_console_block_begins_with_a_command():
    with refuses("page.md:1", error=PageError):
        Block("page.md", 1, "console", "tokens 3").commands()


def test_every_page_can_be_read():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    blocks = [block for page in pages for block in blocks_of(page.read_text(encoding="utf-8"), page.name)]
    assert sum(len(block.commands()) for block in blocks if block.language in SHELL) > 60
    assert sum(block.language in PYTHON for block in blocks) > 20


def test_a_training_is_shortened_after_its_own_settings_and_before_a_comment():
    command = "throughtime train fill --data x --set epochs=20 --out runs/x  # slow"
    assert shortened(command, "epochs=1").endswith("--set epochs=20 --set epochs=1 --out runs/x  # slow")
    assert "epochs=1 " in shortened(command)
    assert shortened("throughtime evaluate runs/x --out y") == "throughtime evaluate runs/x --out y"
    assert shortened("throughtime train ngram --data x --out y") == "throughtime train ngram --data x --out y"
    assert "--set epochs=2 " in shortened("torchrun -m throughtime train language --data x --out y")
    planned = shortened("throughtime train fill --data x --minutes 5 --out y")
    assert "epochs" not in planned
    assert f"--minutes {MINUTES} " in planned


def test_what_a_command_makes_and_names():
    assert made("throughtime forecast runs/x --out n.csv --plot p.png") == ["n.csv", "p.png"]
    assert made("throughtime translate runs/x --file a > b.txt  # --out c") == ["b.txt"]
    assert words("a 'b c' \\\n  d # e") == ["a", "b c", "d"]
    assert mentions("serve runs/en-fr runs/x", "runs/en-fr")
    assert mentions('tt.load("runs/x")', "runs/x")
    assert mentions("set=[runs/left,runs/right]", "runs/left")
    assert not mentions("serve runs/en-fr-onnx", "runs/en-fr")
    assert not mentions("serve demo/runs/x", "runs/x")
    assert not mentions("cat sales.csv.gz", "sales.csv")
    assert left_out("pip install x")
    assert left_out("make test")
    assert left_out("make demo") is None


def test_exact_output():
    shown = "tokens 1,234\n...\nentropy 9.07 bits, in 1.2 s"
    assert difference(shown, "tokens   1,234\ntypes 3\nmore\nentropy 9.07\nbits, in 3.4 s", "exact") is None
    assert difference(shown, "tokens 1,235\nentropy 9.07 bits, in 1 s", "exact") == "shown 1,234, got 1,235"
    assert difference(shown, "tokens 1,234\nentropy 9.07 bits, in 1 s\nand more", "exact") is not None
    assert difference("a b ... d", "a b c d", "exact") is None
    assert difference("a b ... d", "a c d", "exact") is not None


def test_output_of_a_trained_model_may_differ_in_its_numbers():
    shown = "MAE 3.294, best after epoch 24"
    assert difference(shown, "MAE 3.1, best after epoch 3", "near") is None
    assert difference(shown, "MAE 9.1, best after epoch 24", "near") == "shown 3.294, got 9.1"
    assert difference(shown, "MSE 3.294, best after epoch 24", "near") is not None


def test_output_of_a_shortened_training_has_the_same_form():
    shown = "x, test: F1 86.4%\n  type  F1\n  album  13.3%\n  artist  85.6%\n..."
    assert (
        difference(shown, "x, test: F1 1.0%\n  type  F1\n  album 0.0%\nother 3\nfurther 4", "loose") is None
    )
    assert (
        difference(shown, "x, valid: F1 1.0%\n  type  F1\n  album 0.0%", "loose")
        == "the first line is another one"
    )
    assert difference(shown, "x, test: F1 1.0%\nother", "loose") == "most of the lines are others"
    assert difference(shown, "\n", "loose") == "nothing was printed"


def test_python_blocks_share_names_and_are_held_to_the_values_they_show():
    names: dict[str, object] = {}
    assert run_python("import math\nx = 2", names, compared=True) is None
    assert run_python("math.sqrt(x)  # 1.414", names, compared=True) is None
    assert run_python("x + 1  # 3\n[x]  # a list of it", names, compared=True) is None
    wrong = run_python("math.sqrt(x)  # 1.415", names, compared=True)
    assert wrong is not None
    assert "1.415" in wrong
    assert run_python("math.sqrt(x)  # 1.415", names, compared=False) is None
    with pytest.raises(ZeroDivisionError):
        run_python("x / 0", names, compared=False)


def test_examples_go_on_with_the_names_before():
    names: dict[str, object] = {"x": 2}
    assert run_examples(">>> y = x + 1\n>>> y\n3", names, compared=True) is None
    assert names["y"] == 3
    assert "Expected" in (run_examples(">>> y\n4", names, compared=True) or "")
    assert run_examples(">>> y\n4", names, compared=False) is None
    assert "ZeroDivisionError" in (run_examples(">>> y / 0\n4", names, compared=False) or "")


def test_one_shell_serves_all_commands(tmp_path):
    shell = Shell(tmp_path, {"PATH": "/usr/bin:/bin"}, tmp_path)
    try:
        assert shell.run("export X=1; cd ..; (exit 3)", 10) == (3, "")
        assert shell.run("echo $X; echo two >&2", 10) == (0, "1\ntwo\n")
        code, output = shell.run("echo begun; sleep 30", 0.5)
        assert (code, output) == (124, "begun\n")
        assert shell.run("echo new", 10) == (0, "new\n")
    finally:
        shell.close()


def test_servers_and_clients_meet_at_a_free_port():
    assert with_port("throughtime serve runs/x --port 8000", 9) == "throughtime serve runs/x --port 9"
    assert with_port("throughtime serve runs/x   # a page", 9) == "throughtime serve runs/x --port 9"
    assert at_port("curl localhost:8000/tag", 9) == "curl 127.0.0.1:9/tag"


def test_a_page_runs_to_its_end_and_says_what_failed_and_what_was_left_out(tmp_path):
    page = """\
<!-- test-docs: file greeting.txt -->
```text
hello there
```

```console
$ cat greeting.txt
hello ...
$ cat greeting.txt
good bye
$ sh -c 'echo "error: no"; exit 2'
error: no
$ sh -c 'echo "error: no"; exit 1'
error: no
$ sort english.txt > sorted.txt
$ grep -c station sorted.txt
1
$ throughtime train ngram --data ptb --out runs/counted
$ throughtime evaluate runs/counted --split test
```

<!-- test-docs: skip a reason -->
```python
nonsense
```

```python
open("greeting.txt").read().strip()  # 'hello there'
len(open("greeting.txt").read())  # 5
```
"""
    here, log, made_here = tmp_path / "here", tmp_path / "log", tmp_path / "made"
    here.mkdir()
    log.mkdir()
    environment = {"PATH": "/usr/bin:/bin"}
    run = Run(here, log, environment, Fixtures(made_here, environment, absent={"ptb"}))
    told: list[str] = []
    steps = run_page(blocks_of(page, "page.md"), run, lambda step: told.append(step.where))
    assert [step.where for step in steps] == told
    failed = {step.where: step.failed.splitlines()[0] for step in steps if step.failed}
    assert list(failed) == ["page.md:9", "page.md:13", "page.md:28"]
    assert failed["page.md:9"] == "the text is another one"
    assert failed["page.md:13"] == "exit code 1, not 2"
    assert "is shown as 5 and is 12" in failed["page.md:28"]
    skipped = {step.where: step.skipped for step in steps if step.skipped}
    assert list(skipped) == ["page.md:18", "page.md:19", "page.md:24"]
    assert "ptb" in skipped["page.md:18"]
    assert "runs/counted was not made" in skipped["page.md:19"]
    assert skipped["page.md:24"] == "a reason"
