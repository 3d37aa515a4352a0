"""The medium language model of Zaremba et al. (2014) trained on a CPU: ours beside a plain PyTorch loop.

Both start from the same weights and see the same batches, each in a process of its own; without dropout their
losses must agree, or nothing is measured. Then they take turns, round by round, so that a busy machine
disturbs both alike. Memory is the most that was resident less what was once all was imported.
`python -m benchmarks.language_cpu` prints a table and the targets; `--quick` takes fewer steps.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

WIDTH, LAYERS, ROWS, STEPS = 650, 2, 20, 35
DROPOUT, RATE, CLIP, RANGE = 0.5, 1.0, 5.0, 0.05
SEED = 0
CHECKED_STEPS, WARM_UP = 4, 3
AGREEMENT = 1e-4
REPORT_EVERY = 50


class Case(NamedTuple):
    """A vocabulary, and what ours may need of the plain loop's speed and memory."""

    data: str
    words: int
    speed: float
    memory: float


CASES = (Case("ptb", 10_000, 0.97, 0.8), Case("wikitext-2", 33_278, 0.97, 0.6))
SIDES = ("plain", "ours")


def run(*, quick: bool = False) -> dict[str, Any]:
    rounds, steps = (2, 3) if quick else (6, 10)
    load = os.getloadavg()[0]
    if load > 0.7:
        print(f"the machine is busy (load {load:.1f}): this speed is not to be trusted", file=sys.stderr)
    print(f"{'':12}{'plain':>18}{'ours':>18}{'ratio':>8}{'target':>10}", file=sys.stderr)
    found = {case.data: measured(case, rounds, steps) for case in CASES}
    return {"load_before": load, **found}


def measured(case: Case, rounds: int, steps: int) -> dict[str, Any]:
    """Both sides on one vocabulary."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ids = Path(folder) / "ids.npy"
        source = write_ids(case, ids)
        difference = disagreement(case, ids)
        sides = {side: stack.enter_context(Worker(side, case, ids, DROPOUT)) for side in SIDES}
        for worker in sides.values():
            worker.steps(WARM_UP)
        times: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side, worker in sides.items():
                times[side] += worker.steps(steps)["seconds"]
        seconds = {side: statistics.median(times[side]) for side in SIDES}
        peaks = {side: sides[side].steps(0)["megabytes"] for side in SIDES}
    speed, memory = seconds["plain"] / seconds["ours"], peaks["ours"] / peaks["plain"]
    tokens = {side: ROWS * STEPS / seconds[side] for side in SIDES}
    print(f"{case.data}, {case.words:,} words, {source}; losses differ by {difference:.1e}", file=sys.stderr)
    _line("speed", tokens, "tokens/s", speed, f">= {case.speed}", speed >= case.speed)
    _line("memory", peaks, "MB", memory, f"<= {case.memory}", memory <= case.memory)
    return {
        "words": case.words,
        "text": source,
        "largest_difference_of_losses": difference,
        "tokens_per_second": {side: round(value) for side, value in tokens.items()},
        "peak_megabytes": {side: round(value, 1) for side, value in peaks.items()},
        "speed": round(speed, 3),
        "speed_target": case.speed,
        "speed_met": speed >= case.speed,
        "memory": round(memory, 3),
        "memory_target": case.memory,
        "memory_met": memory <= case.memory,
    }


def _line(name: str, of: dict[str, float], unit: str, ratio: float, target: str, met: bool) -> None:
    cells = "".join(f"{f'{of[side]:,.0f} {unit}':>18}" for side in SIDES)
    print(f"  {name:10}{cells}{ratio:8.3f}{target:>10}  {'met' if met else 'MISSED'}", file=sys.stderr)


def disagreement(case: Case, ids: Path) -> float:
    """The largest relative difference of the first losses without dropout; too large a one is an error."""
    losses = {}
    for side in SIDES:
        with Worker(side, case, ids, 0.0) as worker:
            losses[side] = worker.steps(CHECKED_STEPS)["losses"]
    pairs = zip(losses["plain"], losses["ours"], strict=True)
    difference: float = max(abs(ours / plain - 1) for plain, ours in pairs)
    if difference > AGREEMENT:
        raise AssertionError(f"not the same training: losses {losses['plain']} and {losses['ours']}")
    return difference


def write_ids(case: Case, path: Path) -> str:
    """The training text as ids; words drawn by Zipf's law where the corpus is not here. Says which."""
    import numpy as np

    from throughtime.data.datasets import open_dataset
    from throughtime.data.idcache import token_ids
    from throughtime.errors import ThroughtimeError
    from throughtime.text.codec import Codec

    try:
        dataset = open_dataset(case.data, download=False)
    except ThroughtimeError:
        shares = np.cumsum(1.0 / (np.arange(case.words) + 2.7))
        drawn = np.random.default_rng(SEED).random(1_000_000) * shares[-1]
        np.save(path, np.searchsorted(shares, drawn).astype(np.uint16))
        return "made text"
    codec = Codec.build(dataset.texts("train"), "space", reserved=("<unk>", "<eos>"))
    if len(codec.vocabulary) != case.words:
        raise AssertionError(f"{case.data} has {len(codec.vocabulary)} words, not {case.words}")
    np.save(path, token_ids(dataset, "train", codec, eos=True, cache=path.parent).ids)
    return "its own text"


