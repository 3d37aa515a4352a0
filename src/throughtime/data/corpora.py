"""The table of corpora: their files, their sums, how to read them, whose they are; read from corpora.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus: its path inside the corpus's folder, and what its bytes must be.

    `address` is where that very file is published, empty when nowhere. A file published inside an archive is
    written `https://.../archive.zip!member`; an address that ends in `.gz` is unpacked. The sum is of the
    unpacked file.
    """

    path: str
    sha256: str
    size: int
    address: str = ""


@dataclass(frozen=True)
class Part:
    """One way to open a corpus.

    `name` is what follows the slash (`tok` in `multi30k/tok`), empty for the default. `splits` maps a split
    to the files that one reader takes together; `{source}` and `{target}` stand for the two languages chosen
    among `languages`. A part with the single split `all` is cut into 90, 5 and 5 % on opening.
    """

    kind: str
    reader: str
    splits: Mapping[str, tuple[str, ...]]
    name: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    layout: str = "lines"
    tokens: str = "unicode"
    normaliser: str = "none"
    languages: tuple[str, ...] = ()

    def paths(self, split: str, source: str = "", target: str = "") -> tuple[str, ...]:
        """The files of one split, inside the corpus's folder.

        >>> part = Part("pairs", "moses", {"train": ("train.{source}", "train.{target}")})
        >>> part.paths("train", "en", "de")
        ('train.en', 'train.de')
        """
        return tuple(path.format(source=source, target=target) for path in self.splits[split])


@dataclass(frozen=True)
class Corpus:
    """A corpus by its folder's name; `preparation` says how to make the files that have no address."""

    name: str
    title: str
    description: str
    licence: str
    citation: str
    home: str
    parts: tuple[Part, ...]
    files: tuple[CorpusFile, ...] = ()
    preparation: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What `open_dataset` accepts for it.

        >>> CORPORA["multi30k"].names
        ('multi30k', 'multi30k/tok')
        """
        return tuple(f"{self.name}/{part.name}" if part.name else self.name for part in self.parts)


def _corpus(name: str, entry: dict[str, Any]) -> Corpus:
    parts = [
        Part(**{**part, "splits": {split: tuple(paths) for split, paths in part["splits"].items()}})
        for part in entry.pop("parts")
    ]
    parts = [replace(part, languages=tuple(part.languages)) for part in parts]
    files = tuple(CorpusFile(**file) for file in entry.pop("files", ()))
    return Corpus(name=name, parts=tuple(parts), files=files, **entry)


CORPORA: dict[str, Corpus] = {
    name: _corpus(name, entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""All corpora, by name."""
