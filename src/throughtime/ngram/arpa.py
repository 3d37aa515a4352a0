r"""ARPA files, the text format in which programs such as SRILM and KenLM exchange n-gram models.

    \data\
    ngram 1=3
    ngram 2=2

    \1-grams:
    -0.60	<unk>
    ...
    \2-grams:
    -0.30	<s> dog
    \end\

A line holds log10 P(w | c), the n-gram c w, and the log10 of the weight of its shorter contexts when it is
itself a context. An n-gram that is not listed backs off: P(w | c) = weight(c) * P(w | c shortened).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np

from throughtime.errors import InputError
from throughtime.files import whole_file
from throughtime.ngram.counts import Floats, Ints, NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Interpolation

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
ZERO = -99.0
"""log10 of an impossible n-gram: ARPA has no infinity, and SRILM writes and reads this number for it."""
_SEPARATOR = re.compile("[\0\t\n\v\f\r ]")


def write_arpa(model: NgramModel, words: Sequence[str | None], path: Path | str) -> list[int]:
    """Write a model; `words` names its ids, None for one that is left out. Returns the number of n-grams.

    The file appears complete or not at all, and the same model always gives the same bytes. A name that ends
    in .gz is packed.
    """
    check_backoff(model.interpolation, model.order)
    _check_words(words)
    levels = model.counts.levels
    names = np.array([word or "" for word in words], dtype=object)
    left_out = np.array([word is None for word in words])
    kept = [~left_out[level.word] for level in levels]
    # KenLM refuses a file without both marks, which models of a stream do not have.
    marks = [mark for mark in (BEGIN, END) if mark not in words]
    sizes = [int(one.sum()) for one in kept]
    sizes[0] += len(marks)
    with _open_text(path) as file:
        file.write("\\data\\\n" + "".join(f"ngram {n}={size}\n" for n, size in enumerate(sizes, start=1)))
        for n, (probability, weight) in enumerate(model.backoff_form(), start=1):
            file.write(f"\n\\{n}-grams:\n")
            if n == 1:
                file.writelines(f"{ZERO:.0f}\t{mark}\n" for mark in marks)
            for part, _ in levels[n - 1].slices():
                nodes = np.arange(part.start, part.stop)[kept[n - 1][part]]
                file.writelines(_format(model.counts, n, nodes, names, probability, weight))
        file.write("\n\\end\\\n")
    return sizes


def check_backoff(interpolation: Interpolation, order: int) -> None:
    """Refuse a smoothing whose probabilities do not follow from the next shorter context."""
    if interpolation.shortened_to_nothing and order > 2:
        raise InputError(
            "format",
            "is 'arpa', whose n-grams back off to the next shorter context, but this model of order "
            f"{order} mixes each with single words; train it with kneser-ney or dirichlet smoothing",
        )


def _check_words(words: Sequence[str | None]) -> None:
    seen: set[str] = set()
    for word in words:
        if word is None:
            continue
        if _SEPARATOR.search(word):
            raise InputError(
                "format", f"is 'arpa', which separates words by spaces, but the model has the token {word!r}"
            )
        if word in seen:
            raise InputError("format", f"is 'arpa', in which two tokens of the model would be {word!r}")
        seen.add(word)


def _format(
    counts: NgramCounts, n: int, nodes: Ints, names: np.ndarray, probability: Floats, weight: Floats | None
) -> Iterator[str]:
    """The lines of some n-grams; a weight of 1, as of contexts that are never continued, is left out."""
    words = np.empty((len(nodes), n), dtype=object)
    above = nodes
    for place in range(n - 1, -1, -1):
        keys = counts.levels[place].keys[above]
        words[:, place] = names[keys % counts.vocabulary_size]
        above = keys // counts.vocabulary_size
    log_probs = _log10(probability[nodes])
    if n == 1:
        log_probs[np.isin(nodes, counts.never)] = ZERO
    weights = np.zeros(len(nodes)) if weight is None else np.nan_to_num(_log10(weight[nodes]))
    for log_prob, ngram, bow in zip(log_probs.tolist(), words.tolist(), weights.tolist(), strict=True):
        rest = "\n" if bow == 0 else f"\t{bow:.8f}\n"
        yield f"{log_prob:.8f}\t{' '.join(ngram)}{rest}"


def _log10(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = np.log10(values)
    found[np.isneginf(found)] = ZERO
    return found


@contextlib.contextmanager
def _open_text(path: Path | str) -> Iterator[IO[str]]:
    """Open a new text file, packed if its name ends in .gz; without the time, so that equal means equal."""
    with whole_file(path, "wb") as file:
        if Path(path).suffix.lower() != ".gz":
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
            yield text
            text.detach()
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            text = io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="\n")
            yield text
            text.detach()
