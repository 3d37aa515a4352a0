"""The tasks that models are trained for. A new task is a folder with a declaration, and a line in TASKS.

Other packages add tasks by entry points of the group `throughtime.tasks` that name their declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal

from throughtime.registry import Registry

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Trained = TypeVar("Trained", default=Any)
else:
    from typing import TypeVar

    Trained = TypeVar("Trained")

Options = Mapping[str, tuple[Any, str]]
TEXT_DATA = ("texts", "text", "pairs", "labelled", "tags")
"""The kinds of data that models read as texts."""
COMMON_OPTIONS: dict[str, tuple[Any, str]] = {
    "epochs": (int, "Number of passes over the training data; default: as suits its size."),
    "minutes": (float, "Train for this number of minutes: plan the size of the model and the schedule."),
    "batch_size": (int, "Number of rows in a batch."),
    "lr": (float, "Learning rate; --find-lr suggests one."),
    "cell": (str, "Recurrent cell: {throughtime.cells:CELLS}."),
    "hidden_size": (int, "Number of units in each layer."),
    "num_layers": (int, "Number of layers."),
    "seed": (int, "Seed of all random numbers."),
    "device": (str, "Device to train on: auto, cpu, cuda, cuda:1, ..."),
}


class Task(Generic[Trained]):
    """The declaration of a task, from which `throughtime train`, `export` and `serve` are built.

    `Trained` is the class of its models, for type checkers: `tt.load(path, task=TagTask)` is a `Tagger`.

    Its parts are named as `module:attribute` and imported on first use, so that declaring a task imports
    neither torch nor pydantic.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """What a model of this task is called, such as "a translator"."""
    command: ClassVar[str]
    """The command that uses such a model; by default the name of the task."""
    methods: ClassVar[tuple[str, ...]]
    """The prediction methods of its models; by default `answers`, or the one called like the command."""
    summary: ClassVar[str]
    """What `throughtime train NAME` does, in one sentence."""
    description: ClassVar[str] = ""
    """Further paragraphs of its help."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Example commands, without the leading `throughtime`."""
    data: ClassVar[Literal["texts", "text", "pairs", "labelled", "described", "tags", "series"]] = "texts"
    """What it is trained on: the columns that the command takes follow; with `texts`, it takes none."""
    options: ClassVar[Options] = COMMON_OPTIONS
    """Settings that are options of `throughtime train NAME`: type and help by name; others use `--set`."""
    uses_trainer: ClassVar[bool] = True
    """False for models that are counted, not trained by gradient descent."""
    config: ClassVar[str]
    """The class of its settings, a `TrainingConfig`."""
    predictor: ClassVar[str]
    """The class of its trained models, a `Predictor`."""
    objective: ClassVar[str]
    """The class of its training objectives; the predictor may build them itself in `build_objective`."""
    exporter: ClassVar[str | None] = None
    """A function that takes a trained model and returns the graphs of its export."""
    answers: ClassVar[str | None] = None
    """The method of its models that answers a list of texts. Its command is built from it, and its endpoint,
    unless the task has a route."""
    prediction: ClassVar[Any] = None
    """The keyword options of its predictions: a `TypedDict` whose types have a `Keyword`; None for none."""
    formats: ClassVar[tuple[str, ...]] = ()
    """The formats that its models are exported to by themselves, without graphs."""
    runner: ClassVar[str | None] = None
    """A function that opens an export without torch."""
    route: ClassVar[str | None] = None
    """The module of its HTTP endpoints."""
    vectors: ClassVar[bool] = False
    """Whether its models may read sequences of vectors in place of texts."""
    answer: ClassVar[str] = ""
    """What the answer to a text holds, in a sentence, for the description of the endpoint."""
    requests: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Example bodies of requests, by the paths of its endpoints."""

    def __init_subclass__(cls) -> None:
        """Use the name of the task as its command, and that as its method, unless it declares others."""
        cls.command = getattr(cls, "command", cls.name)
        cls.methods = getattr(cls, "methods", (cls.answers or cls.command,))

    @classmethod
    def part(cls, name: str) -> Any:
        """Import a part, such as "predictor", by the name of its attribute."""
        module, _, attribute = getattr(cls, name).partition(":")
        value = import_module(module)
        return getattr(value, attribute) if attribute else value


TASKS = Registry[type[Task]](
    "task",
    "throughtime.tasks",
    {
        "ngram": "throughtime.tasks.ngram:NgramTask",
        "language": "throughtime.tasks.language:LanguageTask",
        "translate": "throughtime.tasks.translate:TranslateTask",
        "tag": "throughtime.tasks.tag:TagTask",
        "fill": "throughtime.tasks.fill:FillTask",
        "classify": "throughtime.tasks.classify:ClassifyTask",
        "compose": "throughtime.tasks.compose:ComposeTask",
        "forecast": "throughtime.tasks.forecast:ForecastTask",
    },
)


def list_methods() -> dict[str, tuple[str, ...]]:
    """Return the prediction methods of all tasks, with the tasks whose models have each."""
    tasks = TASKS.available()
    names = dict.fromkeys(method for task in tasks.values() for method in task.methods)
    return {method: tuple(name for name, task in tasks.items() if method in task.methods) for method in names}
