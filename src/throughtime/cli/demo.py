"""`throughtime demo`: a translator from embedded sentences to translations of new ones, in two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.console import command_name
from throughtime.cli.output import Outcome, as_command, build_table, say, suggested_commands
from throughtime.errors import ThroughtimeError

if TYPE_CHECKING:
    from throughtime.results import Translation

SETTINGS: dict[str, Any] = {
    "data": "embedded/en-fr",
    "source": "en",
    "target": "fr",
    "embedding_size": 128,
    "hidden_size": 256,
    "embedding_dropout": 0.1,
    "output_dropout": 0.1,
    "batch_size": 48,
    "lr": 3e-3,
    "epochs": 7,
    "valid_sentences": 200,
    "choose_by": "perplexity",
    "seed": 1,
}
"""Smaller than the defaults: the sentences are short and their words few."""

NEW = (
    "My mother is reading a letter in the garden.",
    "My grandfather hasn't found his watch yet.",
    "Where did your uncle buy that scarf?",
    "It was cold in Paris last week.",
    "David and Marie are eating soup and bread.",
    "My father went to Madrid by train last year.",
)
"""Sentences that are in no part of the embedded pairs, as a test checks."""


@as_command
def demo(out: Path = Path("runs/demo")) -> Outcome:
    """Train a translator on the English-French sentences of this package, evaluate it, and translate with it.

    If the folder already has a trained model, the demo uses it; an interrupted training is continued.

    [bold]Example[/bold]

      throughtime demo --out runs/demo

    Args:
        out: Folder for the model and the figure.
    """
    return run_demo(out, SETTINGS)


def run_demo(out: Path, settings: dict[str, Any]) -> Outcome:
    """Run the demo with these settings."""
    from throughtime.files import check_place
    from throughtime.run import Training
    from throughtime.tasks.base import load

    run, picture = out / "en-fr", out / "attention.png"
    check_place(run)
    training = f"Training a translator on the pairs of {settings['data']}; it takes about two minutes."
    using = f"Using the translator in {run}; remove that folder to train it again."
    say(using if (run / "training.json").exists() else training)
    Training("translate", settings, run, resume=run.exists(), say=say).start()
    model = load(run)
    say("Translating the test sentences, none of which it was trained on ...")
    measured = model.evaluate(split="test").values
    translated = model.translate(NEW, align=True)
    written = [
        {"source": source, "text": translation.text, "score": translation.score}
        for source, translation in zip(NEW, translated, strict=True)
    ]
    plot = draw_attention(translated[0], picture)
    values = {"run": str(run), "data": settings["data"], **measured, "translations": written, "plot": plot}
    return Outcome(values, render(values))


def draw_attention(translation: Translation, path: Path) -> str | None:
    """Draw what the first translation attended to, if matplotlib is installed."""
    from throughtime import plots

    try:
        plots.attention(translation, path=path)
        return str(path)
    except ThroughtimeError as error:
        say(f"No figure: {error}")
        return None


def render(values: dict[str, Any]) -> list[Any]:
    """The summary that the demo prints."""
    from rich.rule import Rule

    rows = [(row["source"], row["text"]) for row in values["translations"]]
    table = build_table("English, never seen in training", "French, as the model writes it", rows=rows)
    drawing = values["plot"]
    picture_note = f"The attention of the first translation is drawn in {drawing}.\n" if drawing else ""
    return [
        Rule("How good it is", align="left"),
        f"BLEU on {values['sentences']:,} held-out pairs: [bold]{values['bleu']:.1f}[/bold] "
        f"(chrF {values['chrf']:.1f}). 100 would mean that all equal their references.\n"
        "All sentences come from one small grammar, so the task is much easier than real text.",
        Rule("New sentences", align="left"),
        table,
        Rule("Go on", align="left"),
        f"{picture_note}The translator is in {values['run']}. Try",
        *suggested_commands(
            [
                'translate {run} "My mother is writing a letter." --num-return-sequences 3 --search diverse',
                "evaluate {run} --split test",
                "serve {run}    # look inside it on a web page",
                "train translate --data YOUR.tsv --source en --target fr --out runs/mine",
            ],
            values["run"],
        ),
        *how_to_activate(),
    ]


def how_to_activate() -> list[str]:
    """How to activate the virtual environment, where the command is in one that is not active."""
    name = command_name()
    script = Path(name).with_name("activate")
    if name == "throughtime" or not script.is_file():
        return []
    return [f"To type `throughtime` alone, activate the environment first: . {script}"]
