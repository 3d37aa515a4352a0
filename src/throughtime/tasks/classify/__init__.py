"""The task `classify`: one label for a whole text."""

from typing import Annotated, TypedDict

from throughtime.runtime.keywords import Keyword
from throughtime.tasks import Task


class ClassifyOptions(TypedDict, total=False):
    """The options of `classify`."""

    k: Annotated[
        int | None, Keyword("Number of most likely labels to return for each text; by default all.", min=1)
    ]


class ClassifyTask(Task):
    """Classification: `throughtime train classify`."""

    name = "classify"
    title = "a classifier"
    summary = "Train a classifier: one label for a whole text."
    description = """
    The data are CSV, TSV, JSON lines or Parquet with `text` and `label` (--text and --label name other
    columns), or tagged sentences that have a label. By default the model is a bidirectional LSTM over words
    with max pooling, mixed with a linear model of the n-grams of words and letters as validation suggests.
    """
    examples = (
        "train classify --data reviews.csv --out runs/reviews",
        "train classify --data mails.jsonl --text body --label folder --out runs/mails",
        "train classify --data snips-slots --set pooling=attention --out runs/intents",
    )
    data = "labelled"
    answers = "classify"
    vectors = True
    prediction = ClassifyOptions
    config = "throughtime.tasks.classify.config:ClassifyConfig"
    predictor = "throughtime.tasks.classify.model:Classifier"
    objective = "throughtime.tasks.classify.training:ClassifyObjective"
    exporter = "throughtime.tasks.classify.network:build_export"
    runner = "throughtime.tasks.classify.runner:ClassifierRunner"
    answer = "The likeliest label of each text, and the probabilities of the others."
    requests = {"/classify": {"q": "play some jazz"}}  # noqa: RUF012
