"""What the catalogue knows of a corpus: its files, their sums, how to read them, whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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

        >>> from throughtime.data.corpora import CORPORA
        >>> CORPORA["multi30k"].names
        ('multi30k', 'multi30k/tok')
        """
        return tuple(f"{self.name}/{part.name}" if part.name else self.name for part in self.parts)
