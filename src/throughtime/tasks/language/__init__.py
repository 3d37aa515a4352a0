"""The task `language`: recurrent language models."""

from throughtime.runtime.keywords import WritingOptions, WritingRules
from throughtime.tasks import Task


class ContinuationOptions(WritingOptions, WritingRules):
    """The options of `generate`."""


class LanguageTask(Task):
    """The declaration of the task: `throughtime train language`."""

    name = "language"
    title = "a language model"
    command = "generate"
    methods = ("generate", "stream", "score")
    summary = "Train a recurrent language model: RNN, GRU, LSTM or any other cell."
    examples = (
        "train language --data timemachine --out runs/timemachine",
        "train language --data ptb --config my.yaml --lr 1e-3 --epochs 40 --out runs/ptb",
        "train language --data my.txt --out runs/mine --resume",
        "train language --show-config > my.yaml",
    )
    data = "text"
    prediction = ContinuationOptions
    config = "throughtime.tasks.language.config:LanguageConfig"
    predictor = "throughtime.tasks.language.model:RecurrentLanguage"
    exporter = "throughtime.tasks.language.model:build_export"
    runner = "throughtime.tasks.language.runner:LanguageModelRunner"
    route = "throughtime.serve.completions:router"
    requests = {  # noqa: RUF012
        "/v1/completions": {"model": "MODEL", "prompt": "the", "max_tokens": 40, "seed": 1}
    }
