"""The task `fill`: hidden words, predicted from the words on both sides."""

from typing import Annotated, TypedDict

from throughtime.runtime.keywords import Keyword
from throughtime.tasks import COMMON_OPTIONS, Task


class FillOptions(TypedDict, total=False):
    """The options of `fill`."""

    k: Annotated[int, Keyword("Number of fillings to return for each text.", 5, min=1)]
    num_beams: Annotated[
        int, Keyword("Number of partial fillings to keep if there are several blanks.", 10, min=1)
    ]


class FillTask(Task):
    """The declaration of the task: `throughtime train fill`."""

    name = "fill"
    title = "a model that fills blanks"
    summary = "Train a model that fills blanks: recurrent layers read a sentence in both directions."
    description = """
    Each line is a sentence. In every epoch, different words of it are replaced by [MASK], and the model
    learns to predict them from the words before and after. From sentence pairs only one side is read: the
    source, or the target with --set side=target.
    """
    examples = (
        "train fill --data embedded/english --out runs/blanks",
        "train fill --data tatoeba-fra-eng --hidden-size 512 --out runs/tatoeba",
        "train fill --data my.txt --set tokens=bpe --out runs/parts",
        "train fill --show-config > my.yaml",
    )
    data = "pairs"
    options = COMMON_OPTIONS | {"text": (str, "Column of the texts in a table, instead of pairs.")}
    answers = "fill"
    prediction = FillOptions
    config = "throughtime.tasks.fill.config:FillConfig"
    predictor = "throughtime.tasks.fill.model:Filler"
    objective = "throughtime.tasks.fill.training:FillObjective"
    exporter = "throughtime.tasks.fill.network:build_export"
    runner = "throughtime.tasks.fill.runner:FillerRunner"
    answer = "The likeliest words for the blanks of each text, filled in together."
    requests = {"/fill": {"q": "I am ___ hungry.", "k": 3}}  # noqa: RUF012
