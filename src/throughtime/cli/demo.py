"""`throughtime demo`: something real on embedded data, within a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.errors import ThroughtimeError

if TYPE_CHECKING:
    from throughtime.tasks.ngram import NgramLanguageModel

DATA = "embedded/english"
CONTESTS = (
    ("it is hard to recognize speech", "it is hard to wreck a nice beach"),
    ("dog bites man", "man bites dog"),
    ("I want to eat, grandma", "I want to eat grandma"),
)


@reported
def demo(
    out: Annotated[Path, typer.Option(help="Where the model and the plot go.")] = Path("runs/demo"),
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Count a language model of embedded English, judge it, let it write and rank sentences, plot Zipf's law.

    [bold]Example[/bold]

      throughtime demo --out runs/demo
    """
    from throughtime.data.datasets import open_dataset

    dataset = open_dataset(DATA)
    run, picture = out / "ngram", out / "zipf.png"
    model = _model(run, dataset)
    measured = model.evaluate(dataset, "test").values()
    choices = model.model.counts.predictable
    written = model.generate(strategy=model.strategy(num_return_sequences=6, seed=1), max_new_tokens=30)
    ranked = [_contest(model, pair) for pair in CONTESTS]
    drawn = _picture(dataset, model, picture)
    values = {
        "run": str(run),
        "data": DATA,
        "perplexity": measured["perplexity"],
        "uniform_perplexity": choices,
        "texts": [one.text for one in written],
        "ranking": ranked,
        "plot": str(picture) if drawn else None,
    }
    return Outcome(values, _shown(values, measured))


def _model(run: Path, dataset: Any) -> NgramLanguageModel:
    from throughtime.cli.train import card, summary
    from throughtime.tasks import load
    from throughtime.tasks.ngram import NgramConfig, fit

    if run.exists():
        say(f"Using the model in {run}; remove that folder to count it again.")
        return load(run)  # type: ignore[no-any-return]
    say(f"Counting {DATA}: a Kneser-Ney model of order 5 ...")
    model = fit(NgramConfig(data=DATA, order=5), dataset)
    measured = model.evaluate(dataset, "valid").values()
    values = summary(model, 0.0, run, measured)
    model.save(run, [{"split": "valid", "data": DATA, **measured}], card(model, values))
    return model


def _contest(model: NgramLanguageModel, pair: tuple[str, str]) -> list[dict[str, Any]]:
    scored = sorted(model.score(pair), key=lambda one: -one.total)
    return [{"text": one.text, "log_prob": one.total, "log_prob_per_token": one.per_token} for one in scored]


def _picture(dataset: Any, model: NgramLanguageModel, path: Path) -> bool:
    """Draw Zipf's law, where matplotlib is installed."""
    from throughtime.plots.zipf import zipf_plot
    from throughtime.text.statistics import Running, ngram_counts, zipf_fit

    running = Running.of(model.framing.codec.tokenizer.tokenize(text) for text in dataset.texts("all"))
    counts = {n: ngram_counts(running, n).counts for n in (1, 2, 3)}
    try:
        zipf_plot(counts, {n: zipf_fit(each) for n, each in counts.items()}, path)
    except ThroughtimeError as error:
        say(f"No plot: {error}")
        return False
    return True


def _shown(values: dict[str, Any], measured: dict[str, Any]) -> list[Any]:
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    uniform, perplexity = values["uniform_perplexity"], values["perplexity"]
    judged = (
        f"Perplexity on {measured['tokens']:,} held-out tokens: [bold]{perplexity:.1f}[/bold]. A model that "
        f"knows nothing has {uniform:,}, the size of the vocabulary: this one hesitates between "
        f"{perplexity:.1f} words at each step, not {uniform:,}."
    )
    contests = Table(box=None, padding=(0, 2, 0, 0))
    contests.add_column("likelier")
    contests.add_column("ln P", justify="right")
    contests.add_column("less likely")
    contests.add_column("ln P", justify="right")
    for first, second in values["ranking"]:
        contests.add_row(
            first["text"], f"{first['log_prob']:.1f}", second["text"], f"{second['log_prob']:.1f}"
        )
    seen = f"Zipf's law is drawn in {values['plot']}.\n" if values["plot"] else ""
    return [
        Rule("How good it is", align="left"),
        judged,
        Rule("What it writes", align="left"),
        *(Text(text) for text in values["texts"]),
        Rule("What it finds likelier", align="left"),
        contests,
        Rule("Go on", align="left"),
        f"{seen}The model is in {values['run']}. Try\n"
        f'  throughtime generate {values["run"]} --prompt "my sister" --seed 7\n'
        f"  throughtime evaluate {values['run']} --split test\n"
        "  throughtime train ngram --data YOUR.txt --order 5 --out runs/mine",
    ]
