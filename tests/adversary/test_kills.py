"""A training that is killed at any operation on its files goes on as if nothing had happened.

`THROUGHTIME_KILLS=500 pytest -s tests/adversary/test_kills.py` kills it more often, at other points each
time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.fit.test_resume import measured, same_run, words

KILLS = int(os.environ.get("THROUGHTIME_KILLS", "6"))
SETTINGS = {
    "epochs": 2,
    "optimizer": "adamw",
    "input_dropout": 0.1,
    "num_steps": 20,
    "checkpoint_every": 4,
    "report_every": 3,
    "keep": 2,
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(tmp_path):
    text = tmp_path / "lines.txt"
    dice = random.Random(1)
    text.write_text("".join(f"{' '.join(dice.choices('abcdefgh', k=9))}\n" for _ in range(120)))
    seed = 5 if KILLS == 6 else random.SystemRandom().randrange(2**32)
    folder = tmp_path / "runs"
    folder.mkdir()
    driver = [sys.executable, str(Path(__file__).with_name("kill_driver.py")), str(seed), str(KILLS)]
    ran = subprocess.run([*driver, str(folder), *words(text, SETTINGS)], capture_output=True, text=True)
    assert ran.returncode == 0, f"with seed {seed}: {ran.stderr}"
    print(f"{ran.stdout.strip()} kills survived, with seed {seed}")
    same_run(folder / "whole", folder / "killed")
    lines = Counter((line["kind"], line["step"]) for line in measured(folder / "killed"))
    assert max(lines.values()) == 1
    assert not [str(path) for path in folder.rglob("*.part")]
