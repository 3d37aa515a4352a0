"""The task `ngram`: counted language models."""

from throughtime.tasks import Task
from throughtime.tasks.language import ContinuationOptions, LanguageTask


class NgramTask(Task):
    """The declaration of the task: `throughtime train ngram`."""

    name = "ngram"
    title = "a language model"
    command = "generate"
    methods = ("generate", "stream", "score")
    summary = "Train an n-gram language model of any order, by counting."
    examples = (
        "train ngram --data ptb --order 5 --out runs/ptb-5gram",
        "train ngram --data timemachine --tokens char --order 6 --out runs/letters",
        "train ngram --data large.txt --order 5 --memory 2GB --out runs/large",
        "train ngram --data my.txt --smoothing laplace --strengths 1 --strengths 20 --out runs/mine",
    )
    uses_trainer = False
    exporter = "throughtime.tasks.ngram.export:build_export"
    formats = ("arpa",)
    options = {  # noqa: RUF012 - declared once, never changed
        "order": (int, "Length of the longest n-grams."),
        "minutes": (float, "Choose the order by validation, in at most this number of minutes."),
        "smoothing": (str, "Smoothing: {throughtime.ngram.smoothing:SMOOTHINGS}."),
        "strengths": (
            list[float],
            "Pseudo-count of a smoothing such as laplace; repeat it for each length of n-grams.",
        ),
        "prune": (
            list[int],
            "Leave out n-grams that occur at most this number of times; repeat it for each length. "
            "--prune 0 --prune 0 --prune 1 leaves out those of three or more words that occur once.",
        ),
        "tokens": (str, "Tokenizer: char, word, space, unicode, bpe, ...; by default chosen by the data."),
        "normaliser": (str, "With --tokens char: normaliser of the text: none, nfc, lower or letters."),
        "layout": (str, "Layout: lines (each line is a sentence) or stream (all lines are one text)."),
        "min_freq": (int, "Tokens that occur less often become <unk>."),
        "max_size": (int, "Maximum size of the vocabulary."),
        "split": (str, "Split to count: train, valid, test or all."),
        "memory": (str, "Memory to count in, such as 2GB, with files for the rest; for very large texts."),
        "backward": (bool, "Count from right to left."),
    }
    data = "text"
    prediction = ContinuationOptions
    config = "throughtime.tasks.ngram.config:NgramConfig"
    predictor = "throughtime.tasks.ngram.model:NgramLanguageModel"
    route = "throughtime.serve.completions:router"
    requests = LanguageTask.requests
