"""A task: the number of words of a text, learned from texts alone."""

from typing import Annotated, TypedDict

from throughtime.runtime.keywords import Keyword
from throughtime.tasks import Task


class CountOptions(TypedDict, total=False):
    """The options of `count`."""

    times: Annotated[int, Keyword("Factor to multiply the numbers by.", 1, min=1)]


class WordCount(Task):
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
