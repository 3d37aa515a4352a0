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
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np

from throughtime.data.source import read_lines
from throughtime.errors import InputError
from throughtime.files import whole_file
from throughtime.ngram.counts import MISSING, Floats, Ints, NgramCounts, NgramLevel
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Fixed, Interpolation

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
    sizes = [int(kept_nodes.sum()) for kept_nodes in kept]
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
    for position in range(n - 1, -1, -1):
        keys = counts.levels[position].keys[above]
        words[:, position] = names[keys % counts.vocabulary_size]
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
        logs: Floats = np.log10(values)
    logs[np.isneginf(logs)] = ZERO
    return logs


@contextlib.contextmanager
def _open_text(path: Path | str) -> Iterator[IO[str]]:
    """Open a new text file, packed if its name ends in .gz; without the time, so that equal means equal."""
    with whole_file(path, "wb") as file, contextlib.ExitStack() as stack:
        if Path(path).suffix.lower() == ".gz":
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            file = cast(IO[bytes], stack.enter_context(packed))
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        yield text
        text.detach()


MAX_ORDER = 100
LINES_AT_ONCE = 1 << 15
_COUNT = re.compile(r"ngram\s+(\d{1,4})\s*=\s*(\d{1,18})")
_SECTION = re.compile(r"\\(\d{1,4})-grams:")


class ArpaModel(NamedTuple):
    """What an ARPA file holds: words by id, and the model over these ids."""

    words: tuple[str, ...]
    model: NgramModel
    has_lines: bool
    """Whether </s> can come next, so that the model is one of sentences and not of a stream."""


def read_arpa(path: Path | str) -> ArpaModel:
    """Read an ARPA file, plain or packed; an error names the line.

    A file without <unk> gives unknown words the probability 0.
    """
    return _Reader(path).read()


