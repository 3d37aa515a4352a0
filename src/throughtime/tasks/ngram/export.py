"""What other programs read of an n-gram model: its tables, and the names of its tokens in ARPA files.

Level n of the tables holds the n-grams of length n, sorted by their first n - 1 words, the context, and then
by their last word. The continuations of a context are side by side, so their number and their last words are
all that is needed to find them. No graph has to run, so there are no operators. See
`throughtime.ngram.smoothing` for the meaning of `base`, `own` and `back`. In ARPA files, sentences stand
between <s> and </s>.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from throughtime.errors import InputError
from throughtime.ngram.arpa import BEGIN, END, UNKNOWN
from throughtime.text.framing import Framing
from throughtime.text.vocabulary import ROLES, Vocabulary

if TYPE_CHECKING:
    from throughtime.graphs.graph import Array, Graph
    from throughtime.graphs.write import ModelExport
    from throughtime.ngram.model import NgramModel
    from throughtime.tasks.ngram.model import NgramLanguageModel

OWN_NAMES = {BEGIN: "<bos>", END: "<eos>", UNKNOWN: "<unk>"}


def arpa_words(framing: Framing) -> list[str | None]:
    """Return the word for each id; None for marks that never occur in a text, such as padding."""
    vocabulary = framing.codec.vocabulary
    marks = {vocabulary.bos_id: BEGIN, vocabulary.eos_id: END, vocabulary.unk_id: UNKNOWN}
    silent = set(framing.never_predicted) - marks.keys()
    return [None if number in silent else marks.get(number, token) for number, token in enumerate(vocabulary)]


def build_vocabulary(words: Sequence[str], where: str) -> Vocabulary:
    """Return the vocabulary of the words of an ARPA file, whose marks get the names that they have here."""
    taken = {name for names in ROLES.values() for name in names} - OWN_NAMES.keys()
    for word in words:
        if word in taken:
            raise InputError(where, f"has the word {word!r}, which is the name of a mark here; rename it")
    return Vocabulary([OWN_NAMES.get(word, word) for word in words], reserved=OWN_NAMES.values())


def build_export(language: NgramLanguageModel) -> ModelExport:
    """Return the tables of an n-gram model, and the settings and files that are needed to use them."""
    from throughtime.graphs.write import ModelExport

    model, framing = language.model, language.framing
    return ModelExport(
        lambda int8: {"tables": build_tables(model)},
        {
            "begin_id": framing.begin_id,
            "end_id": framing.end_id,
            "backward": framing.backward,
            "order": model.order,
            "never": list(model.counts.never),
            "shortened_to_nothing": model.interpolation.shortened_to_nothing,
            "replaces": model.interpolation.replaces,
            "generation": dict(language.generation),
        },
        framing.codec.save,
        lambda: iter(()),
        language.describe().python,
    )


def build_tables(model: NgramModel) -> Graph:
    """Return a graph without inputs, whose outputs are the tables."""
    from throughtime.graphs.graph import Graph

    graph = Graph("tables")
    for name, array in _list_tables(model):
        graph.output(graph.constant(array, str(array.dtype)), name, str(array.dtype), [len(array)])
    return graph


def _list_tables(model: NgramModel) -> Iterator[tuple[str, Array]]:
    """`base`; for each longer length n: `size_n`, `back_n` of its contexts; `word_n`, `own_n` of its n-grams.

    A context that was never continued has no `back`: it is NaN.
    """
    fitted = model.interpolation
    yield "base", fitted.base.astype(np.float32)
    for n, level in enumerate(model.counts.levels[1:], start=2):
        contexts = len(model.counts.levels[n - 2].keys)
        yield f"size_{n}", np.bincount(level.context, minlength=contexts).astype(np.int32)
        yield f"back_{n}", fitted.back[n - 1].astype(np.float32)
        yield f"word_{n}", level.word.astype(np.int32)
        yield f"own_{n}", fitted.own[n - 1].astype(np.float32)
