"""Corpora by name: find them, locate their files, and download files that are missing."""

from __future__ import annotations

import hashlib
import itertools
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from throughtime.data.source import open_source
from throughtime.errors import InputError, ThroughtimeError, unknown
from throughtime.files import cache_entry, sha256_of, whole_file, writable_cache


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
class CorpusPart:
    """One way to open a corpus.

    `name` is what follows the slash (`tok` in `multi30k/tok`), empty for the default. `splits` maps a split
    to the files that its reader reads together; `{source}` and `{target}` stand for two of the `languages`.
    A part with the single split `all` is divided into 90, 5 and 5 % when it is opened.
    """

    kind: str
    reader: str
    splits: Mapping[str, tuple[str, ...]]
    name: str = ""
    layout: str = "lines"
    tokens: str = "unicode"
    normaliser: str = "none"
    languages: tuple[str, ...] = ()

    def paths(self, split: str, source: str = "", target: str = "") -> tuple[str, ...]:
        """Return the files of one split, relative to the corpus's folder.

        >>> part = CorpusPart("pairs", "moses", {"train": ("train.{source}", "train.{target}")})
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
    parts: tuple[CorpusPart, ...]
    files: tuple[CorpusFile, ...] = ()
    preparation: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `open_dataset` accepts for it.

        >>> CORPORA["multi30k"].names
        ('multi30k', 'multi30k/tok')
        """
        return tuple(map(self.get_part_name, self.parts))

    def get_part_name(self, part: CorpusPart) -> str:
        """Return the data name of one part."""
        return f"{self.name}/{part.name}" if part.name else self.name


def _corpus(name: str, entry: dict[str, Any]) -> Corpus:
    parts = []
    for part in entry.pop("parts"):
        splits = {split: tuple(paths) for split, paths in part["splits"].items()}
        parts.append(CorpusPart(**{**part, "splits": splits, "languages": tuple(part.get("languages", ()))}))
    files = tuple(CorpusFile(**file) for file in entry.pop("files", ()))
    return Corpus(name=name, parts=tuple(parts), files=files, **entry)


CORPORA: dict[str, Corpus] = {
    name: _corpus(name, entry)
    for name, entry in tomllib.loads(Path(__file__).with_name("corpora.toml").read_text("utf-8")).items()
}
"""All corpora, by name."""

FOUND, CACHED, FETCHABLE, MISSING = "found", "cache", "fetchable", "missing"

FileProgress = Callable[[CorpusFile, int, int | None], None]
"""Called during a download with the file, the bytes received so far and the total."""


class Entry(NamedTuple):
    """What a name in the catalogue stands for: a corpus and the part of it that the name opens."""

    corpus: Corpus
    part: CorpusPart


def corpus(name: str) -> Corpus:
    """Return the corpus that a data name belongs to.

    >>> corpus("multi30k/tok").title
    'Multi30k'
    """
    folder = name.partition("/")[0]
    if folder not in CORPORA:
        raise unknown("corpus", name, names())
    return CORPORA[folder]


def names() -> list[str]:
    """Return every name that `find` accepts, except those of single files."""
    return [name for corpus in CORPORA.values() for name in corpus.names]


def find(name: str) -> Entry:
    """Return what a data name means: a corpus, a part of it, or one of its files.

    >>> find("ptb").part.tokens, find("series/ETTh1").part.kind, find("ptb/ptb.valid.txt").part.splits
    ('space', 'series', {'all': ('ptb.valid.txt',)})
    """
    entry = corpus(name)
    rest = name.partition("/")[2]
    for part in entry.parts:
        paths = [path for paths in part.splits.values() for path in paths]
        inside = bool(rest and paths) and all(path.startswith(f"{rest}/") for path in paths)
        if part.name == rest or inside:
            return Entry(entry, part)
    for file in entry.files:
        if rest in (file.path, str(Path(file.path).with_suffix(""))):
            return Entry(entry, _single(entry.parts[0], file, rest))
    if not rest:
        raise InputError(name, f"holds several data sets; choose one of {', '.join(entry.names)}")
    raise unknown("corpus", name, names())


def _single(part: CorpusPart, file: CorpusFile, name: str) -> CorpusPart:
    """Return a part of one file, read like the corpus, or as lines if its reader needs several files."""
    alone = replace(part, name=name, splits={"all": (file.path,)})
    if any(len(paths) > 1 for paths in part.splits.values()):
        return replace(alone, kind="text", reader="text", languages=())
    return alone


def data_folder() -> Path | None:
    """Return the user's folder of corpora, `THROUGHTIME_DATA`, or None."""
    folder = os.environ.get("THROUGHTIME_DATA")
    return Path(folder).expanduser() if folder else None


def cached_path(corpus: Corpus, file: CorpusFile) -> Path:
    """Return the path of a downloaded file in the cache."""
    return cache_entry(f"data/{corpus.name}/{file.path}")


def locate(corpus: Corpus, file: CorpusFile) -> Path | None:
    """Return the file in the user's folder, else in the cache, else None."""
    folder = data_folder()
    places = [] if folder is None else [folder / corpus.name / file.path]
    return next((path for path in [*places, cached_path(corpus, file)] if path.is_file()), None)


def whereabouts(corpus: Corpus, files: Iterable[CorpusFile]) -> str:
    """Return where files are: all in the user's folder, some in the cache, or some fetchable or missing.

    >>> whereabouts(CORPORA["embedded"], CORPORA["embedded"].files)
    'found'
    """
    places = {file: locate(corpus, file) for file in files}
    absent = [file for file, place in places.items() if place is None]
    if absent:
        return FETCHABLE if all(file.address for file in absent) else MISSING
    return CACHED if any(place == cached_path(corpus, file) for file, place in places.items()) else FOUND


