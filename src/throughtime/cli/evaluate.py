"""`throughtime evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.opening import SkipBad, opened, tell_skipped
from throughtime.cli.output import Debug, Json, Outcome, reported, stderr
from throughtime.errors import InputError, ThroughtimeError

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.models.dynamic import DynamicEvaluation
    from throughtime.models.neural_cache import NeuralCache

Run = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="RUN")]
Device = Annotated[str, typer.Option(help="Where a neural model computes: auto, cpu, cuda, cuda:1.")]


@reported
def evaluate(
    run: Run,
    split: Annotated[str, typer.Option(help="train, valid, test, heldout (valid and test) or all.")] = "test",
    data: Annotated[str | None, typer.Option(help="Other data than the model was trained on.")] = None,
    cache: Annotated[
        int, typer.Option(help="Mix in a neural cache of the last so many tokens; 0 for none.", min=0)
    ] = 0,
    cache_theta: Annotated[
        float | None, typer.Option(help="How much likeness of states counts in the cache.  [default: 0.3]")
    ] = None,
    cache_share: Annotated[
        float | None, typer.Option(help="The cache's part of the probability.  [default: 0.1]")
    ] = None,
    dynamic: Annotated[
        float | None, typer.Option(help="Learn from what was scored, at this rate: dynamic evaluation.")
    ] = None,
    dynamic_decay: Annotated[
        float | None, typer.Option(help="How fast what is learned so is forgotten.  [default: 0.001]")
    ] = None,
    device: Device = "auto",
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Measure a model on a split of its data, or of other data.

    A recurrent model may learn while it reads, by a neural cache, by dynamic evaluation, or by both: each
    token is scored before it is learned from, and the saved model stays as it is. Choose their numbers on
    the validation split.

    [bold]Examples[/bold]

      throughtime evaluate runs/ptb-5gram --split test --json

      throughtime evaluate runs/ptb-5gram --data wikitext-2 --split valid

      throughtime evaluate runs/ptb-lstm --split valid --cache 500 --cache-share 0.1
    """
    from throughtime.tasks import load
    from throughtime.version import __version__

    recalling = _cache(cache, cache_theta, cache_share)
    learning = _dynamic(dynamic, dynamic_decay, recalling)
    model = load(run, device)
    name = data or model.config.data
    dataset = opened(name, layout=model.config.layout, skip_bad=skip_bad)
    measured, how = _measured(model, dataset, split, recalling, learning)
    tell_skipped(dataset)
    codec = model.framing.codec
    signature = "|".join(
        [
            f"data:{name}",
            f"split:{split}",
            f"layout:{model.config.layout}",
            f"tokens:{codec.tokenizer.name}",
            f"vocabulary:{codec.hash[:12]}",
            *how,
            f"version:{__version__}",
        ]
    )
    values = {"run": str(run), "data": name, "split": split, **measured, "signature": signature}
    known = 1 - measured["unknown"] / measured["tokens"]
    text = (
        f"{name}, {split}: perplexity [bold]{measured['perplexity']:.2f}[/bold], "
        f"{measured['bits_per_token']:.3f} bits per token, "
        f"{measured['bits_per_character']:.3f} bits per character\n"
        f"over {measured['tokens']:,} tokens, {known:.1%} of them known to the vocabulary\n"
        f"[dim]{signature}[/dim]"
    )
    return Outcome(values, [text])


def _measured(
    model: Any,
    dataset: Dataset,
    split: str,
    recalling: NeuralCache | None,
    learning: DynamicEvaluation | None,
) -> tuple[dict[str, Any], list[str]]:
    """The figures of a model, and what its signature has to say of how they came about."""
    from throughtime.tasks.recurrent import RecurrentLanguage

    if not isinstance(model, RecurrentLanguage):
        if recalling is not None or learning is not None:
            raise InputError(
                "--dynamic" if recalling is None else "--cache",
                "is for recurrent models; this run is a counted one, evaluate it without",
            )
        return model.evaluate(dataset, split).values(), []
    with learning or contextlib.nullcontext(), _bar(split) as advance:
        found = model.evaluate(dataset, split, reader=learning or recalling, progress=advance).values()
    if learning is not None and not math.isfinite(found["nats"]):
        raise ThroughtimeError("dynamic evaluation went astray: its weights became infinite; lower --dynamic")
    words = [] if recalling is None else [f"cache-{recalling.window}-{recalling.theta:g}-{recalling.share:g}"]
    if learning is not None:
        words.append(f"dynamic-{learning.rate:g}-{learning.decay:g}-{learning.steps}")
    device = model.model.embedding.weight.device.type
    return found, [f"reader:{'+'.join(words) or 'plain'}", f"device:{device}", "precision:float32"]


def _cache(window: int, theta: float | None, share: float | None) -> NeuralCache | None:
    given = {"theta": theta, "share": share}
    chosen = {name: value for name, value in given.items() if value is not None}
    if not window:
        for name in chosen:
            raise InputError(f"--cache-{name}", "goes with --cache, which turns the cache on")
        return None
    from throughtime.models.neural_cache import NeuralCache

    return NeuralCache(window, **chosen)


def _dynamic(rate: float | None, decay: float | None, cache: NeuralCache | None) -> DynamicEvaluation | None:
    if rate is None:
        if decay is not None:
            raise InputError("--dynamic-decay", "goes with --dynamic, which turns the learning on")
        return None
    from throughtime.models.dynamic import DynamicEvaluation

    if decay is None:
        return DynamicEvaluation(rate, cache=cache)
    return DynamicEvaluation(rate, decay, cache=cache)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr for a text of more than one piece; none where nobody looks."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task(title, total=None)

    def advance(done: int, total: int) -> None:
        if done < total:
            bars.start()
        bars.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bars.stop()
