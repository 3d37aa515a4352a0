"""The task `tag`: a tag for each word, and a label for the sentence if the data have one."""

from typing import Annotated, TypedDict

from throughtime.runtime.keywords import Keyword
from throughtime.tasks import Task


class TagOptions(TypedDict, total=False):
    """The options of `tag`."""

    tokenize: Annotated[
        str, Keyword("How to split a line into words: space, or for raw text unicode, word, ...", "space")
    ]


class TagTask(Task):
    """The declaration of the task: `throughtime train tag`."""

    name = "tag"
    title = "a tagger"
    summary = "Train a tagger: a tag for each word, and a label for the sentence if the data have one."
    description = """
    By default the model is a bidirectional LSTM over words and their letters, with a CRF on top, mixed with a
    CRF over shapes, beginnings, ends and neighbours of words, which is fitted first. Tags that mark chunks
    (B-PER, I-PER, O) are measured by F1, others by accuracy.
    """
    examples = (
        "train tag --data ud-english-ewt --out runs/ewt",
        "train tag --data snips-slots --out runs/snips",
        "train tag --data train.conll --set crf=false --hidden-size 300 --out runs/mine",
        "train tag --data train.conll --set language_models=[runs/left,runs/right] --out runs/with",
    )
    data = "tags"
    answers = "tag"
    vectors = True
    prediction = TagOptions
    config = "throughtime.tasks.tag.config:TagConfig"
    predictor = "throughtime.tasks.tag.model:Tagger"
    objective = "throughtime.tasks.tag.model:TagObjective"
    exporter = "throughtime.tasks.tag.network:build_export"
    runner = "throughtime.tasks.tag.runner:TaggerRunner"
    answer = "The tag of each word, with its probability and the likeliest tags."
    requests = {"/tag": {"q": "The old man the boats ."}}  # noqa: RUF012
