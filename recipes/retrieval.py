"""Translation without a translator: the translation of the training sentence that is most like the given one.

Likeness is the cosine of words weighed by how rare they are (tf-idf). A model that has learned no more than
to remember would do as well.
"""

from __future__ import annotations

from typing import Any

from throughtime.config import Config, build_config
from throughtime.data.datasets import open_dataset
from throughtime.tasks.translate.evaluation import SentencePairs, TranslationScorer
from throughtime.version import __version__


class Retrieval(Config):
    """Data, and how translations are judged."""

    data: str
    source: str | None = None
    target: str | None = None
    split: str = "test"
    tokenize: str | None = None


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """BLEU of what is found, and chrF."""
    asked = build_config(Retrieval, settings, "retrieval")
    dataset = open_dataset(asked.data, source=asked.source, target=asked.target)
    known, pairs = SentencePairs.of(dataset, "train"), SentencePairs.of(dataset, asked.split)
    language = asked.target or (dataset.languages or ("", ""))[1]
    scorer = TranslationScorer(language, asked.tokenize)
    scores = scorer.score(nearest(known, pairs.sources), pairs.references)
    words = [f"data:{asked.data}", f"split:{asked.split}", scores.bleu.signature, f"version:{__version__}"]
    return {
        "value": scores.bleu.value,
        "also": {"chrF": scores.chrf.value},
        "signature": "|".join(words),
    }


def nearest(known: SentencePairs, sources: list[str]) -> list[str]:
    """For each source the translation of the known one that is most like it.

    >>> nearest(SentencePairs(["a cat", "the dog"], ["un chat", "le chien"]), ["my dog"])
    ['le chien']
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", sublinear_tf=True)
    table = words.fit_transform(known.sources)
    likeness = words.transform(sources) @ table.T  # sparse: most sentences share few words
    return [known.references[int(row.argmax())] for row in likeness]
