"""A task: the number of words of a text, learned from texts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from throughtime.runtime.keywords import Keyword
from throughtime.tasks import Task

if TYPE_CHECKING:
    from outside.wordcount.predictor import WordCounter  # noqa: F401 - the type of its models


class CountOptions(TypedDict, total=False):
    """The options of `count`."""

    times: Annotated[int, Keyword("Factor to multiply the numbers by.", 1, min=1)]


class WordCount(Task["WordCounter"]):
    """The declaration: `throughtime train wordcount`."""

    name = "wordcount"
    title = "a word counter"
    summary = "Train a model that counts words."
    examples = ("train wordcount --data my.txt --out runs/words",)
    command = "count"
    answers = "count_words"
    prediction = CountOptions
    config = "outside.wordcount.config:WordCountConfig"
    predictor = "outside.wordcount.predictor:WordCounter"
    exporter = "outside.wordcount.runner:build_export"
    runner = "outside.wordcount.runner:CountRunner"
    answer = "About how many words each text has."
    requests = {"/count": {"q": "how many words?", "times": 2}}  # noqa: RUF012
