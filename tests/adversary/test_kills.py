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
from safetensors.torch import load_file
from tests.fit.conftest import OBJECTS, SUBJECTS, VERBS
from tests.fit.test_resume import VARIANTS, measured, same_run, words

KILLS = int(os.environ.get("THROUGHTIME_KILLS", "6"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(name, tmp_path):  # law 6
    text, dice = tmp_path / "lines.txt", random.Random(1)
    lines = (f"{dice.choice(SUBJECTS)} {dice.choice(VERBS)} {dice.choice(OBJECTS)} ." for _ in range(200))
    text.write_text("\n".join(lines) + "\n")
    seed = 5 if KILLS == 6 else random.SystemRandom().randrange(2**32)
    folder = tmp_path / "runs"
    folder.mkdir()
    driver = [sys.executable, str(Path(__file__).with_name("kill_driver.py")), str(seed), str(KILLS)]
    command = [*driver, str(folder), *words(text, VARIANTS[name])]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, f"with seed {seed}: {ran.stderr}"
    print(f"{ran.stdout.strip()} kills survived, with seed {seed}")
    same_run(folder / "whole", folder / "killed")
    written = Counter((line["kind"], line["step"]) for line in measured(folder / "killed"))
    assert max(written.values()) == 1
    assert not [str(path) for path in folder.rglob("*.part")]
    log = (folder / "log").read_text()
    resumed = [line for line in log.splitlines() if line.startswith("Continuing from step-")]
    assert len(set(resumed)) >= 2, log  # killed in the middle, not before it began
    assert ("Validation stalls" in log) == (name == "nt-asgd")
    last = max((folder / "whole" / "checkpoints").glob("step-*"))
    kinds = {part.split(".")[0] for part in load_file(last / "tensors.safetensors")}
    assert kinds == {"model", "optimizer", "average", "carried"}
