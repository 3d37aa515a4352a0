"""Counting a text that is larger than the memory, at order 5: seconds, peak memory and size on disk.

The text is made for the run: segments of a corpus in random order, in which every tenth word is replaced by a
random one, so that most of its 5-grams are different. It has 100 MB, or the number of bytes that
THROUGHTIME_BENCH_BYTES gives. KenLM's lmplz (see `benchmarks.kenlm`) counts the same file in the same memory.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kenlm import ORDER, find_programs, measure
from benchmarks.ngram import sentences

MEMORY = {"throughtime": "2GB", "lmplz": "1G"}
"""What each is given. lmplz takes it for sorting alone; half of ours is for sorting."""
SCORE = """
import itertools, sys
import throughtime as tt
with open(sys.argv[2], encoding="utf-8") as file:
    tt.load(sys.argv[1]).score([line.rstrip() for line in itertools.islice(file, 1000)])
"""


def run() -> dict[str, Any]:
    size = int(float(os.environ.get("THROUGHTIME_BENCH_BYTES", "1e8")))
    train, _, data = sentences()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, out = folder / "text.txt", folder / "run"
        write_text(list(chain.from_iterable(train)), text, size)
        options = ["--tokens", "space", "--layout", "lines", "--split", "all", "--order", ORDER]
        program = [sys.executable, "-m", "throughtime", "train", "ngram", "--data", str(text), *options]
        program += ["--memory", MEMORY["throughtime"]]
        result: dict[str, Any] = {"made_from": data, "text_bytes": text.stat().st_size}
        result["throughtime"] = _figures(measure([*program, "--out", str(out)]), out)
        shutil.rmtree(out)
        # Without n-grams of three and more words that occur once, the model holds probabilities.
        pruned = measure([*program, *"--prune 0 --prune 0 --prune 1 --out".split(), str(out)])
        result["throughtime, pruned"] = _figures(pruned, out)
        result["pruned, load and score 1,000 lines"] = _figures(
            measure([sys.executable, "-c", SCORE, str(out), str(text)])
        )
        try:
            lmplz = find_programs()["lmplz"]
        except RuntimeError as error:
            result["kenlm"] = str(error)
        else:
            words = ["--skip_symbols", "--text", str(text), "--arpa", str(folder / "theirs.arpa")]
            theirs = measure([lmplz, "-o", ORDER, "-S", MEMORY["lmplz"], "-T", name, *words])
            result["kenlm"] = _figures(theirs)
    for row, value in result.items():
        print(f"{row:36} {value}", file=sys.stderr)
    return result


def write_text(source: list[str], path: Path, size: int) -> None:
    """Write at least `size` bytes of sentences of 20 words."""
    words = np.array(source, dtype=object)
    others = np.array([f"x{number:x}" for number in range(300_000)], dtype=object)
    draw, written = np.random.default_rng(0), 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            lengths = draw.integers(3, 12, 200_000)
            shifts = draw.integers(0, len(words) - 12, 200_000) - (np.cumsum(lengths) - lengths)
            text = words[np.repeat(shifts, lengths) + np.arange(lengths.sum())]
            changed = np.flatnonzero(draw.random(len(text)) < 0.1)
            text[changed] = others[draw.zipf(1.2, len(changed)) % len(others)]
            for line in np.split(text, np.arange(20, len(text), 20)):
                written += file.write(" ".join(line) + "\n")


def _figures(measured: tuple[float, float, str], model: Path | None = None) -> dict[str, float]:
    found = {"processor_seconds": round(measured[0], 1), "peak_megabytes": round(measured[1])}
    if model is not None:
        found["model_megabytes"] = round(sum(file.stat().st_size for file in model.iterdir()) / 1e6)
    return found


if __name__ == "__main__":
    run()
