"""Counting and scoring at order 5 beside KenLM, in one run: from a text file to a model, then a test text.

    python -m benchmarks kenlm

PTB where THROUGHTIME_DATA holds it, else the embedded English. KenLM's programs lmplz, build_binary and query
are found in the folder that KENLM_BIN names, on the PATH, or in the cache, where they are built from KenLM's
source package if they are nowhere. Both sides read the same file and estimate the same interpolated modified
Kneser-Ney, once with all n-grams and once without those of three and more words that occur once. Both then
score the very same model, our ARPA file, and the run fails if a token differs by more than 1e-4.

Times are those of the processor (user and system), in a process for each step, so starting Python counts.
`lmplz` 0.3.0 counts the last n-gram of each length by how often it occurs, where it counts all others by the
words before them. This moves its discounts a little, and so its scores of rare words: on PTB by up to 1.3e-3.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ngram import sentences
from throughtime.files import cache_folder

ORDER = "5"
COPIES = 10
"""Number of times that the test text is scored, so that scoring takes longer than starting."""
MAX_DIFFERENCE = 1e-4
PROGRAMS = ("lmplz", "build_binary", "query")
SOURCE = "kenlm==0.3.0"
PACKAGES = (
    "cmake make g++ libboost-program-options-dev libboost-system-dev libboost-thread-dev libboost-test-dev "
    "zlib1g-dev"
)
"""What building KenLM needs, by the names of Debian."""
MEASURES = {
    "count_seconds": "count, estimate and save the model (KenLM: its binary format), seconds",
    "count_megabytes": "its peak memory, MB",
    "arpa_seconds": "count, estimate and write an ARPA file, seconds",
    "model_megabytes": "size of the model, MB",
    "load_megabytes": "peak memory of loading and scoring, MB",
    "scored_a_second": "tokens scored per second",
    "perplexity": "perplexity",
}
SCORE = """
import sys, time
import throughtime as tt
from throughtime.data.datasets import open_dataset
model, data = tt.load(sys.argv[1]), open_dataset(sys.argv[2], layout="lines")
model.likelihood(data, "all")  # estimates, and makes what look-ups need
began = time.process_time()
found = model.likelihood(data, "all")
print(time.process_time() - began, found.nats, found.tokens)
"""
SCORE_EACH = """
import sys
import throughtime as tt
model = tt.import_arpa(sys.argv[1])
for one in model.score(open(sys.argv[2], encoding="utf-8").read().splitlines()):
    print(*(p / 2.302585092994046 for p in one.log_probs))
