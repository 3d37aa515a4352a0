"""One interface to every corpus: splits, records, texts."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.data.blocks import blocks
from throughtime.data.records import Line, Observation, Pair
from throughtime.data.source import BadRecords
from throughtime.data.splits import HELDOUT, SPLITS, bounds
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from throughtime.data.readers import Reader, Series

SIDES = ("source", "target")


class Dataset(ABC):
    """Records of one kind, in splits. Nothing is held in memory: every iteration reads the files anew.

    Where the corpus has no splits of its own, `train` is the first 90 % of its records, `valid` the next and
    `test` the last 5 %. `heldout` is valid and test, `all` everything. `bad` counts what the latest iteration
    skipped.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        files: Mapping[str, tuple[Path, ...]],
        *,
        layout: str = "lines",
        tokens: str = "word",
        normaliser: str = "none",
        languages: tuple[str, ...] = (),
        reverse: bool = False,
        skip_bad: bool = False,
    ) -> None:
        self.name, self.kind, self.layout = name, kind, layout
        self.tokens, self.normaliser, self.languages = tokens, normaliser, languages
        self.bad = BadRecords(skip_bad)
        self._files, self._reverse = dict(files), reverse
        self._count: Counter[str] | None = None

    @abstractmethod
    def _stored(self, part: str, bad: BadRecords) -> Iterator[Any]:
        """The records of a split that is stored as such, in the order and direction they are stored in."""

    @abstractmethod
    def _stored_series(self, part: str, bad: BadRecords) -> list[Series]:
        """The series of a split that is stored as such, whole."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that exist, besides `heldout` and `all`."""
        return SPLITS if "all" in self._files else tuple(self._files)

    @property
    def signature(self) -> str:
        """How its files are read: what, besides their content, its records depend on."""
        return f"{self.kind} {self.layout} {' '.join(self.languages)} {self.bad.skip} {self._reverse}"

    def files(self, split: str = "all") -> tuple[Path, ...]:
        """The files that a split is read from; a split cut out of a file counts the whole file."""
        return tuple(path for own in self._own(split) for path in self._files[own])

    def records(self, split: str = "all") -> Iterator[Any]:
        """The records of a split, in the files' order."""
        own = self._own(split)
        self.bad = BadRecords(self.bad.skip)
        if own != ("all",):
            return itertools.chain.from_iterable(self._read(part, self.bad) for part in own)
        if split == "all":
            return self._read("all", self.bad)
        if self.kind == "series":
            return self._cut_along_time(split)
        first, after = bounds(split, self._counts()[""])
        return itertools.islice(self._read("all", self.bad), first, after)

    def texts(self, split: str = "all", side: str | None = None) -> Iterator[str]:
        """The text of a split: a text a record, or, for layout `stream`, blocks of the whole text.

        Pairs and cards give both sides of each record, or the one that `side` names; tagged sentences their
        words with spaces between.
        """
        if side is not None and side not in SIDES:
            raise unknown("side", side, SIDES)
        if side is not None and self.kind not in ("pairs", "cards"):
            raise InputError(self.name, f"holds {self.kind}, which has no {side} side.")
        if self.kind in ("pairs", "cards"):
            pairs = self.pairs(split)
            if side is None:
                return itertools.chain.from_iterable(pairs)
            return (getattr(pair, side) for pair in pairs)
        if self.kind == "tags":
            return (" ".join(record.words) for record in self.records(split))
        if self.kind == "text":
            lines = (record.text for record in self.records(split))
            return blocks(lines) if self.layout == "stream" else lines
        raise InputError(self.name, f"holds {self.kind}, not text.")

    def pairs(self, split: str = "all") -> Iterator[Pair]:
        """Sentences and their translations, of pairs or of cards (English to Mandarin)."""
        if self.kind == "pairs":
            return self.records(split)
        if self.kind == "cards":
            cards = ((card.english, card.mandarin) for card in self.records(split))
            return (Pair(*(sides[::-1] if self._reverse else sides)) for sides in cards)
        raise InputError(self.name, f"holds {self.kind}, not pairs of sentences.")

    def series(self, split: str = "all") -> list[Series]:
        """The series of a split as arrays; a split without files of its own is cut along time."""
        if self.kind != "series":
            raise InputError(self.name, f"holds {self.kind}, not series.")
        own = self._own(split)
        self.bad = BadRecords(self.bad.skip)
        found = [series for part in own for series in self._stored_series(part, self.bad)]
        if own != ("all",):
            return found
        limits = [slice(*bounds(split, len(series.ds))) for series in found]
        return [
            replace(series, ds=series.ds[cut], values=series.values[cut])
            for series, cut in zip(found, limits, strict=True)
        ]

    def _read(self, part: str, bad: BadRecords) -> Iterator[Any]:
        records = self._stored(part, bad)
        if self._reverse and self.kind == "pairs":
            return (Pair(record.target, record.source) for record in records)
        return records

    def _counts(self) -> Counter[str]:
        """How many records the one file has, of each series: cutting it costs reading it once more."""
        if self._count is None:
            records = self._read("all", BadRecords(self.bad.skip))
            self._count = Counter(_group(record) for record in records)
        return self._count

    def _cut_along_time(self, split: str) -> Iterator[Any]:
        limits = {group: bounds(split, count) for group, count in self._counts().items()}
        seen: Counter[str] = Counter()
        for record in self._read("all", self.bad):
            group = _group(record)
            first, after = limits[group]
            if first <= seen[group] < after:
                yield record
            seen[group] += 1

    def _own(self, split: str) -> tuple[str, ...]:
        """The splits with files of their own that make up `split`."""
        if "all" in self._files and split in (*SPLITS, "heldout", "all"):
            return ("all",)
        if split == "all":
            return tuple(self._files)
        own = tuple(part for part in HELDOUT if part in self._files) if split == "heldout" else (split,)
        if not own or own[0] not in self._files:
            heldout = ["heldout"] if set(HELDOUT) & set(self.splits) else []
            known = [*self.splits, *heldout, "all"]
            raise InputError(self.name, f"has no split {split!r}; it has {', '.join(known)}.")
        return own


