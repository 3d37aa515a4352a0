"""`throughtime evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.opening import SkipBad, opened, tell_skipped
from throughtime.cli.output import Debug, Json, Outcome, reported

Run = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="RUN")]


@reported
def evaluate(
    run: Run,
    split: Annotated[str, typer.Option(help="train, valid, test, heldout (valid and test) or all.")] = "test",
    data: Annotated[str | None, typer.Option(help="Other data than the model was trained on.")] = None,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Measure a model on a split of its data, or of other data.

    [bold]Examples[/bold]

      throughtime evaluate runs/ptb-5gram --split test --json

      throughtime evaluate runs/ptb-5gram --data wikitext-2 --split valid
    """
    from throughtime.tasks import load
    from throughtime.version import __version__

    model = load(run)
    name = data or model.config.data
    dataset = opened(name, layout=model.config.layout, skip_bad=skip_bad)
    measured = model.evaluate(dataset, split).values()
    tell_skipped(dataset)
    codec = model.framing.codec
    signature = "|".join(
        [
            f"data:{name}",
            f"split:{split}",
            f"layout:{model.config.layout}",
            f"tokens:{codec.tokenizer.name}",
            f"vocabulary:{codec.hash[:12]}",
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
