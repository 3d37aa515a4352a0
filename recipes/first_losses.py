"""The losses of the first updates of a training, on a CPU: a row is stale if they no longer come out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recipes.recipe import Recipe, written
from throughtime.errors import ThroughtimeError

UPDATES = 50
_POLL_SECONDS = 0.2


def first_losses(recipe: Recipe) -> list[float]:
    """Train as the recipe's first run does, in float32 on one core, until UPDATES losses are known."""
    config = {**recipe.runs()[0], "report_every": 1, "device": "cpu", "precision": "float32"}
    with tempfile.TemporaryDirectory() as folder:
        file, out, log = (Path(folder) / name for name in ("config.yaml", "run", "log"))
        file.write_text(written(config))
        words = ["train", recipe.task, "--config", str(file), "--out", str(out)]
        with log.open("w") as stderr:
            training = subprocess.Popen(
                [sys.executable, "-m", "throughtime", *words],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            try:
                while training.poll() is None and len(_losses(out)) < UPDATES:
                    time.sleep(_POLL_SECONDS)
            finally:
                training.kill()
                training.wait()
        if losses := _losses(out):
            return losses
        raise ThroughtimeError(f"throughtime {' '.join(words)} failed: {log.read_text()[-500:].strip()}")


def _losses(run: Path) -> list[float]:
    """The losses of the first updates, as far as the training has written whole lines of them."""
    metrics = run / "metrics.jsonl"
    text = metrics.read_text() if metrics.exists() else ""
    lines: list[dict[str, Any]] = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [line["loss"] for line in lines if line["kind"] == "train" and "loss" in line][:UPDATES]
