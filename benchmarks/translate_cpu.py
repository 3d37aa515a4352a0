"""Translation on a CPU: ours beside JoeyNMT 2.3.0, on Multi30k from English to German.

Both have the same model (a bidirectional GRU of 256, a GRU of 512 with additive attention and input feeding,
embeddings of 256), the same vocabularies, 64 sentences an update, Adam, a dropout of 0.2, two threads (one on
one core), and a process of their own. They take turns, round by round, and ratios are of the seconds that
their processors worked, so that a busy machine disturbs both alike. Then JoeyNMT takes the weights of a model
that we train longer (four epochs), losses must agree, and both translate the same sentences with it, again in
turns: ours with and without a shortlist, and its export with int8 weights likewise.
`python -m benchmarks translate_cpu` prints a table and the targets; `python -m benchmarks.translate_cpu
--quick` takes fewer rounds and updates, and `--decoding` leaves out what is measured of training.

JoeyNMT gets an environment of its own at the first run, below build/benchmarks, where the model stays, too;
THROUGHTIME_JOEYNMT names the python of one that is there already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch

from benchmarks.translate_setup import (
    MAX_LENGTH,
    ROOT,
    TARGET,
    joeynmt_config,
    joeynmt_python,
    our_config,
    write_data,
)
from throughtime.errors import ThroughtimeError
from throughtime.layers.devices import choose_precision
from throughtime.metrics.bleu import corpus_bleu
from throughtime.runtime.shortlist import DEFAULT_CANDIDATES

THREADS = min(2, len(os.sched_getaffinity(0)))
AGREEMENT = 1e-4
CLOCKS = ("seconds", "cpu")


class Amount(NamedTuple):
    """How much is measured."""

    rounds: int
    updates: int  # of each round, for each kind of training
    warm_up: int
    ripening: int  # updates of the model that both translate with
    sentences: int | None
    searches: int


WHOLE, QUICK = Amount(4, 20, 5, 1_800, None, 2), Amount(2, 5, 3, 60, 100, 1)


KINDS = {"float32": (2.2, 2.8), "bf16": (4.0, 5.0)}
"""What training and translating at beam 5 must be, in JoeyNMT's speeds; its own are in float32."""
SEARCHES = {"beam 5": 5, "greedy": 1}
SHORTLISTED, EXPORTED = 6.0, 10.0
"""What beam 5 with a shortlist must be, in JoeyNMT's speeds: in the default precision, and of the runner."""
BLEU_LOSS = 0.1
"""What a shortlist may cost in BLEU, of the same model without one."""


def run(*, quick: bool = False, decoding_only: bool = False) -> dict[str, Any]:
    amount = QUICK if quick else WHOLE
    load = os.getloadavg()[0]
    if load > 0.7:
        print(
            f"the machine is busy (load {load:.1f}): ratios by the clock are not to be trusted",
            file=sys.stderr,
        )
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        try:
            write_data(folder, amount.sentences)
            python = joeynmt_python()
        except ThroughtimeError as error:
            print(f"skipped: {error}", file=sys.stderr)
            return {"skipped": str(error)}
        theirs = stack.enter_context(Worker(python, "translate_joeynmt", joeynmt_config(folder), folder))
        ours = stack.enter_context(Worker(Path(sys.executable), "translate_ours", our_config(folder), folder))
        default = choose_precision("auto", torch.device("cpu"))
        kinds = [kind for kind in KINDS if kind in ("float32", default)]
        found: dict[str, Any] = {"load_before": load}
        if not decoding_only:
            found["training"] = trained(theirs, ours, kinds, amount)
        found |= same_model(theirs, ours, kinds[-1], amount.ripening, folder / "weights.npz")
        for name, beams in SEARCHES.items():
            found[name] = decoded(theirs, ours, kinds, beams, amount.searches, references(folder))
        if not decoding_only:
            found["clock"] = {
                kind: ours({"do": "clock", "beams": 5, "precision": kind, "max_length": MAX_LENGTH})
                for kind in kinds
            }
    found["targets"] = targets(found, kinds)
    show(found)
    return found