class _Reader:
    """Reads one file, section by section; only n-grams of one length are unsorted at a time."""

    def __init__(self, path: Path | str) -> None:
        self.path, self.number = str(path), 0
        self.lines = read_lines(path)
        self.line: str | None = ""
        self.ids: dict[str, int] = {}
        self.levels: list[NgramLevel] = []

    def read(self) -> ArpaModel:
        """Read the whole file."""
        sizes = self._read_sizes()
        self._read_header(1)
        log_prob, log_weight = self._read_words(sizes[0])
        # Unknown words and the ends of sentences need an id, even if the file does not list them.
        for mark in (UNKNOWN, BEGIN, END):
            if mark not in self.ids:
                self.ids[mark] = len(self.ids)
                log_prob, log_weight = np.append(log_prob, -np.inf), np.append(log_weight, 0.0)
        size = len(self.ids)
        self.levels.append(NgramLevel(np.arange(size), np.zeros(size, np.int64), size))
        log_prob[self.ids[BEGIN]] = -np.inf
        base, shares, back = 10.0**log_prob, [np.empty(0)], [np.empty(0)]
        for n in range(2, len(sizes) + 1):
            self._read_header(n)
            back.append(10.0**log_weight)
            level, log_prob, log_weight = self._read_section(n, sizes[n - 1], last=n == len(sizes))
            self.levels.append(level)
            shares.append(10.0**log_prob)
        if (self.line or "").rstrip() != "\\end\\":
            self._fail("has no \\end\\ after the last n-gram; the file is truncated, or a count is too small")
        has_lines = bool(base[self.ids[END]] > 0)
        never = (self.ids[BEGIN],) if has_lines else tuple(sorted((self.ids[BEGIN], self.ids[END])))
        counts = NgramCounts(tuple(self.levels), size, never)
        fixed = Interpolation(base, tuple(shares), tuple(back), shortened_to_nothing=False, replaces=True)
        return ArpaModel(tuple(self.ids), NgramModel(counts, Fixed(fixed)), has_lines)

    def _advance(self) -> str | None:
        self.number, self.line = next(self.lines, (self.number, None))
        return self.line

    def _skip_blank(self) -> None:
        while self.line is not None and not self.line.strip():
            self._advance()

    def _fail(self, problem: str, line: int | None = None) -> None:
        raise InputError(self.path, problem, line=self.number if line is None else line)

    def _read_sizes(self) -> list[int]:
        """Read the number of n-grams of each length; what stands before \\data\\ is a comment."""
        while (line := self._advance()) is not None and line.strip() != "\\data\\":
            pass
        if line is None:
            raise InputError(self.path, "has no line \\data\\, so it is not an ARPA file")
        sizes: list[int] = []
        while (line := self._advance()) is not None and not line.startswith("\\"):
            if not line.strip():
                continue
            match = _COUNT.fullmatch(line.strip())
            if match is None or int(match[1]) != len(sizes) + 1:
                self._fail(f"is {line.strip()!r}, expected 'ngram {len(sizes) + 1}=' and a number")
            else:
                sizes.append(int(match[2]))
        if not sizes:
            self._fail("has no 'ngram 1=' and a number after \\data\\")
        if len(sizes) > MAX_ORDER:
            self._fail(f"has n-grams of up to {len(sizes)} words, expected at most {MAX_ORDER}")
        return sizes

    def _read_header(self, n: int) -> None:
        self._skip_blank()
        match = _SECTION.fullmatch((self.line or "").strip())
        if match is None or int(match[1]) != n:
            there = "ends" if self.line is None else f"is {self.line.strip()!r}"
            self._fail(f"{there} where \\{n}-grams: should begin")

    def _entries(self, n: int, size: int, last: bool) -> Iterator[tuple[list[str], float, float]]:
        """The words, log10 P and log10 weight of each line of a section."""
        read = 0
        while (line := self._advance()) is not None and line.strip() and not line.startswith("\\"):
            read += 1
            if read > size:
                self._fail(f"is one more {n}-gram than the {size:,} that \\data\\ announces")
            fields = line.replace("\t", " ").split(" ")
            if "" in fields:
                fields = [field for field in fields if field]
            if len(fields) != n + 1 and (last or len(fields) != n + 2):
                weight = "" if last else " and perhaps a backoff weight"
                self._fail(f"has {len(fields)} columns, expected log10 P, {n} words{weight}")
            log_weight = self._number(fields[n + 1], "the backoff weight") if len(fields) > n + 1 else 0.0
            log_prob = self._number(fields[0], "log10 P")
            if log_prob > 0:
                self._fail(f"log10 P is {fields[0]}, above 0, so it belongs to no probability")
            yield fields[1 : n + 1], log_prob, log_weight
        if read < size:
            self._fail(f"ends the {n}-grams after {read:,} of the {size:,} that \\data\\ announces")
        self._skip_blank()

    def _number(self, text: str, what: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = np.nan
        if not number < np.inf:  # also where it is not a number
            self._fail(f"{what} is {text!r}, expected a number")
        return -np.inf if number == ZERO else number

    def _read_words(self, size: int) -> tuple[Floats, Floats]:
        log_probs, log_weights = [], []
        for [word], log_prob, log_weight in self._entries(1, size, last=False):
            word = UNKNOWN if word == "<UNK>" else word
            if word in self.ids:
                self._fail(f"the word {word!r} is listed twice")
            self.ids[word] = len(self.ids)
            log_probs.append(log_prob)
            log_weights.append(log_weight)
        return np.array(log_probs, np.float64), np.array(log_weights, np.float64)

    def _read_section(self, n: int, size: int, last: bool) -> tuple[NgramLevel, Floats, Floats]:
        """Read n-grams of one length, sorted by key: log10 P, and the log10 of their weights as contexts."""
        first, entries = self.number + 1, self._entries(n, size, last)
        keys, log_prob, log_weight = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
        while batch := list(itertools.islice(entries, LINES_AT_ONCE)):
            words, log_probs, log_weights = zip(*batch, strict=True)
            keys.append(self._find_keys(words, n, first + sum(map(len, keys))))
            log_prob.append(np.array(log_probs))
            log_weight.append(np.array(log_weights) if not last else np.empty(0))
        merged = np.concatenate(keys)
        order = np.argsort(merged, kind="stable")
        merged = merged[order]
        if len(twice := np.flatnonzero(merged[1:] == merged[:-1])):
            self._fail("lists an n-gram for the second time", first + int(order[twice + 1].min()))
        level = NgramLevel(merged, np.zeros(len(merged), np.int64), len(self.ids))
        weights = np.concatenate(log_weight)
        return level, np.concatenate(log_prob)[order], weights if last else weights[order]

    def _find_keys(self, words: Sequence[list[str]], n: int, first: int) -> Ints:
        """The keys of n-grams, the first of which is in the line `first`."""
        ids = np.array([[self.ids.get(word, MISSING) for word in ngram] for ngram in words])
        for line, position in zip(*np.nonzero(ids == MISSING), strict=True):
            word = words[line][position]
            if word == "<UNK>":
                ids[line, position] = self.ids[UNKNOWN]
            else:
                self._fail(f"has the word {word!r}, which is not among the 1-grams", first + int(line))
        node = ids[:, 0]
        for position, level in enumerate(self.levels[1 : n - 1], start=1):
            node = level.find(node, ids[:, position])
        if len(lost := np.flatnonzero(node == MISSING)):
            context = " ".join(words[lost[0]][:-1])
            self._fail(
                f"has the context {context!r}, which is not among the {n - 1}-grams", first + int(lost[0])
            )
        keys: Ints = node * len(self.ids) + ids[:, -1]
        return keys
