"""`throughtime train`: one sub-command a task."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.open_data import SkipBad, opened, tell_skipped
from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.cli.training import judging, pasted
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.ngram.task import NgramConfig, NgramLanguageModel

train_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Train a model and save it.")

Out = Annotated[Path, typer.Option("--out", help="The folder that the model becomes; it must not exist yet.")]
Data = Annotated[
    str, typer.Option("--data", help="A name of `throughtime data list`, a file, or a folder of splits.")
]


@train_app.command("ngram")
@reported
def train_ngram(
    data: Data,
    out: Out,
    order: Annotated[int, typer.Option(help="The longest n-grams counted.", min=1, max=100)] = 3,
    smoothing: Annotated[
        str, typer.Option(help="kneser-ney, laplace, dirichlet or relative-frequency.")
    ] = "kneser-ney",
    strength: Annotated[
        list[float] | None,
        typer.Option(
            help="Pseudo-counts e1, e2, ... of laplace and dirichlet: give the option once per order."
        ),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="char, word, space, unicode, bpe, ...; the data's own by default.")
    ] = None,
    normalise: Annotated[
        str | None, typer.Option(help="none, nfc, lower or letters; for --tokens char.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="lines (each line a sentence) or stream (the lines are one text).")
    ] = None,
    min_freq: Annotated[int, typer.Option(help="Rarer tokens become <unk>.", min=1)] = 1,
    max_size: Annotated[int | None, typer.Option(help="The largest vocabulary.", min=4)] = None,
    split: Annotated[str, typer.Option(help="What to count: train, all, ...")] = "train",
    backward: Annotated[bool, typer.Option("--backward", help="From right to left.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Accept a finished model at --out.")] = False,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Count a language model of any order.

    [bold]Examples[/bold]

      throughtime train ngram --data ptb --order 5 --out runs/ptb-5gram

      throughtime train ngram --data timemachine --tokens char --order 6 --out runs/letters

      throughtime train ngram --data my.txt --smoothing laplace --strength 1 --strength 20 --out runs/mine
    """
    from throughtime.config import build_config
    from throughtime.tasks.ngram.task import NgramConfig, fit, smoothing_of

    config = build_config(
        NgramConfig,
        {
            "data": data,
            "split": split,
            "tokens": tokens,
            "normaliser": normalise,
            "layout": layout,
            "min_freq": min_freq,
            "max_size": max_size,
            "order": order,
            "smoothing": smoothing,
            "strengths": tuple(strength or ()),
            "backward": backward,
        },
        "train ngram",
    )
    smoothing_of(config)
    if finished(config, out, resume):
        return Outcome({"run": str(out), "resumed": True}, [f"{out} is already trained; nothing to do."])
    dataset = opened(data, layout=layout, skip_bad=skip_bad)
    dataset.texts(split)  # refuses data of another kind, and a split that is not there
    began = time.perf_counter()
    say(f"Counting {data} ({split}, layout {layout or dataset.layout}) up to order {order} ...")
    model = fit(config, dataset)
    seconds = time.perf_counter() - began
    valid = "valid" if "valid" in dataset.splits and split == "train" else None
    measured = model.evaluate(dataset, valid).values() if valid else {}
    values = summary(model, seconds, out, measured)
    line = {"split": valid, "data": data, **measured} if valid else {}
    model.save(out, [line] if line else [], card(model, values), skip_bad=skip_bad)
    tell_skipped(dataset)
    for note in model.notes:
        say(note)
    return Outcome(values, shown(values, dataset))


def finished(config: NgramConfig, out: Path, resume: bool) -> bool:
    """Whether there is nothing left to do; refuses to touch a folder that it was not told to go on with."""
    from throughtime.files import check_place
    from throughtime.tasks.ngram.task import check_same

    check_place(out)
    if not out.exists():
        if resume:
            say(f"Nothing saved at {out} yet: starting afresh.")
        return False
    if not resume:
        raise InputError(
            "--out", f"{out} exists already; choose another folder, or give --resume to go on with it"
        )
    check_same(config, out)
    return True


def summary(model: NgramLanguageModel, seconds: float, out: Path, measured: dict[str, Any]) -> dict[str, Any]:
    """What was built, by name."""
    from throughtime.ngram.smoothing import predicted

    counts = model.model.counts
    return {
        "run": str(out),
        "task": "ngram",
        "order": counts.order,
        "smoothing": model.config.smoothing,
        "tokenizer": model.config.tokens,
        "vocabulary": counts.vocabulary_size,
        "tokens": int(predicted(counts).sum()),
        "ngrams": [len(level.keys) for level in counts.levels],
        "seconds": round(seconds, 3),
        "valid_perplexity": measured.get("perplexity"),
    }


def shown(values: dict[str, Any], dataset: Dataset) -> list[Any]:
    """The summary for people."""
    stored = ", ".join(f"{count:,}" for count in values["ngrams"])
    lines = [
        f"Counted {values['tokens']:,} tokens ({values['tokenizer']}) in {values['seconds']:.1f} s; "
        f"vocabulary {values['vocabulary']:,}.",
        f"Stored n-grams of length 1 to {values['order']}: {stored}.",
    ]
    if values["valid_perplexity"] is not None:
        lines.append(f"Validation perplexity {values['valid_perplexity']:.2f}.")
    hints = [*judging(dataset), "generate {run} --seed 1"]
    lines += [f"Saved in {values['run']}. Go on with:", *pasted(hints, values["run"])]
    return ["\n".join(lines)]


def card(model: NgramLanguageModel, values: dict[str, Any]) -> str:
    """README.md of the model folder."""
    config = model.config
    perplexity = values["valid_perplexity"]
    measured = f"{perplexity:.2f} on the validation split" if perplexity is not None else "not measured"
    direction = "right to left" if config.backward else "left to right"
    return f"""# {config.smoothing} {config.order}-gram model of {config.data}

A counted language model, {direction}, made by throughtime.

| | |
|---|---|
| data | {config.data}, split {config.split}, {values["tokens"]:,} tokens |
| tokens | {config.tokens}, vocabulary of {values["vocabulary"]:,} (`{model.framing.codec.hash[:12]}`) |
| text | {"line by line" if config.layout == "lines" else "one stream"} |
| perplexity | {measured} |

    throughtime evaluate FOLDER --split test
    throughtime score FOLDER "dog bites man" "man bites dog"
    throughtime generate FOLDER --seed 1

In Python: `throughtime.load("FOLDER").generate()[0].text`.
"""