def trained(theirs: Worker, ours: Worker, kinds: list[str], amount: Amount) -> dict[str, Any]:
    """Target tokens a second of each, in turns; of ours also with batches that chance puts together."""
    orders: dict[str, tuple[Worker, dict[str, Any]]] = {"joeynmt": (theirs, {})}
    for kind in kinds:
        orders[kind] = ours, {"precision": kind, "bucketed": True}
    orders["float32, random batches"] = ours, {"precision": "float32", "bucketed": False}
    sums: dict[str, Counter[str]] = {name: Counter() for name in orders}
    for number in range(-1, amount.rounds):
        for name, (worker, order) in orders.items():
            updates = amount.updates if number >= 0 else amount.warm_up
            answer = worker({"do": "train", "updates": updates, **order})
            if number >= 0:
                sums[name].update(answer)
    speeds, work = ({name: own["tokens"] / own[clock] for name, own in sums.items()} for clock in CLOCKS)
    losses = {name: worker({"do": "judge", **order})["loss"] for name, (worker, order) in orders.items()}
    return {
        "validation_loss": {name: round(loss, 3) for name, loss in losses.items()},
        "updates": amount.rounds * amount.updates,
        "tokens_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "ratios": ratios(work),
        "wall_ratios": ratios(speeds),
        "input_pipeline": {kind: round(sums[kind]["outside"] / amount.rounds, 4) for kind in kinds},
        "saved_by_bucketing": round(1 - speeds["float32, random batches"] / speeds["float32"], 3),
    }


def same_model(theirs: Worker, ours: Worker, kind: str, updates: int, weights: Path) -> dict[str, Any]:
    """We train a model that both are to translate with; too large a difference of losses is an error."""
    ripe = ours({"do": "ripen", "precision": kind, "updates": updates, "path": str(weights)})
    taken = theirs({"do": "read", "path": str(weights)})
    losses = {"joeynmt": theirs({"do": "judge"})["loss"], "ours": ripe["loss"]}
    if abs(losses["ours"] / losses["joeynmt"] - 1) > AGREEMENT:
        raise AssertionError(f"not the same model: with the same weights losses are {losses}")
    parameters = {"joeynmt": taken["parameters"], "ours": ripe["parameters"]}
    return {"parameters": parameters, "validation_loss": losses}


def decoded(
    theirs: Worker, ours: Worker, kinds: list[str], beams: int, searches: int, references: list[str]
) -> dict[str, Any]:
    """Sentences a second of each, in turns, all with the same weights."""
    orders: dict[str, tuple[Worker, dict[str, Any]]] = {"joeynmt": (theirs, {})}
    for kind in kinds:
        asked = {"precision": kind, "max_length": MAX_LENGTH, "eager": False, "shortlist": 0}
        orders[kind] = ours, asked
        orders[f"{kind}, shortlist"] = ours, {**asked, "shortlist": DEFAULT_CANDIDATES}
        if beams > 1:
            # As others stop: when the best that has ended is better than what goes on is now.
            orders[f"{kind}, eager"] = ours, {**asked, "eager": True}
    for name, candidates in (("int8 runner", 0), ("int8 runner, shortlist", DEFAULT_CANDIDATES)):
        orders[name] = ours, {"exported": True, "max_length": MAX_LENGTH, "shortlist": candidates}
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in orders}
    for _ in range(searches):
        for name, (worker, order) in orders.items():
            answers[name].append(worker({"do": "decode", "beams": beams, **order}))
    told = {name: own[0]["sentences"] for name, own in answers.items()}
    speeds, work = (
        {name: len(told[name]) / min(one[clock] for one in own) for name, own in answers.items()}
        for clock in CLOCKS
    )
    return {
        "sentences": len(told["joeynmt"]),
        "sentences_per_second": {name: round(speed, 1) for name, speed in speeds.items()},
        "ratios": ratios(work),
        "wall_ratios": ratios(speeds),
        "bleu": {
            name: round(corpus_bleu(own, references, tokenize="none").value, 2) for name, own in told.items()
        },
        "mean_words": {
            name: round(sum(len(one.split()) for one in own) / len(own), 2) for name, own in told.items()
        },
        "same_as_joeynmt": {
            name: round(sum(map(str.__eq__, own, told["joeynmt"])) / len(own), 3)
            for name, own in told.items()
        },
    }


