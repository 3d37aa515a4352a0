"""The table of corpora, read from corpora.toml: their files, checksums, readers, licences and authors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CorpusFile:
    """One file of a corpus: its path inside the corpus's folder, its checksum and its size.

    `address` is where this file is published, empty if nowhere. A file inside an archive has an address such
    as `https://.../archive.zip!member`; a file whose address ends in `.gz` is unpacked. Checksum and size are
    those of the unpacked file.
    """

    path: str
    sha256: str
    size: int
    address: str = ""


@dataclass(frozen=True)
class Part:
    """One way to open a corpus.

    `name` is what follows the slash (`tok` in `multi30k/tok`), empty for the default. `splits` maps a split
    to the files that its reader reads together; `{source}` and `{target}` stand for two of the `languages`.
    A part with the single split `all` is divided into 90, 5 and 5 % when it is opened.
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
        """Return the files of one split, relative to the corpus's folder.

        >>> part = Part("pairs", "moses", {"train": ("train.{source}", "train.{target}")})
        >>> part.paths("train", "en", "de")
        ('train.en', 'train.de')
        """
        return tuple(path.format(source=source, target=target) for path in self.splits[split])


@dataclass(frozen=True)
class Corpus:
    """A corpus; `name` is also its folder, and `preparation` says how to make files without an address."""

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
        """The names that `open_dataset` accepts for it.

        >>> CORPORA["multi30k"].names
        ('multi30k', 'multi30k/tok')
        """
        return tuple(map(self.name_of, self.parts))

    def name_of(self, part: Part) -> str:
        """Return the data name of one part."""
        return f"{self.name}/{part.name}" if part.name else self.name


def _corpus(name: str, entry: dict[str, Any]) -> Corpus:
    parts = []
    for part in entry.pop("parts"):
        splits = {split: tuple(paths) for split, paths in part["splits"].items()}
        parts.append(Part(**{**part, "splits": splits, "languages": tuple(part.get("languages", ()))}))
    files = tuple(CorpusFile(**file) for file in entry.pop("files", ()))
    return Corpus(name=name, parts=tuple(parts), files=files, **entry)


CORPORA: dict[str, Corpus] = {
    name: _corpus(name, entry)
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""All corpora, by name."""