"""


def run() -> dict[str, Any]:
    train, test, data = sentences()
    try:
        programs = find_programs()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return {"data": data, "beside_kenlm": str(error)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, wanted, once = folder / "train.txt", folder / "test.txt", folder / "once.txt"
        for path, lines, copies in ((text, train, 1), (wanted, test, COPIES), (once, test, 1)):
            # lmplz reserves <unk>, which the Penn Treebank has as a word.
            path.write_text(
                "".join(" ".join(line).replace("<unk>", "UNKNOWN") + "\n" for line in lines) * copies
            )
        results: dict[str, Any] = {"data": data, "order": int(ORDER)}
        for title, thresholds in (("all n-grams", ["0"]), ("pruned 0 0 1", ["0", "0", "1"])):
            part = folder / title.replace(" ", "-")
            part.mkdir()
            results[title] = {
                "throughtime": measure_throughtime(part, text, wanted, thresholds),
                "kenlm": measure_kenlm(programs, part, text, wanted, thresholds),
                "largest_difference": compare_scores(programs, part / "ours.arpa", once, part),
            }
            print_table(title, results[title])
    worst = max(results[title]["largest_difference"] for title in ("all n-grams", "pruned 0 0 1"))
    assert worst <= MAX_DIFFERENCE, f"the scores of a token differ by {worst:.2g}"
    return results


def print_table(title: str, results: dict[str, Any]) -> None:
    print(f"{title:44} {'throughtime':>12} {'KenLM':>12}", file=sys.stderr)
    for name, words in MEASURES.items():
        ours, theirs = (results[side][name] for side in ("throughtime", "kenlm"))
        print(f"{words:44} {ours:12,} {theirs:12,}", file=sys.stderr)
    print(
        f"{'largest difference of log10 P, same model':44} {results['largest_difference']:.1e}",
        file=sys.stderr,
    )


def measure_throughtime(folder: Path, text: Path, wanted: Path, thresholds: list[str]) -> dict[str, float]:
    run, arpa = folder / "run", folder / "ours.arpa"
    program = [sys.executable, "-m", "throughtime"]
    options = ["--tokens", "space", "--layout", "lines", "--split", "all", "--order", ORDER]
    options += [word for one in thresholds for word in ("--prune", one)]
    counting = measure([*program, "train", "ngram", "--data", str(text), *options, "--out", str(run)])
    writing = measure([*program, "export", str(run), "--format", "arpa", "--out", str(arpa)])
    scoring = measure([sys.executable, "-c", SCORE, str(run), str(wanted)])
    seconds, nats, tokens = map(float, scoring[2].split())
    return {
        "count_seconds": round(counting[0], 2),
        "count_megabytes": round(counting[1]),
        "arpa_seconds": round(counting[0] + writing[0], 2),
        "model_megabytes": round(sum(file.stat().st_size for file in run.iterdir()) / 1e6, 1),
        "load_megabytes": round(scoring[1]),
        "scored_a_second": round(tokens / seconds),
        "perplexity": round(math.exp(nats / tokens), 4),
    }


def measure_kenlm(
    programs: dict[str, str], folder: Path, text: Path, wanted: Path, thresholds: list[str]
) -> dict[str, float]:
    arpa, binary, nothing = folder / "theirs.arpa", folder / "theirs.binary", folder / "empty.txt"
    options = ["-o", ORDER, "-S", "1G", "--prune", *thresholds]
    estimating = measure([programs["lmplz"], *options, "--text", str(text), "--arpa", str(arpa)])
    building = measure([programs["build_binary"], str(arpa), str(binary)])
    nothing.write_text("")
    query = [programs["query"], "-v", "summary", str(binary)]
    loading, scoring = measure(query, nothing), measure(query, wanted)
    perplexity = re.search(r"Perplexity including OOVs:\s*([\d.e+]+)", scoring[2])
    tokens = re.search(r"Tokens:\s*(\d+)", scoring[2])
    assert perplexity is not None, scoring[2]
    assert tokens is not None, scoring[2]
    return {
        "count_seconds": round(estimating[0] + building[0], 2),
        "count_megabytes": round(max(estimating[1], building[1])),
        "arpa_seconds": round(estimating[0], 2),
        "model_megabytes": round(binary.stat().st_size / 1e6, 1),
        "load_megabytes": round(scoring[1]),
        "scored_a_second": round(int(tokens[1]) / max(scoring[0] - loading[0], 1e-3)),
        "perplexity": round(float(perplexity[1]), 4),
    }


def compare_scores(programs: dict[str, str], arpa: Path, text: Path, folder: Path) -> float:
    """The largest difference of log10 P of a token when both score the model in one ARPA file."""
    binary = folder / "same.binary"
    subprocess.run([programs["build_binary"], str(arpa), str(binary)], capture_output=True, check=True)
    ours = measure([sys.executable, "-c", SCORE_EACH, str(arpa), str(text)])[2].split()
    printed = measure([programs["query"], "-v", "word", str(binary)], text, quiet=True)[2]
    theirs = re.findall(r"=\d+ \d+ (\S+)", printed)  # word=ID LENGTH SCORE
    return max(abs(float(a) - float(b)) for a, b in zip(ours, theirs, strict=True))


def find_programs() -> dict[str, str]:
    """The paths of KenLM's programs, which are built if they are not found."""
    built = cache_folder() / "kenlm" / "bin"
    for place in (os.environ.get("KENLM_BIN"), None, str(built)):
        found = {name: path for name in PROGRAMS if (path := shutil.which(name, path=place))}
        if len(found) == len(PROGRAMS):
            return found
        if place is not None and place != str(built):
            raise RuntimeError(f"KENLM_BIN is {place}, which does not hold all of {', '.join(PROGRAMS)}")
    build_programs(built.parent)
    return {name: str(built / name) for name in PROGRAMS}


def build_programs(folder: Path) -> None:
    """Build KenLM's programs in a folder, from its source package."""
    cure = f"not compared: KenLM could not be built; `apt-get install {PACKAGES}`, or set KENLM_BIN"
    if missing := [name for name in ("cmake", "make", "g++") if shutil.which(name) is None]:
        raise RuntimeError(f"{cure} ({', '.join(missing)} not found)")
    print(f"building {SOURCE} in {folder}, once; this takes some minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        download = [sys.executable, "-m", "pip", "download", SOURCE, "--no-deps", "--no-binary", "kenlm"]
        try:
            _run([*download, "-d", name])
            with tarfile.open(next(Path(name).glob("kenlm-*.tar.gz"))) as packed:
                packed.extractall(name, filter="data")
            source = next(path for path in Path(name).iterdir() if path.is_dir())
            _run(["cmake", "-S", str(source), "-B", str(folder)])
            _run(["cmake", "--build", str(folder), "--target", *PROGRAMS, "-j", str(os.cpu_count() or 1)])
        except subprocess.CalledProcessError as error:
            last = [line for line in error.stdout.splitlines() if line.strip()][-8:]
            raise RuntimeError("\n".join([f"{cure}. {error.cmd[0]} said:", *last])) from None


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)


def measure(
    command: Sequence[str], given: Path | None = None, *, quiet: bool = False
) -> tuple[float, float, str]:
    """Run a command; its processor seconds, its peak memory in megabytes, and what it printed."""
    errors = subprocess.DEVNULL if quiet else subprocess.STDOUT
    with tempfile.TemporaryFile("w+") as printed, Path(given or os.devnull).open() as source:
        process = subprocess.Popen(command, stdin=source, stdout=printed, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, text


if __name__ == "__main__":
    run()
