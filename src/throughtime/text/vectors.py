"""Word vectors from files of the word2vec, GloVe and fastText kind."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError
from throughtime.text.vocabulary import Vocabulary

Floats = npt.NDArray[np.float32]


def read_vectors(path: Path | str, vocabulary: Vocabulary, seed: int = 0) -> tuple[Floats, int]:
    """One row for each token of the vocabulary, and how many of them the file holds.

    The file has a word and its numbers on each line, with or without a first line "words dimensions"; it may
    be compressed by gzip. A word that the file lacks gets a random row of the same spread as those found;
    the padding's row is zero.
    """
    path = Path(path)
    rows: dict[int, Floats] = {}
    for line, word, numbers in _entries(path):
        if word in vocabulary and vocabulary[word] not in rows:
            rows[vocabulary[word]] = _row(numbers, path, line)
    if not rows:
        raise InputError(
            str(path), "holds none of the vocabulary's words; is it of the same language and case?"
        )
    found = np.stack(list(rows.values()))  # [found, dimensions]
    random = np.random.default_rng(seed)
    shape = (len(vocabulary), found.shape[1])
    matrix: Floats = random.normal(0.0, float(found.std()), shape).astype(np.float32)
    matrix[list(rows)] = found
    if vocabulary.pad_id is not None:
        matrix[vocabulary.pad_id] = 0.0
    return matrix, len(rows)


def _entries(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Each line's number, word and columns of numbers, which are equally many on all lines."""
    dimensions: int | None = None
    for line, text in _lines(path):
        word, *numbers = text.split(" ")
        if line == 1 and len(numbers) == 1 and word.isdecimal() and numbers[0].isdecimal():
            dimensions = int(numbers[0])
            continue
        if dimensions is None:
            dimensions = len(numbers)
        if len(numbers) != dimensions or not numbers:
            problem = f"has {len(numbers)} numbers after the word, expected {dimensions or 'some'}"
            raise InputError(str(path), problem, line=line)
        yield line, word, numbers


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.exists():
        raise InputError(str(path), "does not exist; name a file of word vectors")
    line = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line, text in enumerate(file, start=1):
                # Some writers leave a space at the end of each line.
                yield line, text.decode("utf-8").rstrip(" \r\n")
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", line=line) from None
    except (EOFError, gzip.BadGzipFile):
        raise InputError(str(path), "is not a whole gzip file; fetch it again", line=line + 1) from None


def _row(numbers: list[str], path: Path, line: int) -> Floats:
    try:
        row: Floats = np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError as error:
        raise InputError(str(path), f"{error}; expected numbers after the word", line=line) from None
    if not np.isfinite(row).all():
        raise InputError(str(path), "holds a number that is not finite", line=line)
    return row
