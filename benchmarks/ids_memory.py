"""A corpus larger than memory: 300 MB of text to a vocabulary, to ids on disk, and once through the ids.

The text is made on the spot, its words drawn by Zipf's law. All three steps run in one fresh process, whose
resident memory is sampled from outside; pages of the id file that are in memory as they are read count too.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

MEGABYTES = 300
TYPES = 100_000
TARGET_MEGABYTES = 600
STEPS = ("vocabulary", "ids", "reading")

CHILD = """
import json, pathlib, sys, time
from throughtime.data.datasets import open_dataset
from throughtime.data.idcache import token_ids
from throughtime.text.codec import Codec

def step(name):
    print(json.dumps({"step": name, "time": time.perf_counter()}), flush=True)

dataset = open_dataset(sys.argv[1])
step("vocabulary")
codec = Codec.build(dataset.texts(), "space", max_size=50_000, reserved=("<unk>", "<eos>"))
step("ids")
found = token_ids(dataset, "all", codec, eos=True, cache=pathlib.Path(sys.argv[2]))
step("reading")
total = sum(int(found.ids[at : at + 100_000].astype("int64").sum()) for at in range(0, len(found), 100_000))
step("again")
reopened = token_ids(dataset, "all", codec, eos=True, cache=pathlib.Path(sys.argv[2]))
step("end")
print(json.dumps({"tokens": len(found), "types": len(codec.vocabulary), "check": total}), flush=True)
"""


def run(megabytes: int = MEGABYTES) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "zipf.txt"
        make_text(text, megabytes * 1_000_000)
        result = measure(text, Path(folder) / "cache")
    for name, value in result.items():
        print(f"{name:32} {value}", file=sys.stderr)
    return result


def make_text(path: Path, size: int) -> None:
    """Write lines of twenty words until there are `size` bytes; word r has a share of 1/(r + 2.7)."""
    import numpy as np

    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    words = np.array(
        ["".join(generator.choice(letters, 2 + rank % 7)) + f"{rank:x}" for rank in range(TYPES)], object
    )
    shares = np.cumsum(1.0 / (np.arange(TYPES) + 2.7))
    written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            drawn = words[np.searchsorted(shares, generator.random(200_000) * shares[-1])]
            lines = "\n".join(" ".join(row) for row in drawn.reshape(-1, 20)) + "\n"
            written += file.write(lines)


def measure(text: Path, cache: Path) -> dict[str, Any]:
    """Run the three steps in a process of their own and watch its memory."""
    words = [sys.executable, "-c", CHILD, str(text), str(cache)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        watch = Watch(child.pid)
        marks: dict[str, float] = {}
        told: dict[str, Any] = {}
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if "step" in told:
                marks[told["step"]] = told["time"]
                watch.enter(told["step"])
        watch.stop()
    if child.returncode:
        raise RuntimeError(f"the measured process ended with {child.returncode}")
    size = text.stat().st_size / 1e6
    seconds = {
        name: marks[after] - marks[name] for name, after in zip(STEPS, (*STEPS[1:], "again"), strict=True)
    }
    steady = statistics.median(watch.samples["ids"] + watch.samples["reading"])
    return {
        "text_megabytes": round(size),
        "tokens": told["tokens"],
        "vocabulary": told["types"],
        **{f"{name}_megabytes_a_second": round(size / seconds[name], 1) for name in STEPS[:2]},
        "reading_million_ids_a_second": round(told["tokens"] / seconds["reading"] / 1e6),
        "reopened_in_seconds": round(marks["end"] - marks["again"], 4),
        **{f"peak_rss_megabytes_{name}": round(max(watch.samples[name])) for name in STEPS},
        "steady_rss_megabytes": round(steady),
        "target_rss_megabytes": TARGET_MEGABYTES,
        "within_target": steady <= TARGET_MEGABYTES,
    }


class Watch(threading.Thread):
    """Samples the resident memory of a process, by the step that it is in."""

    def __init__(self, process: int, every: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.process, self.every, self.step = process, every, "start"
        self.samples: dict[str, list[float]] = {}
        self._over = threading.Event()
        self.start()

    def enter(self, step: str) -> None:
        """Count what follows to another step, at least one sample."""
        self.step = step
        self.samples.setdefault(step, []).append(resident_megabytes(self.process))

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._over.wait(self.every):
            self.samples.setdefault(self.step, []).append(resident_megabytes(self.process))

    def stop(self) -> None:
        """End the sampling."""
        self._over.set()
        self.join()


def resident_megabytes(process: int) -> float:
    """The resident memory of a process; 0 once it has gone."""
    pages = Path(f"/proc/{process}/statm")
    if pages.exists():
        try:
            return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        except (OSError, IndexError):
            return 0.0
    import psutil

    try:
        return float(psutil.Process(process).memory_info().rss / 1e6)
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES)))
