"""A task: the number of words of a text, learned from texts alone."""

from throughtime.tasks import Task


class WordCount(Task):
    """The declaration: `throughtime train wordcount`."""

    name = "wordcount"
    title = "a word counter"
    summary = "Train a model that counts words."
    examples = ("train wordcount --data my.txt --out runs/words",)
    config = "outside.wordcount.config:WordCountConfig"
    predictor = "outside.wordcount.predictor:WordCounter"
