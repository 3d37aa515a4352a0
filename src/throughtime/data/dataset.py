"""The common interface of all corpora: splits, records, texts."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.data.records import LabelledText, Observation, Pair, blocks
from throughtime.data.source import BadRecords, MemoryFile, Place, file_of, naming_items, unpacked_name
from throughtime.errors import InputError, unknown
from throughtime.files import sha256_of

if TYPE_CHECKING:
    from throughtime.data.memory import MemoryReader
    from throughtime.data.panel import Panel
    from throughtime.data.readers import Reader

SPLITS = ("train", "valid", "test")
HELDOUT = ("valid", "test")
_NAMES = {"train": "train training", "valid": "valid validation val dev", "test": "test"}
ALIASES = {alias: split for split, aliases in _NAMES.items() for alias in aliases.split()}


def bounds(split: str, count: int) -> tuple[int, int]:
    """Return the range of a split as (start, stop): 90, 5 and 5 % of `count` records, without gaps.

    >>> [bounds(split, 100) for split in ("train", "valid", "test", "heldout", "all")]
    [(0, 90), (90, 95), (95, 100), (90, 100), (0, 100)]
    >>> bounds("valid", 7)  # with three records or more, every split has one
    (5, 6)
    """
    share = max(1, (count + 10) // 20) if count > 2 else 0
    valid, test = count - 2 * share, count - share
    return {
        "train": (0, valid),
        "valid": (valid, test),
        "test": (test, count),
        "heldout": (valid, count),
        "all": (0, count),
    }[split]


def hash_text(text: str) -> int:
    """Hash a text to a 64-bit number, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def split_lots(lots: Iterable[int]) -> dict[str, range]:
    """Return the range of hashes that belong to each split: 90, 5 and 5 % of the distinct ones.

    Files of sentence pairs are often sorted by length, so that their last part would hold the longest; and
    all translations of a sentence must be in the same split, else the model would train on test sentences.
    So the hash of its source (see `hash_text`) decides on the split of a pair.

    >>> ranges = split_lots(range(40))
    >>> [len([lot for lot in range(40) if lot in ranges[split]]) for split in SPLITS]
    [36, 2, 2]
    """
    edges = [0, *sorted(set(lots)), 1 << 64]
    parts = {split: bounds(split, len(edges) - 2) for split in (*SPLITS, "heldout")}
    return {
        split: range(edges[first + 1] if first else 0, edges[after + 1])
        for split, (first, after) in parts.items()
    }


def find_split(name: str) -> str | None:
    """Return the split that the name of a file or folder stands for, or None.

    >>> [find_split(name) for name in ("ptb.valid.txt", "dev.en", "test_2016_flickr.de", "readme.txt")]
    ['valid', 'valid', 'test', None]
    """
    pieces = [piece for word in name.lower().split(".") for piece in (word, word.split("_")[0])]
    return next((ALIASES[piece] for piece in pieces if piece in ALIASES), None)


def find_file_language(name: str) -> str | None:
    """Return the language in the last suffix of a file's name; None if that is a format.

    >>> [find_file_language(name) for name in ("train.lc.norm.tok.en", "train.fr.gz", "train.tsv")]
    ['en', 'fr', None]
    """
    from throughtime.data.readers import names_format  # here, as asking it imports all readers

    suffix = unpacked_name(name).suffix[1:]
    return suffix if suffix and not names_format(suffix) else None


def find_opus_sides(names: Iterable[str]) -> tuple[str, ...]:
    """Return the two parallel files of an OPUS download among these files; none if there are no or several.

    >>> find_opus_sides(["README", "Tatoeba.en-fr.fr", "Tatoeba.en-fr.en", "Tatoeba.en-fr.xml"])
    ('Tatoeba.en-fr.en', 'Tatoeba.en-fr.fr')
    """
    present, pairs = set(names), list[tuple[str, ...]]()
    for name in sorted(present):
        corpus, _, language = name.rpartition(".")
        languages = corpus.rpartition(".")[2].split("-")
        sides = tuple(f"{corpus}.{each}" for each in languages)
        if len(sides) == 2 and language == languages[0] and sides[1] in present:
            pairs.append(sides)
    return pairs[0] if len(pairs) == 1 else ()