def ratios(speeds: Mapping[str, float]) -> dict[str, float]:
    """Speeds in JoeyNMT's."""
    return {name: round(speed / speeds["joeynmt"], 2) for name, speed in speeds.items()}


def references(folder: Path) -> list[str]:
    """What people made of the sentences that are translated."""
    return (folder / f"dev.{TARGET}").read_text("utf-8").splitlines()


def targets(found: Mapping[str, Any], kinds: list[str]) -> list[dict[str, Any]]:
    """What was promised, and what was measured."""
    checked = []
    for kind in kinds:
        for name, target in zip(("training", "beam 5"), KINDS[kind], strict=True):
            if name not in found:
                continue
            value = found[name]["ratios"][kind]
            checked.append(
                {"name": f"{name}, {kind}", "value": value, "target": target, "met": value >= target}
            )
    beam = found["beam 5"]
    for name, target in ((kinds[-1], SHORTLISTED), ("int8 runner", EXPORTED)):
        listed = f"{name}, shortlist"
        value, cost = beam["ratios"][listed], beam["bleu"][name] - beam["bleu"][listed]
        met = value >= target and cost <= BLEU_LOSS
        checked.append({"name": f"beam 5, {listed}", "value": value, "target": target, "met": met})
    return checked


def show(found: Mapping[str, Any]) -> None:
    """The table, on standard error."""
    for name, unit in (("training", "tokens"), *((name, "sentences") for name in SEARCHES)):
        if name not in found:
            continue
        own = found[name]
        print(f"{name}, {unit} a second; times JoeyNMT by the clock, and by its work", file=sys.stderr)
        for side, speed in own[f"{unit}_per_second"].items():
            more = (
                f"{own['mean_words'][side]:.1f} words a sentence, BLEU {own['bleu'][side]:.2f}"
                if name in SEARCHES
                else f"validation loss {own['validation_loss'][side]:.3f}"
            )
            both = f"{own['wall_ratios'][side]:8.2f}{own['ratios'][side]:8.2f}"
            print(f"  {side:26}{speed:10,.1f}{both}  {more}", file=sys.stderr)
    if "clock" in found:
        show_shares(found["clock"], found["training"])
    for one in found["targets"]:
        sign = "met" if one["met"] else "MISSED"
        print(f"{one['name']:34}{one['value']:8.2f} >= {one['target']:.1f}  {sign}", file=sys.stderr)


def show_shares(clock: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    """Where our time goes."""
    shares = {"padding": clock["float32"]["padding"]}
    for kind, parts in clock.items():
        outside = {"input pipeline": training["input_pipeline"][kind]}
        shares |= {f"training, {kind}": outside | parts["training"], f"beam 5, {kind}": parts["search"]}
    for name, own in shares.items():
        told = ", ".join(f"{part} {share:.1%}" for part, share in own.items())
        print(f"{name}: {told}", file=sys.stderr)
    print(f"bucketing saves {training['saved_by_bucketing']:.1%} of the time", file=sys.stderr)


class Worker:
    """One side in a process of its own, which does what it is told."""

    def __init__(self, python: Path, module: str, config: Mapping[str, Any], folder: Path) -> None:
        path = folder / f"{module}.json"
        path.write_text(json.dumps(config), "utf-8")
        self._messages = (folder / f"{module}.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.{module}", str(path)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
        )

    def __call__(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """What it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._messages.seek(0)
            raise RuntimeError(f"a measured process ended with {status}:\n{self._messages.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        """It is at work already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Let it end, by the end of its input."""
        self._process.communicate()
        self._messages.close()


if __name__ == "__main__":
    run(quick="--quick" in sys.argv, decoding_only="--decoding" in sys.argv)
