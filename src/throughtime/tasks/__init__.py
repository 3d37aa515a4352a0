"""What models can be trained for. A new task is one folder with a declaration, and one line in TASKS.

Other packages add tasks with an entry point of the group `throughtime.tasks` that names their declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Literal

from throughtime.registry import Registry

Options = Mapping[str, tuple[Any, str]]
COMMON_OPTIONS: Options = {
    "epochs": (int, "Number of passes over the training data."),
    "minutes": (float, "Stop after this number of minutes."),
    "batch_size": (int, "Number of rows of one batch."),
    "lr": (float, "Learning rate; --find-lr suggests one."),
    "cell": (str, "Recurrent cell: lstm, gru, rnn, mingru, ...; see `throughtime doctor`."),
    "hidden_size": (int, "Number of units of a layer."),
    "num_layers": (int, "Number of layers."),
    "seed": (int, "Seed of all random numbers."),
    "device": (str, "auto, cpu, cuda, cuda:1, ..."),
}


class Task:
    """The declaration of a task: `throughtime train`, `export`, `serve` and the documentation follow from it.

    Its parts are named as `module:attribute` and imported when they are first used, so that declaring a task
    imports neither torch nor pydantic.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """A model of this task in words, such as "a translator"."""
    command: ClassVar[str]
    """The command that uses such a model; the name of the task unless declared."""
    summary: ClassVar[str]
    """What `throughtime train NAME` does, in one sentence."""
    description: ClassVar[str] = ""
    """Paragraphs of its help."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Commands that show its use, after `throughtime`."""
    data: ClassVar[Literal["texts", "pairs", "series"]] = "texts"
    options: ClassVar[Options] = COMMON_OPTIONS
    """The settings that are options of `throughtime train NAME`: name, type and help; others take --set."""
    uses_trainer: ClassVar[bool] = True
    """False for models that are counted and not trained by gradients."""
    config: ClassVar[str]
    """The type of its settings, a `TrainingConfig`."""
    predictor: ClassVar[str]
    """The class of its trained models, a `Predictor`."""
    exporter: ClassVar[str | None] = None
    """A function from a trained model to the graphs of its export."""
    runner: ClassVar[str | None] = None
    """A function that opens an export without torch."""
    route: ClassVar[str | None] = None
    """The module of its HTTP endpoints."""

    def __init_subclass__(cls) -> None:
        """Let a task that declares no command have one of its own name."""
        cls.command = getattr(cls, "command", cls.name)

    @classmethod
    def part(cls, name: str) -> Any:
        """Import a part by the name of its attribute, such as "predictor"."""
        module, _, attribute = getattr(cls, name).partition(":")
        found = import_module(module)
        return getattr(found, attribute) if attribute else found


TASKS = Registry[type[Task]](
    "task",
    "throughtime.tasks",
    {
        "ngram": "throughtime.tasks.ngram:Ngram",
        "language": "throughtime.tasks.language:Language",
        "translate": "throughtime.tasks.translate:Translate",
        "tag": "throughtime.tasks.tag:Tag",
        "fill": "throughtime.tasks.fill:Fill",
        "classify": "throughtime.tasks.classify:Classify",
        "compose": "throughtime.tasks.compose:Compose",
        "forecast": "throughtime.tasks.forecast:Forecast",
    },
)
