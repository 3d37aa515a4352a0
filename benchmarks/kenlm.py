"""Counting and scoring at order 5 beside KenLM, in one run: from a text file to a model, then a test text.

KenLM's programs lmplz, build_binary and query are found on the PATH or in the folder that KENLM_BIN names.
Both sides read the same file and estimate the same interpolated modified Kneser-Ney; perplexities show it.
Times are those of the processor (user and system), in a process for each step, so starting Python counts.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ORDER = "5"
COPIES = 10
"""Number of times that the test text is scored, so that scoring takes longer than starting."""
SCORE = """
import sys, time
import throughtime as tt
model = tt.load(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
model.score(lines[:1])
began = time.process_time()
total = sum(one.total for one in model.score(lines))
print(time.process_time() - began, total)
"""


def compare(train: list[list[str]], test: list[list[str]]) -> dict[str, Any] | str:
    """Time, memory and perplexity of both sides; a sentence if KenLM's programs are not found."""
    place = os.environ.get("KENLM_BIN")
    found = {name: shutil.which(name, path=place) for name in ("lmplz", "build_binary", "query")}
    if missing := [name for name, path in found.items() if path is None]:
        return (
            f"not compared: {', '.join(missing)} not found; build KenLM and set KENLM_BIN to its bin folder"
        )
    with tempfile.TemporaryDirectory() as folder:
        text, wanted = Path(folder, "train.txt"), Path(folder, "test.txt")
        for path, lines, copies in ((text, train, 1), (wanted, test, COPIES)):
            # lmplz reserves <unk>, which the Penn Treebank has as a word.
            path.write_text(
                "".join(" ".join(line).replace("<unk>", "UNKNOWN") + "\n" for line in lines) * copies
            )
        tokens = COPIES * sum(len(line) + 1 for line in test)
        ours = _throughtime(Path(folder), text, wanted, tokens)
        theirs = _kenlm({name: str(path) for name, path in found.items()}, Path(folder), text, wanted, tokens)
    ratios = {f"{name}_ratio": round(theirs[name] / ours[name], 3) for name in ours if name != "perplexity"}
    return {"order": int(ORDER), "scored_tokens": tokens, "throughtime": ours, "kenlm": theirs, **ratios}


def _throughtime(folder: Path, text: Path, wanted: Path, tokens: int) -> dict[str, float]:
    run, arpa = folder / "run", folder / "ours.arpa"
    program = [sys.executable, "-m", "throughtime"]
    options = ["--tokens", "space", "--layout", "lines", "--split", "all", "--order", ORDER]
    counting = measure([*program, "train", "ngram", "--data", str(text), *options, "--out", str(run)])
    writing = measure([*program, "export", str(run), "--format", "arpa", "--out", str(arpa)])
    done = subprocess.run(
        [sys.executable, "-c", SCORE, str(run), str(wanted)], capture_output=True, text=True, check=True
    )
    seconds, total = map(float, done.stdout.split())
    return _figures(counting, writing, seconds, math.exp(-total / tokens), tokens)


def _kenlm(found: dict[str, str], folder: Path, text: Path, wanted: Path, tokens: int) -> dict[str, float]:
    arpa, binary = folder / "theirs.arpa", folder / "theirs.binary"
    estimating = measure([found["lmplz"], "-o", ORDER, "-S", "1G", "--text", str(text), "--arpa", str(arpa)])
    subprocess.run([found["build_binary"], str(arpa), str(binary)], capture_output=True, check=True)
    nothing = folder / "empty.txt"
    nothing.write_text("")
    query = [found["query"], "-v", "summary", str(binary)]
    loading, _, _ = measure(query, nothing)
    scoring, _, printed = measure(query, wanted)
    perplexity = re.search(r"Perplexity including OOVs:\s*([\d.e+]+)", printed)
    assert perplexity is not None, printed
    # lmplz estimates and writes ARPA at once: its counting includes what `export` does, ours does not.
    return _figures(estimating, (0.0, 0.0, ""), scoring - loading, float(perplexity[1]), tokens)


def _figures(
    counting: tuple[float, float, str],
    writing: tuple[float, float, str],
    scoring: float,
    perplexity: float,
    tokens: int,
) -> dict[str, float]:
    return {
        "count_seconds": round(counting[0], 2),
        "count_and_write_arpa_seconds": round(counting[0] + writing[0], 2),
        "count_peak_megabytes": round(counting[1], 1),
        "score_microseconds_a_token": round(1e6 * scoring / tokens, 3),
        "perplexity": round(perplexity, 4),
    }


def measure(command: Sequence[str], given: Path | None = None) -> tuple[float, float, str]:
    """Run a command; its processor seconds, its peak memory in megabytes, and what it printed."""
    with tempfile.TemporaryFile("w+") as printed, Path(given or os.devnull).open() as source:
        process = subprocess.Popen(command, stdin=source, stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, text
