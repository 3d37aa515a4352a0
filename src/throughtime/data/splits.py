"""Splits of a corpus: parts of one file, or files in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from throughtime.data.source import unpacked_name
from throughtime.errors import InputError

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


def split_range(split: str, lots: Iterable[int]) -> range:
    """Return the range of hashes that belong to a split: 90, 5 and 5 % of the distinct ones.

    Files of sentence pairs are often sorted by length, so that their last part would hold the longest; and
    all translations of a sentence must be in the same split, else the model would train on test sentences.
    So the hash of its source (see `hash_text`) decides on the split of a pair.

    >>> [len([n for n in range(40) if n in split_range(split, range(40))]) for split in SPLITS]
    [36, 2, 2]
    """
    edges = [0, *sorted(set(lots)), 1 << 64]
    first, after = bounds(split, len(edges) - 2)
    return range(edges[first + 1] if first else 0, edges[after + 1])


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
