"""Measurements of training: the file `metrics.jsonl`, the best validation, and the summary."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from throughtime.errors import InputError
from throughtime.files import name_in_errors, whole_file
from throughtime.text.texts import finite


class Metrics:
    """Appends lines to `metrics.jsonl`, and the same values to `tensorboard/` if TensorBoard is installed.

    Files are opened with the first line, so that a run that fails before leaves none. Without a path, as in
    all processes but the first, nothing is written.
    """

    def __init__(self, path: Path | str | None) -> None:
        self._path = None if path is None else Path(path)
        self._file: IO[str] | None = None
        self._board: Any = None
        self._purge: int | None = None
        self._before = 0.0
        self._started = time.monotonic()

    def write(self, kind: str, step: int, epoch: int, values: Mapping[str, float | int | str | None]) -> None:
        """Add one line and flush it. `seconds` includes the training before a resume."""
        if self._path is None:
            return
        seconds = round(self._before + time.monotonic() - self._started, 3)
        line: dict[str, Any] = {"kind": kind, "step": step, "epoch": epoch, "seconds": seconds}
        if reserved := line.keys() & values.keys():
            raise ValueError(f"reserved names of metrics.jsonl: {', '.join(sorted(reserved))}")
        line |= finite(dict(values))
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8", newline="\n")
            self._board = _board(self._path.parent / "tensorboard", self._purge)
        # One write, so that a kill tears at most the last line.
        with name_in_errors(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def rewind(self, step: int, later: Collection[str] = ()) -> None:
        """Drop lines after this step, those of this step whose kind is in `later`, and a torn last line."""
        self.close()
        if self._path is None:
            return
        lines = read_metrics(self._path) if self._path.exists() else []
        kept = [line for line in lines if line["step"] < step + (line["kind"] not in later)]
        if self._path.exists():
            with whole_file(self._path) as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
        self._before = kept[-1].get("seconds", 0.0) if kept else 0.0
        self._started = time.monotonic()
        self._purge = step + 1

    def close(self) -> None:
        """Close the files; writing opens them again."""
        if self._file is not None:
            file, self._file = self._file, None
            with name_in_errors(Path(file.name)):  # closing writes what is still buffered
                file.close()
        if self._board is not None:
            self._board.close()
            self._board = None


def read_metrics(path: Path | str) -> list[dict[str, Any]]:
    """Read the lines of a `metrics.jsonl`, without an incomplete last line and lines of other kinds."""
    lines = Path(path).read_bytes().split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError
        except ValueError:  # neither JSON nor even UTF-8
            if number == len(lines):
                break
            raise InputError(str(path), "is not a JSON object; remove the line", line=number) from None
        if isinstance(value.get("step"), int) and isinstance(value.get("kind"), str):
            values.append(value)
    return values


def _board(folder: Path, purge: int | None) -> Any:
    """Return a writer for TensorBoard that hides earlier events from step `purge` on; None without it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(log_dir=str(folder), purge_step=purge)


_KEPT = ("scores", "best", "best_at", "best_epoch", "best_step", "best_inside")


class Record:
    """The scores of all validations (lower is better, whatever the measure), and the measures of the best.

    A measure that is not finite is never the best, and the model is `broken` until the next validation.

    >>> record = Record("bleu", "more")
    >>> record.add({"bleu": 20.0}, {}, step=50, epoch=5), record.add({"bleu": 19.0}, {}, step=100, epoch=10)
    (True, False)
    >>> record.best, record.best_epoch, record.validations_since_best
    ({'bleu': 20.0}, 5, 1)
    """

    def __init__(self, measure: str, better: Literal["less", "more"]) -> None:
        self._measure, self._sign = measure, 1 if better == "less" else -1
        self.scores: list[float] = []
        self.best: dict[str, float] = {}
        self.best_epoch = self.best_step = 0
        self.best_inside = False  # whether it was before the end of that epoch
        self.best_at = 0  # its place in `scores`
        self.broken = False
        self.validated_at = 0  # the update after which the model was last validated

    def add(
        self, valid: dict[str, float], train: dict[str, float], step: int, epoch: int, inside: bool = False
    ) -> bool:
        """Add a validation after this update, the last of `epoch` unless `inside`; return whether it is best.

        Without validation data each one is.
        """
        self.validated_at = step
        figures = [valid[self._measure]] if valid else [*train.values()]
        self.broken = not all(map(math.isfinite, figures))
        better = not self.broken
        if valid:
            score = math.inf if self.broken else self._sign * figures[0]
            least = min(self.scores, default=math.inf)
            # While the measure does not change, such as BLEU 0 in early epochs, a smaller loss is progress.
            closer = valid.get("loss", math.inf) < self.best.get("loss", math.inf)
            better = score < least or (score == least < math.inf and closer)
            if better:
                self.best_at = len(self.scores)
            self.scores.append(score)
        if better:
            self.best, self.best_epoch, self.best_step = valid or train, epoch, step
            self.best_inside = inside
        return better

    @property
    def validations_since_best(self) -> int:
        """Number of validations since the best."""
        return len(self.scores) - 1 - self.best_at if self.scores else 0

    def values(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {name: getattr(self, name) for name in _KEPT}

    def restore(self, values: dict[str, Any], step: int) -> None:
        """Restore the values of a checkpoint after update `step`."""
        for name in _KEPT:
            setattr(self, name, values[name])
        self.validated_at = step
        self.broken = self.scores[-1:] == [math.inf]


@dataclass(frozen=True)
class Summary:
    """The outcome of a training."""

    steps: int
    epochs: int
    seconds: float
    train: dict[str, float]  # of the last epoch, dropout included
    best: dict[str, float]
    best_epoch: int  # the epoch in which the model was best, counted from 1
    best_step: int
    best_inside: bool  # whether that was before the end of the epoch
    why: str
    skipped: int = 0  # updates whose loss or gradient was NaN or infinite
    planned: int | None = None  # updates for which there was time, if few of them were made