class FileDataset(Dataset):
    """A data set of files that one reader understands."""

    def __init__(
        self,
        name: str,
        reader: Reader,
        files: Mapping[str, tuple[Path, ...]],
        *,
        layout: str = "lines",
        tokens: str = "word",
        normaliser: str = "none",
        languages: tuple[str, ...] = (),
        reverse: bool = False,
        skip_bad: bool = False,
    ) -> None:
        super().__init__(
            name,
            reader.kind,
            files,
            layout=layout,
            tokens=tokens,
            normaliser=normaliser,
            languages=languages,
            reverse=reverse,
            skip_bad=skip_bad,
        )
        self._reader = reader

    @property
    def signature(self) -> str:
        """How its files are read: the reader and its options too."""
        return f"{super().signature} {self._reader.name} {sorted(vars(self._reader).items())}"

    def _stored(self, part: str, bad: BadRecords) -> Iterator[Any]:
        return iter(self._reader.read(self._files[part], bad))

    def _stored_series(self, part: str, bad: BadRecords) -> list[Series]:
        from throughtime.data.readers.series import SeriesTable, read_series

        table = self._reader if isinstance(self._reader, SeriesTable) else None
        return [series for path in self._files[part] for series in read_series(path, table, bad)]


class EmbeddedDataset(Dataset):
    """A data set that the package makes itself; its files are none."""

    def _stored(self, part: str, bad: BadRecords) -> Iterator[Any]:
        from throughtime.data import embedded

        corpus = self.name.partition("/")[2]
        if self.kind == "pairs":
            return iter(embedded.pairs(corpus, part))
        if self.kind == "series":
            values = embedded.series(corpus)
            return (Observation(corpus, str(time), float(y)) for time, y in enumerate(values, start=1))
        # The two corpora share sentences: each is one text, and belongs to the first split that has it.
        known = {
            pair.source
            for earlier in SPLITS[: SPLITS.index(part)]
            for name in ("en-fr", "en-zh")
            for pair in embedded.pairs(name, earlier)
        }
        sources = (pair.source for name in ("en-fr", "en-zh") for pair in embedded.pairs(name, part))
        return (Line(text) for text in dict.fromkeys(sources) if text not in known)

    def _stored_series(self, part: str, bad: BadRecords) -> list[Series]:
        import numpy as np

        from throughtime.data import embedded
        from throughtime.data.readers import Series

        name = self.name.partition("/")[2]
        values = embedded.series(name)
        return [Series(name, np.arange(1, len(values) + 1), ("y",), values[:, None])]


def _group(record: Any) -> str:
    return record.unique_id if isinstance(record, Observation) else ""