def folder_splits(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files (or folders) of each split in a folder, by language, which may be empty."""
    splits: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        split = None if path.name.startswith(".") else find_split(path.name)
        if split is None:
            continue
        language = "" if path.is_dir() else find_file_language(path.name) or ""
        files = splits.setdefault(split, {})
        if language in files:
            raise InputError(
                str(folder),
                f"has both {files[language].name} and {path.name} for {split}; move one away or name a file",
            )
        files[language] = path
    if not splits:
        problem = "holds no files named train, valid or test (such as train.tsv); name a file"
        raise InputError(str(folder), problem)
    return {split: splits[split] for split in SPLITS if split in splits}


SIDES = ("source", "target")


@dataclass(eq=False, repr=False)
class Dataset:
    """Records of one kind, in splits. Nothing is held in memory: every iteration reads the files again.

    If the corpus has no splits, the first 90 % of its records are `train`, the next 5 % `valid` and the last
    5 % `test`; sentence pairs and labelled texts are assigned to splits of these sizes by a hash of their
    source or text (see `splits.split_range`). `heldout` is valid and test, `all` is everything. `bad` counts
    what the latest iteration skipped. `tokens` and `normaliser` are the suggested tokenizer and normaliser.
    `columns` are the names of the columns of a table, by what they hold, such as `text` and `label`.
    """

    name: str
    reader: Reader | MemoryReader
    stored: Mapping[str, tuple[Place, ...]]  # the files of each split, or of `all`
    layout: str = "lines"
    tokens: str = "unicode"
    normaliser: str = "none"
    languages: tuple[str, ...] = ()
    reverse: bool = False  # whether pairs are given as (target, source)
    columns: Mapping[str, str] = field(default_factory=dict)
    bad: BadRecords = field(default_factory=BadRecords)
    panel: Panel | None = None  # series that were read already

    def __post_init__(self) -> None:
        """Take the kind of the records from the reader."""
        self.kind = str(self.reader.kind)
        self._sizes: dict[str, int] = {}  # of the parts that were read to their end
        self.series_sizes: dict[str, int] = {}
        """The number of rows of each series, once they were read."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that exist, apart from `heldout` and `all`."""
        return SPLITS if "all" in self.stored else tuple(self.stored)

    def normaliser_for(self, tokens: str) -> str:
        """Return the normaliser suggested for a tokenizer: it applies to characters only."""
        return self.normaliser if tokens == "char" else "none"

    @property
    def signature(self) -> str:
        """How it is read: what its texts depend on apart from the content of its files."""
        reader = f"{self.reader.name} {sorted(vars(self.reader).items())}"
        return f"{reader} {self.layout} {self.bad.skip} {self.reverse}"

    def files(self, split: str = "all") -> tuple[Path, ...]:
        """Return the files that a split is read from; a part of a file counts as the whole file."""
        files: list[Path] = []
        for path in itertools.chain.from_iterable(self.stored[name] for name in self._own(split)):
            if not isinstance(path, MemoryFile):
                # A reader may take a folder, as the reader of slots does.
                files += sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
        return tuple(files)

    def checksums(self) -> list[list[str]]:
        """Return the name and the SHA-256 of each file, in order; data in memory have none."""
        return [[path.name, sha256_of(file_of(path))] for path in self.files()]

    @property
    def tables(self) -> tuple[Place, ...]:
        """The files, or tables in memory, that all splits are read from."""
        return tuple(itertools.chain.from_iterable(self.stored.values()))

    def __repr__(self) -> str:
        """Its name, kind and splits, with their sizes if nothing has to be read for them."""
        facts = [self.kind, *(["-".join(self.languages)] if all(self.languages) and self.languages else [])]
        sizes = {
            split: sum(len(file.items) for file in files if isinstance(file, MemoryFile))
            for split, files in self.stored.items()
        }
        shown = [f"{split} ({sizes[split]:,})" if sizes.get(split) else split for split in self.splits]
        if self.kind != "series" and sizes.get("all"):
            facts[0] = f"{sizes['all']:,} {self.kind}"
        return f"Dataset({self.name!r}: {' '.join(facts)}; {', '.join(shown)})"

    def records(self, split: str = "all") -> Iterator[Any]:
        """Return the records of a split, in the order of the files."""
        parts = self._own(split)
        self.bad = BadRecords(self.bad.skip)
        if parts != ("all",):
            return itertools.chain.from_iterable(self._read(name, self.bad) for name in parts)
        if split == "all":
            return self._read("all", self.bad)
        if self.kind == "series":
            return self._cut_along_time(split)
        if self.kind in ("pairs", "cards", "labelled", "described", "vectors"):
            # The side that comes first in a file decides, so that both directions have the same splits.
            wanted = self._lots[split]
            stored = self._stored_records("all", self.bad)
            return (self._direct(record) for record in stored if hash_text(record[0]) in wanted)
        first, after = bounds(split, self._counts[""])
        return itertools.islice(self._read("all", self.bad), first, after)

    def has_records(self, split: str) -> bool:
        """Whether a split exists and holds a record; a file of two records has none for valid and test."""
        return split in self.splits and next(iter(self.records(split)), None) is not None

    def texts(self, split: str = "all", side: str | None = None) -> Iterator[str]:
        """Return the texts of a split: one per record or, with layout `stream`, blocks of the whole text.

        Pairs and cards give both sides of each record, or only `side`; tagged sentences give their words,
        joined by spaces.
        """
        if side is not None and side not in SIDES:
            raise unknown("side", side, SIDES)
        if side is not None and self.kind not in ("pairs", "cards"):
            raise InputError(self.name, f"holds {self.kind} data, which have no {side} side")
        if self.kind in ("pairs", "cards"):
            sides = SIDES if side is None else (side,)
            return (getattr(pair, side) for pair in self.pairs(split) for side in sides)
        if self.kind == "tags":
            return (" ".join(record.words) for record in self.records(split))
        if self.kind in ("text", "labelled", "described"):
            texts = (record.text for record in self.records(split))
            return blocks(texts) if self.kind == "text" and self.layout == "stream" else texts
        raise InputError(self.name, f"holds {self.kind} data; choose a column of texts with text")

    def pairs(self, split: str = "all") -> Iterator[Pair]:
        """Return the sentence pairs of a split; cards give pairs of English and Mandarin."""
        if self.kind == "pairs":
            return self.records(split)
        if self.kind == "cards":
            cards = ((card.english, card.mandarin) for card in self.records(split))
            return (Pair(*(sides[::-1] if self.reverse else sides)) for sides in cards)
        raise InputError(self.name, f"holds {self.kind} data, not pairs of sentences")

    def labelled_texts(self, split: str = "all") -> Iterator[LabelledText]:
        """Return labelled texts: also from tagged sentences with a label, and from pairs (text, label)."""
        if self.kind == "labelled":
            return self.records(split)
        if self.kind == "pairs":
            return (LabelledText(pair.source, pair.target.strip()) for pair in self.records(split))
        if self.kind == "vectors":
            return (LabelledText(record, record.label) for record in self.records(split))
        if self.kind == "tags":
            return (LabelledText(" ".join(record.words), record.label) for record in self.records(split))
        raise InputError(self.name, f"holds {self.kind} data; give labelled texts: columns text and label")

    @property
    def date_format(self) -> str | None:
        """The format of the dates of series, as in `strptime`; None if it is found by itself."""
        return getattr(self.reader, "date_format", None)

    def read_dates_as(self, date_format: str) -> None:
        """Read the dates of series in this format of `strptime`, such as %d.%m.%Y."""
        from throughtime.data.readers.dates import check_date_format
        from throughtime.data.readers.series import SeriesTable

        if any(isinstance(table, MemoryFile) and table.dated for table in self.tables):
            return
        if not isinstance(self.reader, SeriesTable):
            raise InputError("date_format", f"is for tables of series, not for {self.name}; leave it out")
        self.reader.date_format = check_date_format(date_format)

    def stretch(self, split: str, steps: int) -> slice:
        """Return the part of a series of `steps` values that belongs to a split."""
        return slice(*bounds(split, steps)) if self._own(split) == ("all",) else slice(steps)

    def _stored_records(self, split: str, bad: BadRecords) -> Iterator[Any]:
        """Yield the records of a split that is a key of `stored`, in the direction of the files."""
        number = 0
        with naming_items(self.stored[split][0]):
            for number, record in enumerate(self.reader.read(self.stored[split], bad), start=1):  # noqa: B007
                yield record
        self._sizes[split] = number

    def _read(self, part: str, bad: BadRecords) -> Iterator[Any]:
        return map(self._direct, self._stored_records(part, bad))

    def _direct(self, record: Any) -> Any:
        """Return a stored record in the direction that was asked for."""
        return Pair(record.target, record.source) if self.reverse and self.kind == "pairs" else record

    def count_records(self) -> int:
        """Return the number of records; only what was not yet read to its end is read for that."""
        for split in self.stored.keys() - self._sizes.keys():
            deque(self._stored_records(split, BadRecords(self.bad.skip)), maxlen=0)
        return sum(self._sizes.values())

    @cached_property
    def _lots(self) -> dict[str, range]:
        """The hashes of the records of each split of the one file; this reads the file once more."""
        known = self._stored_records("all", BadRecords(self.bad.skip))
        return split_lots(hash_text(record[0]) for record in known)

    @cached_property
    def _counts(self) -> Counter[str]:
        """The number of records in the one file, per series; this reads the file once more."""
        return Counter(map(_group, self._read("all", BadRecords(self.bad.skip))))

    def _cut_along_time(self, split: str) -> Iterator[Any]:
        limits = {group: range(*bounds(split, count)) for group, count in self._counts.items()}
        seen: Counter[str] = Counter()
        for record in self._read("all", self.bad):
            group = _group(record)
            if seen[group] in limits[group]:
                yield record
            seen[group] += 1

    def _own(self, split: str) -> tuple[str, ...]:
        """Return the stored splits that make up `split`."""
        stored = self.stored
        if "all" in stored and split in (*SPLITS, "heldout", "all"):
            return ("all",)
        if split == "all":
            return tuple(stored)
        parts = tuple(name for name in HELDOUT if name in stored) if split == "heldout" else (split,)
        if not parts or parts[0] not in stored:
            heldout = ["heldout"] if set(HELDOUT) & set(self.splits) else []
            known = [*self.splits, *heldout, "all"]
            raise InputError(self.name, f"has no split {split!r}; it has {', '.join(known)}")
        return parts


def _group(record: Any) -> str:
    return record.unique_id if isinstance(record, Observation) else ""
