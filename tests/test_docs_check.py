"""How `make test-docs` reads pages, shortens trainings and compares output."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import refuses
from tools.docs.fixtures import Fixtures
from tools.docs.one_page import Run, run_page
from tools.docs.pages import PYTHON, SHELL, PageError, blocks_of

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


def test_every_page_can_be_read():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    blocks = [block for page in pages for block in blocks_of(page.read_text(encoding="utf-8"), page.name)]
    assert sum(len(block.commands()) for block in blocks if block.language in SHELL) > 60
    assert sum(block.language in PYTHON for block in blocks) > 20


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
