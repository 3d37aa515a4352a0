"""`throughtime average`: one model from the last checkpoints of a run."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from throughtime.cli.console import command_name
from throughtime.cli.options import OptionalCount, Run
from throughtime.cli.output import Outcome, as_command, flags
from throughtime.errors import InputError
from throughtime.manifest import APART

if TYPE_CHECKING:
    from torch import Tensor

    from throughtime.fit.checkpoint import Checkpoint, Checkpoints

PREFIX = "model."
WEIGHTS = "model.safetensors"
ABOUT_THE_RUN = {WEIGHTS, "README.md", "metrics.jsonl", "intervals.safetensors"}
PARTS = {"source", "target", "language-models"}  # vocabularies of a translator, what a tagger reads with


@as_command
def average(run: Run, out: Path, last: OptionalCount = None) -> Outcome:
    """Average the weights of a run's last checkpoints into a new model.

    A run keeps few checkpoints by default: train with --set keep=5 or more.

    [bold]Examples[/bold]

      throughtime average runs/ptb --last 5 --out runs/ptb-averaged

      throughtime evaluate runs/ptb-averaged --split valid

    Args:
        last: Number of last checkpoints to average; all by default.
    """
    from throughtime.files import check_new
    from throughtime.fit.checkpoint import Checkpoints
    from throughtime.folder import ModelFolder

    source = ModelFolder.at(run)
    source.check(trust_changed=flags.trust_changed)
    source.read_config()
    check_new(out)
    checkpoints = Checkpoints(run / "checkpoints", keep=1)
    names = checkpoints.names()
    if not names:
        raise InputError(
            str(run), "holds no checkpoints to average: they were removed, or it was not trained in steps"
        )
    last = len(names) if last is None else last
    if len(names) < last:
        raise InputError(
            "--last",
            f"is {last}, but {run} holds {len(names)}: give --last {len(names)}, "
            f"or train with --set keep={last}",
        )
    weights, steps = mean(checkpoints, names[-last:])
    with ModelFolder.create(out) as folder:
        for path in sorted(run.iterdir()):
            if path.name in PARTS:
                _copy(path, folder.path / path.name)
            elif path.suffix in {".json", ".txt", ".safetensors"} and path.name not in ABOUT_THE_RUN:
                shutil.copy(path, folder.path / path.name)
        folder.write_tensors({name: tensor.numpy() for name, tensor in weights.items()})
        folder.write_card(card(run, steps))
    values = {"run": str(out), "averaged": str(run), "checkpoints": names[-last:], "steps": steps}
    plural = "s" if last > 1 else ""
    text = (
        f"Averaged {last} checkpoint{plural} of {run}, from step {steps[0]:,} to {steps[-1]:,}.\n"
        f"Saved in {out}. Continue with:\n  {command_name()} evaluate {shlex.quote(str(out))} --split valid"
    )
    return Outcome(values, [text])


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its content; unlike `shutil.copytree`, stop at the first error.

    Folders in which links are not checked are left out: no model is loaded from them.
    """
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_dir() and (path.name in APART or path.name.startswith(".")):
            continue
        if path.is_dir():
            _copy(path, target / path.name)
        else:
            shutil.copy(path, target / path.name)


def mean(checkpoints: Checkpoints, names: list[str]) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of each of the model's weights over these checkpoints, and their steps.

    What is counted and not learned (whole numbers) is taken from the last one.
    """
    sums: dict[str, Tensor] = {}
    weights: dict[str, Tensor] = {}
    steps: list[int] = []
    for name in names:
        checkpoint = checkpoints.latest(name)
        assert checkpoint is not None
        weights = model_weights(checkpoint)
        steps.append(checkpoint.step)
        if sums and shapes(weights) != shapes(sums):
            raise InputError(
                str(checkpoint.path), "belongs to another model than the checkpoints before it; remove it"
            )
        # In float64, so that the mean of equal weights is these very weights.
        sums = {key: sums[key] + value if sums else value.double() for key, value in weights.items()}
    return {
        key: (sums[key] / len(names)).to(value.dtype) if value.is_floating_point() else value
        for key, value in weights.items()
    }, steps


def model_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The model's part of a checkpoint, by the names of the model folder."""
    weights = {
        name.removeprefix(PREFIX): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(PREFIX)
    }
    if not weights:
        raise InputError(str(checkpoint.path), "holds no weights of a model, so there is nothing to average")
    return weights


def shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """What a model's weights must have in common to be averaged."""
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}


def card(run: Path, steps: list[int]) -> str:
    """README.md of the new model folder."""
    listed = ", ".join(f"{step:,}" for step in steps)
    return f"""# The averaged weights of {run.name}

The mean of the weights that the run `{run.name}` had after {listed} updates, made by throughtime.
What the model is and how it was trained is in config.json; its scores have not been measured yet:

    throughtime evaluate FOLDER --split valid
"""