def require(
    corpus: Corpus, paths: Iterable[str], *, fetch_missing: bool = True, progress: FileProgress | None = None
) -> list[Path]:
    """Return the paths of these files of a corpus; missing ones are downloaded first."""
    files = {file.path: file for file in corpus.files}
    entries = [files[path] for path in paths]
    absent = [file for file in entries if locate(corpus, file) is None]
    if absent:
        if not fetch_missing or not all(file.address for file in absent):
            raise missing_error(corpus, absent)
        fetch(corpus, absent, progress)
    return [_check_size(corpus, file) for file in entries]


def missing_error(corpus: Corpus, files: list[CorpusFile]) -> InputError:
    """Return the error for missing files: which, where to put them, and where to get them."""
    file = next((file for file in files if not file.address), files[0])
    others = f" (and {len(files) - 1} more)" if len(files) > 1 else ""
    place = _place(corpus, file)
    if file.address:
        source = f"run `throughtime data fetch {corpus.name}`, or put it there from {file.address}"
    else:
        source = f"it cannot be fetched; get it from {corpus.home}"
        source += f". {corpus.preparation}" if corpus.preparation else ""
    return InputError(corpus.name, f"{place} is missing{others}; {source}")


def _place(corpus: Corpus, file: CorpusFile) -> str:
    """Return the path at which the user should put the file."""
    return str(Path(data_folder() or "$THROUGHTIME_DATA") / corpus.name / file.path)


def _check_size(corpus: Corpus, file: CorpusFile) -> Path:
    """Return the path of the file; raise an error if its size differs from that in the catalogue."""
    path = locate(corpus, file)
    if path is None:
        raise missing_error(corpus, [file])
    if (size := path.stat().st_size) != file.size:
        problem = f"has {size:,} bytes where the corpus {corpus.name} has {file.size:,}; remove it and run "
        problem += f"`throughtime data fetch {corpus.name}`, or open your own text by its path"
        raise InputError(str(path), problem)
    return path


def list_files(name: str) -> list[CorpusFile]:
    """Return the files of a data name, in all languages; a corpus of several data sets has those of all.

    >>> len(list_files("multi30k/tok")), len(list_files("series")), len(list_files("series/ETTh1"))
    (9, 5, 1)
    """
    owner = corpus(name)
    if name == owner.name and name not in owner.names:
        return list(owner.files)
    part = find(name).part
    pairs = list(itertools.permutations(part.languages, 2)) or [("", "")]
    paths_of_part = {path for split in part.splits for pair in pairs for path in part.paths(split, *pair)}
    return [file for file in owner.files if file.path in paths_of_part]


def find_unsound(corpus: Corpus, files: Iterable[CorpusFile]) -> list[CorpusFile]:
    """Return the files that are missing, or in the cache with a wrong SHA-256.

    A wrong file in the user's own folder raises an error, because a download would never be used.
    """
    unsound = []
    for file in files:
        path = locate(corpus, file)
        if path is not None and path.stat().st_size == file.size and sha256_of(path) == file.sha256:
            continue
        if path is not None and path != cached_path(corpus, file):
            problem = f"has SHA-256 {sha256_of(path)} where {file.sha256} is expected; remove or replace it"
            raise InputError(str(path), problem)
        unsound.append(file)
    return unsound


def fetch(corpus: Corpus, files: Iterable[CorpusFile], progress: FileProgress | None = None) -> list[Path]:
    """Download files of a corpus into the cache, each verified before it gets its name."""
    archives: dict[str, Path] = {}
    try:
        return [_fetch_one(corpus, file, archives, progress) for file in files]
    finally:
        for archive in archives.values():
            archive.unlink(missing_ok=True)
            archive.with_name(archive.name + ".part").unlink(missing_ok=True)


def _fetch_one(
    corpus: Corpus, file: CorpusFile, archives: dict[str, Path], progress: FileProgress | None
) -> Path:
    from throughtime.data.download import UnreachableError, download

    advance = None if progress is None else partial(progress, file)
    target = writable_cache() / "data" / corpus.name / file.path
    address, _, member = file.address.partition("!")
    if not address:
        raise missing_error(corpus, [file])
    try:
        if not member and not address.endswith(".gz"):
            return download(address, target, sha256=file.sha256, limit=file.size, progress=advance)
        if address not in archives:
            # The bytes of an archive are not verified, so two processes must not share one.
            archives[address] = target.with_name(f".{os.getpid()}-{address.rpartition('/')[2]}")
            download(address, archives[address], progress=advance)
    except UnreachableError as error:
        raise ThroughtimeError(f"{error}, or put the file at {_place(corpus, file)}") from error
    return _unpack(archives[address], member, target, file)


def _unpack(archive: Path, member: str, target: Path, file: CorpusFile) -> Path:
    """Take a file out of its archive; it appears only with the right SHA-256."""
    from throughtime.data.download import CHUNK, ChecksumError, wrong_sum

    try:
        source = f"{archive}!{member}" if member else archive
        with open_source(source) as packed, whole_file(target, "wb") as output:
            digest = hashlib.sha256()
            while chunk := packed.read(CHUNK):
                digest.update(chunk)
                if output.tell() > file.size:  # neither the digest nor the disk needs the rest
                    break
                output.write(chunk)
            if (checksum := digest.hexdigest()) != file.sha256:
                raise ChecksumError(wrong_sum(file.address, checksum, file.sha256))
    except (OSError, InputError) as error:
        raise ThroughtimeError(f"{file.address}: the archive cannot be unpacked ({error})") from error
    return target
