"""The table of corpora. A new corpus is an entry in one of these files."""

from __future__ import annotations

from throughtime.data.corpora import embedded, pairs, series, tags, text
from throughtime.data.corpora.corpus import Corpus, CorpusFile, Part

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus for table in (text, pairs, tags, series, embedded) for corpus in table.CORPORA
}

__all__ = ["CORPORA", "Corpus", "CorpusFile", "Part"]