class Worker:
    """One side in a process of its own, which takes as many steps as it is told."""

    def __init__(self, side: str, case: Case, ids: Path, dropout: float) -> None:
        words = [
            sys.executable,
            "-m",
            "benchmarks.language_cpu",
            side,
            str(case.words),
            str(ids),
            str(dropout),
        ]
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(
            words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def steps(self, number: int) -> dict[str, Any]:
        """Seconds and loss of each, and the peak of memory so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(number, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the measured process ended with {self._process.wait()}")
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


def work(side: str, words: int, ids: Path, dropout: float) -> None:
    """What a worker does: import all, then train step by step as its standard input says."""
    # The same for both; torch's optimisers would import torch._dynamo late, as if training needed its memory.
    for name in ("torch._dynamo", "throughtime.tasks.language.model", "throughtime.fit.trainer"):
        importlib.import_module(name)
    before = resident_megabytes("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        training = plain(words, ids, dropout) if side == "plain" else ours(words, ids, dropout, Path(folder))
        for line in sys.stdin:
            seconds, losses = [], []
            for _ in range(int(line)):
                start = time.perf_counter()
                loss = next(training)
                seconds.append(time.perf_counter() - start)
                losses.append(float(loss))
            answer = {"seconds": seconds, "losses": losses, "megabytes": resident_megabytes("VmHWM") - before}
            print(json.dumps(answer), flush=True)


def plain(words: int, path: Path, dropout: float) -> Iterator[Any]:
    """What people write: torch's modules and a loop. Gives the mean loss of each step."""
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(dropout)
            self.encoder = nn.Embedding(words, WIDTH)
            self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=LAYERS, dropout=dropout)
            self.decoder = nn.Linear(WIDTH, words)

        def forward(
            self, inputs: Tensor, state: tuple[Tensor, Tensor]
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            outputs, state = self.rnn(self.dropout(self.encoder(inputs)), state)
            return self.decoder(self.dropout(outputs)), state

    model = Model()
    draw_weights([weight for name, weight in model.named_parameters() if "bias_hh" not in name])
    for name, weight in model.named_parameters():
        if "bias_hh" in name:
            nn.init.zeros_(weight)
            # Two biases learn twice as fast as our one, which would hide whether the rest agrees.
            weight.requires_grad_(dropout > 0)
    ids = torch.from_numpy(np.load(path).astype(np.int64))
    length = (len(ids) - 1 - first_token(len(ids))) // ROWS
    data = ids[first_token(len(ids)) :][: ROWS * length].view(ROWS, length).t().contiguous()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    state = (torch.zeros(LAYERS, ROWS, WIDTH), torch.zeros(LAYERS, ROWS, WIDTH))
    model.train()
    for number, start in enumerate(range(0, length - STEPS, STEPS), 1):
        inputs, labels = data[start : start + STEPS], data[start + 1 : start + STEPS + 1]
        state = (state[0].detach(), state[1].detach())
        optimizer.zero_grad()
        logits, state = model(inputs, state)
        loss = functional.cross_entropy(logits.view(-1, words), labels.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if number % REPORT_EVERY == 0:
            print(f"step {number}, loss {loss.item():.2f}", file=sys.stderr)
        yield loss.detach()


def ours(words: int, path: Path, dropout: float, folder: Path) -> Iterator[Any]:
    """The same by our trainer. Gives the mean loss of each step."""
    import numpy as np

    from throughtime.config import build_config
    from throughtime.fit.progress import Reporter
    from throughtime.fit.trainer import Trainer
    from throughtime.models.language import RecurrentLanguageModel
    from throughtime.tasks.language.config import LanguageConfig
    from throughtime.tasks.language.model import RecurrentLanguage
    from throughtime.tasks.language.training import LanguageObjective
    from throughtime.text.codec import Codec

    settings = {
        "data": "ids",
        "seed": SEED,
        "batch_size": ROWS,
        "num_steps": STEPS,
        "embedding_size": WIDTH,
        "hidden_size": WIDTH,
        "num_layers": LAYERS,
        "tied": False,
        "input_dropout": dropout,
        "hidden_dropout": dropout,
        "output_dropout": dropout,
        "weight_drop": 0.0,
        "weight_decay": 0.0,
        "forget_bias": 0.0,
        "optimizer": "sgd",
        "lr": RATE,
        "clip": CLIP,
        "device": "cpu",
    }
    config = build_config(LanguageConfig, settings, "benchmark")
    model = RecurrentLanguageModel(words, **config.arguments_for(RecurrentLanguageModel))
    draw_weights([*model.parameters()])
    # The ids are there already: what the codec would be asked for is no part of training.
    language = RecurrentLanguage(model, config.frame(Codec.build(["a b"], "space")), config)
    task = LanguageObjective(language, np.load(path, mmap_mode="r"), None)
    trainer = Trainer(task, config, folder, Reporter(), improved=lambda best: None)
    model.train()
    for group in trainer.groups():
        trainer.update(group)
        total, targets, *_ = trainer.learner.tally.lap(trainer.processes)
        yield total / targets


def draw_weights(weights: list[Any]) -> None:
    """The same numbers into the same weights, in the order in which both models name them."""
    import torch

    torch.manual_seed(SEED)
    with torch.no_grad():
        for weight in weights:
            weight.uniform_(-RANGE, RANGE)


def first_token(tokens: int) -> int:
    """Where our first epoch begins: it leaves out a few tokens at random."""
    from throughtime.data.batching.batches import draws, random_offset

    return random_offset(min(STEPS, tokens), draws(SEED, 0))


def resident_megabytes(line: str) -> float:
    """Memory of this process that is resident now (VmRSS) or was at most (VmHWM), as Linux tells it."""
    # Not ru_maxrss: that may be the parent's, from before the program was loaded.
    found = re.search(rf"{line}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in SIDES:
        work(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
    else:
        run(quick="--quick" in sys.argv)
