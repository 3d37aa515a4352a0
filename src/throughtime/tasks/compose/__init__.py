"""The task `compose`: a text from a label or from a vector of numbers."""

from throughtime.runtime.keywords import PrefixRules, WritingOptions
from throughtime.tasks import Task


class ComposeOptions(WritingOptions, PrefixRules):
    """The options of `compose`."""


class ComposeTask(Task):
    """The declaration of the task: `throughtime train compose`."""

    name = "compose"
    title = "a model that composes texts from labels or vectors"
    summary = "Train a model that writes texts from a label or a vector of numbers."
    description = """
    The data are CSV, TSV or JSON lines with `text` and `label`, tagged sentences that have a label, or JSON
    lines with `text` and `vector`, a list of numbers. The label or vector gives a language model its first
    state, and is an input at each step.
    """
    examples = (
        "train compose --data reviews.csv --out runs/reviewer",
        "train compose --data snips-slots --set fed=false --out runs/requests",
        "train compose --data weather.jsonl --set tokens=bpe --out runs/reports",
    )
    data = "described"
    answers = "compose"
    prediction = ComposeOptions
    config = "throughtime.tasks.compose.config:ComposeConfig"
    predictor = "throughtime.tasks.compose.model:Composer"
    objective = "throughtime.tasks.compose.training:ComposeObjective"
    exporter = "throughtime.tasks.compose.network:build_export"
    runner = "throughtime.tasks.compose.runner:ComposerRunner"
    route = "throughtime.serve.prediction:router"
    requests = {  # noqa: RUF012
        "/compose": {"label": "LABEL", "num_return_sequences": 3, "temperature": 0.8, "seed": 1}
    }
