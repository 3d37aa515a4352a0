"""Train a translator: an encoder, a decoder, and attention between them."""

from typing import Annotated, Any

from throughtime.runtime.keywords import RULES, SEARCH, Keyword, PrefixRules
from throughtime.tasks import Task

TRANSLATION = "Translation"


class TranslateOptions(PrefixRules, total=False):
    """The options of `translate`; those of a strategy are further keywords."""

    search: Annotated[
        Any, Keyword("Strategy: {throughtime.search.strategies:STRATEGIES}.", "beam", group=SEARCH)
    ]
    num_beams: Annotated[int | None, Keyword("Number of beams; 1 is greedy search.", min=1, group=SEARCH)]
    length_penalty: Annotated[
        float | None, Keyword("Score texts by log P / length^X; 0 prefers short ones.", min=0, group=SEARCH)
    ]
    num_return_sequences: Annotated[int, Keyword("Number of translations to return per text.", 1, min=1)]
    max_length: Annotated[
        int | None,
        Keyword("Maximum number of tokens of a translation; by default it depends on the source.", min=1),
    ]
    min_length: Annotated[int, Keyword("Minimum number of tokens of a translation.", 0, min=0, group=RULES)]
    copy_unknown: Annotated[
        bool, Keyword("For models of whole words: copy unknown words from the source.", False, group=RULES)
    ]
    align: Annotated[bool, Keyword("Return the attention between the words of both texts.", False)]
    shortlist: Annotated[
        int | None,
        Keyword(
            "Candidates per source token; 0: all target tokens. By default 30 on a CPU.",
            min=0,
            group=TRANSLATION,
        ),
    ]


class TranslateTask(Task):
    """The declaration of the task: `throughtime train translate`."""

    name = "translate"
    title = "a translator"
    summary = "Train a translator: an encoder, a decoder, and attention between them."
    description = """
    By default, it is a GRU with attention, with a bidirectional encoder, and reads parts of words. After each
    epoch, BLEU is measured on validation sentences, and three translations are shown.
    """
    examples = (
        "train translate --data pairs.tsv --source en --target fr --out runs/en-fr",
        "train translate --data sentences.tsv --source Deutsch --target English --out runs/mine",
        "train translate --data multi30k/tok --source en --target de --epochs 30 --out runs/en-de",
        "train translate --data embedded/en-fr --set structure=context-and-input --out runs/plain",
        "train translate --show-config > my.yaml",
    )
    methods = ("translate", "score")
    data = "pairs"
    prediction = TranslateOptions
    config = "throughtime.tasks.translate.config:TranslateConfig"
    predictor = "throughtime.tasks.translate.model:Translator"
    objective = "throughtime.tasks.translate.training:prepare_training"
    exporter = "throughtime.tasks.translate.network:build_export"
    runner = "throughtime.tasks.translate.runner:TranslatorRunner"
    route = "throughtime.serve.translation:router"
    requests = {  # noqa: RUF012
        "/translate": {"q": "Where is the station?", "source": "en", "target": "fr", "alternatives": 2},
        "/detect": {"q": "Où est la gare ?"},
    }
