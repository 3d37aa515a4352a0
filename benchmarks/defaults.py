"""Our defaults and the simple methods that anybody tries first, on the same rows, task by task.

    python -m benchmarks.defaults --task classify --sets words intents --seed 1
    python -m benchmarks.defaults --task forecast --minutes 1 --held-out

Ours is `throughtime train TASK --data SET` without settings (a forecast is told its horizon), in a process
of its own, so its CPU seconds hold the imports, about three. Peers run in an environment of their own, one
thread each; what they answered is kept beside the data (`--fresh` asks them again).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks import defaults_texts as texts
from benchmarks.translate_setup import OUT, ROOT, python_with
from throughtime.api import load
from throughtime.errors import ThroughtimeError
from throughtime.metrics.classification import ChunkCounts, chunks, is_chunked

PEERS = ("statsforecast==2.1.1", "aeon==1.6.0", "scikit-learn", "python-crfsuite", "pmdarima", "statsmodels")
TASKS = ("forecast", "classify", "tag", "language", "fill", "vectors")
UNKNOWN_BITS = 40
"""What an unknown token is charged in addition: eight letters of five bits."""
BLANKS = 1_000
LEVELS = (80, 95)
Row = dict[str, Any]


def peers_python() -> str:
    return str(python_with("THROUGHTIME_PEERS", "defaults-peers", PEERS))


def run_ours(*words: str) -> float:
    """Run a command of ours; the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "throughtime", *words], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ThroughtimeError(f"throughtime {' '.join(words)}: {done.stderr[-600:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ask_peers(task: str, folder: Path, fresh: bool) -> dict[str, Row]:
    """What the peers answer, from their environment or from the last time."""
    kept = folder / "peers.json"
    if fresh or not kept.exists():
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [peers_python(), "-m", "benchmarks.defaults_peers", task, str(folder)]
        kept.write_bytes(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    answers: dict[str, Row] = json.loads(kept.read_text())
    return answers


def read_tagged(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    pairs = [
        [line.split("\t") for line in block.strip().split("\n")]
        for block in (folder / "test.conll").read_text("utf-8").split("\n\n")
        if block.strip()
    ]
    return [[word for word, _ in pair] for pair in pairs], [[tag for _, tag in pair] for pair in pairs]


def score_tags(truth: list[list[str]], guesses: Iterable[Iterable[str]]) -> float:
    """F1 of chunks in per cent, or the accuracy where tags mark none."""
    pairs = list(zip(truth, map(list, guesses), strict=True))
    if not is_chunked({tag for tags in truth for tag in tags}):
        same = [a == b for left, right in pairs for a, b in zip(left, right, strict=True)]
        return 100 * float(np.mean(same))
    found = [(set(chunks(left)), set(chunks(right))) for left, right in pairs]
    counts = ChunkCounts(
        *(sum(map(len, kind)) for kind in zip(*((a, b, a & b) for a, b in found), strict=True))
    )
    return 100 * counts.f1


def draw_blanks(folder: Path) -> list[tuple[list[str], int]]:
    """Sentences of the test with the place of the word to be guessed, drawn once."""
    place, draws = folder / "blanks.json", Random(0)
    if not place.exists():
        sentences = [line.split() for line in (folder / "test.txt").read_text("utf-8").splitlines()]
        places = [[n for n, word in enumerate(one) if word.isalpha()] for one in sentences]
        drawn = [(one, draws.choice(some)) for one, some in zip(sentences, places, strict=True) if some]
        place.write_text(json.dumps(draws.sample(drawn, min(BLANKS, len(drawn)))))
    return [(words, at) for words, at in json.loads(place.read_text())]


def bits(run: Path, folder: Path) -> float:
    """Bits per character of the test, unknown tokens charged."""
    test = load(run).evaluate(str(folder), split="test").values
    return float((test["nats"] / math.log(2) + UNKNOWN_BITS * test["unknown"]) / test["characters"])


def count_ngrams(folder: Path, run: Path) -> dict[str, Row]:
    """Our own Kneser-Ney, its order chosen by validation: of words, of letters, and of a run's tokens."""
    tokens = json.loads((run / "tokenizer_config.json").read_text())["tokenizer"]
    answers = {}
    for name in dict.fromkeys(("unicode", "char", tokens)):
        counted = run.parent / f"ngram-{name}"
        size = ("--max-size", str(load(run).codec.vocabulary.__len__())) if name == "bpe" else ()
        words = ("--data", str(folder), "--tokens", name, *size, "--minutes", "0.5", "--out", str(counted))
        cpu = run_ours("train", "ngram", *words)
        answers[f"Kneser-Ney {name}"] = {"cpu": cpu, "score": bits(counted, folder)}
    return answers


def score_ours(task: str, folder: Path, run: Path) -> float:
    """The score of a trained model on the test: per cent, or bits for a language model."""
    if task == "language":
        return bits(run, folder)
    if task == "vectors":
        command = [sys.executable, "-m", "throughtime", "evaluate", str(run), "--json", "--split", "all"]
        done = subprocess.run(
            [*command, "--data", str(folder / "test.csv")], check=True, stdout=subprocess.PIPE
        )
        return 100 * float(json.loads(done.stdout)["accuracy"])
    model = load(run)
    if task == "tag":
        words, truth = read_tagged(folder)
        return score_tags(truth, [one.tags for one in model.tag([" ".join(sentence) for sentence in words])])
    if task == "fill":
        blanks = draw_blanks(folder)
        asked = [" ".join([*words[:at], "___", *words[at + 1 :]]) for words, at in blanks]
        pairs = zip(model.fill(asked, k=1, num_beams=1), blanks, strict=True)
        return 100 * float(np.mean([one.tokens[0] == words[at] for one, (words, at) in pairs]))
    rows = texts.read_table(folder / "test.csv")
    answers = model.classify([text for text, _ in rows])
    return 100 * float(np.mean([one.label == label for one, (_, label) in zip(answers, rows, strict=True)]))


def measure_answer(answer: Row, truth: np.ndarray, naive: Row) -> Row:
    """The errors of a forecast over those of the seasonal naive one, and what its intervals cover."""

    def interval(of: Row, level: int) -> tuple[float, float]:
        (low, high), miss = map(np.asarray, of[str(level)]), 2 / (1 - level / 100)
        outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
        return float(np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low + miss * outside))

    floor = 1e-9 + 1e-6 * float(np.abs(truth).mean())
    errors = [floor + float(np.abs(truth - np.asarray(one["mean"])).mean()) for one in (answer, naive)]
    row: Row = {"score": errors[0] / errors[1], "cpu": answer.get("cpu", 0.0)}
    if str(LEVELS[0]) in answer:
        measured, plain = ([interval(one, level) for level in LEVELS] for one in (answer, naive))
        row["covered"] = [covered for covered, _ in measured]
        row["interval"] = sum(width for _, width in measured) / (floor + sum(width for _, width in plain))
    return row


def forecast_ours(folder: Path, run: Path, cpu: float) -> Row:
    about = json.loads((folder / "about.json").read_text())
    answer = load(run).forecast(h=about["horizon"], level=list(LEVELS))[0]
    quantiles = {round(float(key), 4): list(values) for key, values in answer.quantiles.items()}
    row: Row = {"cpu": cpu, "mean": list(answer.mean)}
    for level in LEVELS:
        tail = (1 - level / 100) / 2
        row[str(level)] = [quantiles[round(tail, 4)], quantiles[round(1 - tail, 4)]]
    return row


def compare(task: str, folder: Path, options: argparse.Namespace) -> dict[str, Row]:
    """Ours and the peers on one set."""
    with tempfile.TemporaryDirectory() as place:
        run, words = Path(place) / "run", ["--seed", str(options.seed)]
        data, name = str(folder), task
        if task in ("forecast", "vectors"):
            data, name = str(folder / "train.csv"), "forecast" if task == "forecast" else "classify"
        if task == "forecast":
            words += ["--set", f"horizon={json.loads((folder / 'about.json').read_text())['horizon']}"]
        if options.minutes:
            words += ["--minutes", str(options.minutes)]
        words += [word for pair in options.set for word in ("--set", pair)]
        if task == "fill":
            draw_blanks(folder)
        rows: dict[str, Row] = {} if task == "language" else ask_peers(task, folder, options.fresh)
        cpu = run_ours("train", name, "--data", data, "--out", str(run), "--quiet", *words)
        if task == "forecast":
            rows["ours"] = forecast_ours(folder, run, cpu)
            truth, naive = (
                np.array([float(y) for _, y in texts.read_table(folder / "test.csv")]),
                rows["snaive"],
            )
            return {name: measure_answer(row, truth, naive) for name, row in rows.items()}
        if task == "language":
            rows = count_ngrams(folder, run)
        if task == "tag":
            truth_tags = read_tagged(folder)[1]
            rows = {
                name: {"cpu": row["cpu"], "score": score_tags(truth_tags, row["tags"])}
                for name, row in rows.items()
            }
        rows["ours"] = {"cpu": cpu, "score": score_ours(task, folder, run)}
        return rows


def show(task: str, name: str, rows: dict[str, Row]) -> str:
    """A row of the table: ours, the best peer, and what both took."""
    low = task in ("forecast", "language")
    peers = {peer: row for peer, row in rows.items() if peer != "ours"}
    best = (min if low else max)(peers, key=lambda peer: peers[peer]["score"])
    ours, other, digits = rows["ours"], peers[best], 3 if low else 1
    gap = ours["score"] - other["score"]
    took = f"{ours['cpu']:.1f} | {other['cpu']:.1f} | {ours['cpu'] / max(other['cpu'], 0.01):.1f}"
    scores = f"{ours['score']:.{digits}f} | {other['score']:.{digits}f} {best} | {gap:+.{digits}f}"
    return f"| {name} | {scores} | {took} |"


def summarise(results: dict[str, dict[str, Row]]) -> list[str]:
    """Forecasts: for each method geometric means over the series, and the mean coverage."""
    lines = [
        "| | error over seasonal naive | covered by 80 % | by 95 % | interval score over seasonal naive |",
        "|---|---|---|---|---|",
    ]
    for peer in dict.fromkeys(peer for rows in results.values() for peer in rows):
        rows = [rows[peer] for rows in results.values() if peer in rows]
        parts = [f"{np.exp(np.mean([math.log(row['score']) for row in rows])):.3f}"]
        if all("covered" in row for row in rows):
            parts += [
                f"{100 * np.mean([row['covered'][level] for row in rows]):.0f}"
                for level in range(len(LEVELS))
            ]
            parts += [f"{np.exp(np.mean([math.log(row['interval']) for row in rows])):.3f}"]
        lines.append(f"| {peer} ({len(rows)} series) | {' | '.join(parts + ['–'] * (4 - len(parts)))} |")
    return lines


def show_means(results: dict[str, dict[str, Row]]) -> str:
    """The mean score of each method that answered on all sets; each set's best is known only afterwards."""
    shared = set.intersection(*(set(rows) for rows in results.values()))
    means = {name: float(np.mean([rows[name]["score"] for rows in results.values()])) for name in shared}
    return "Means: " + ", ".join(f"{name} {means[name]:.3f}" for name in sorted(means)) + "."


def folders(task: str, options: argparse.Namespace) -> Iterator[Path]:
    """The folders of the sets that are asked for, made where they are not there."""
    if task in texts.SETS:
        names = options.sets or [
            n for n in texts.SETS[task] if (n in texts.HELD_OUT[task]) == options.held_out
        ]
        yield from texts.make(task, options.folder, names)
        return
    place = options.folder / (f"seed-{options.seed}" if task == "forecast" and options.seed else "")
    if not (place / task).exists():
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [peers_python(), "-W", "ignore", "-m", "benchmarks.defaults_series", str(place)]
        subprocess.run([*command, str(int(options.held_out)), str(options.seed)], env=environment, check=True)
    yield from (
        path for path in sorted((place / task).iterdir()) if not options.sets or path.name in options.sets
    )


def run(words: list[str] | None = None) -> dict[str, Any]:
    """Compare, print the tables and return what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--sets", nargs="+", help="names of sets; by default all but the held-out ones")
    parser.add_argument("--held-out", action="store_true", help="the sets that nobody should tune on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="minutes to train ours; by default none are given")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours, as KEY=VALUE")
    parser.add_argument("--fresh", action="store_true", help="ask the peers again")
    parser.add_argument("--folder", type=Path, help="where the sets are")
    options = parser.parse_args(words or [])
    options.folder = options.folder or OUT / "defaults" / ("held-out" if options.held_out else "data")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    measured: dict[str, Any] = {}
    say = partial(print, file=sys.stderr if words is None else sys.stdout, flush=True)
    for task in options.task:
        say(f"| {task} | ours | best peer | difference | CPU s | its CPU s | ratio |\n{'|---' * 7}|")
        results = measured[task] = {}
        for folder in folders(task, options):
            try:
                results[folder.name] = compare(task, folder, options)
            except ThroughtimeError as error:
                say(f"| {folder.name} | {' '.join(str(error).split())[-300:]} |")
                continue
            say(show(task, folder.name, results[folder.name]))
        if results:
            say("\n" + ("\n".join(summarise(results)) if task == "forecast" else show_means(results)))
    return measured


if __name__ == "__main__":
    run(sys.argv[1:])
