"""Corpora by name: what is known of them, where their files lie, and how to fetch those that are missing."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import itertools
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from throughtime.data.corpora import CORPORA, Corpus, CorpusFile, Part
from throughtime.errors import InputError, ThroughtimeError, unknown
from throughtime.files import cache_folder, sha256_of, whole_file

FOUND, CACHED, FETCHABLE, MISSING = "found", "cache", "fetchable", "missing"

FileProgress = Callable[[CorpusFile, int, int | None], None]
"""Called while a file is fetched, with the bytes so far and in all."""


@dataclass(frozen=True)
class Entry:
    """One name of the catalogue: a corpus and the part of it that the name opens."""

    corpus: Corpus
    part: Part

    @property
    def name(self) -> str:
        """The name that `find` knows it by."""
        return f"{self.corpus.name}/{self.part.name}" if self.part.name else self.corpus.name


def corpus(name: str) -> Corpus:
    """The corpus with this folder's name, or of the folder that `name` lies in.

    >>> corpus("multi30k/tok").title
    'Multi30k'
    """
    folder = name.partition("/")[0]
    if folder not in CORPORA:
        raise unknown("corpus", name, names())
    return CORPORA[folder]


def names() -> list[str]:
    """Every name that `find` accepts, files inside corpora apart."""
    return [name for corpus in CORPORA.values() for name in corpus.names]


def find(name: str) -> Entry:
    """What a data name means: a corpus, a part of it, or one of its files.

    >>> find("ptb").part.tokens, find("series/ETTh1").part.kind, find("ptb/ptb.valid.txt").part.splits
    ('space', 'series', {'all': ('ptb.valid.txt',)})
    """
    found = corpus(name)
    rest = name.partition("/")[2]
    for part in found.parts:
        if part.name == rest or (rest and _lies_in(part, rest)):
            return Entry(found, part)
    for file in found.files:
        if rest in (file.path, str(Path(file.path).with_suffix(""))):
            return Entry(found, _single(found.parts[0], file, rest))
    if not rest:
        raise InputError(name, f"holds several data sets; choose one of {', '.join(found.names)}.")
    raise unknown("corpus", name, names())


def _lies_in(part: Part, folder: str) -> bool:
    paths = [path for paths in part.splits.values() for path in paths]
    return bool(paths) and all(path.startswith(f"{folder}/") for path in paths)


def _single(part: Part, file: CorpusFile, name: str) -> Part:
    """A part of one file, read as the whole corpus is, or as lines where its reader needs several files."""
    alone = replace(part, name=name, splits={"all": (file.path,)})
    if any(len(paths) > 1 for paths in part.splits.values()):
        return replace(alone, kind="text", reader="text", options={}, languages=())
    return alone


def data_folder() -> Path | None:
    """The folder of corpora that the user keeps: `THROUGHTIME_DATA`."""
    folder = os.environ.get("THROUGHTIME_DATA")
    return Path(folder).expanduser() if folder else None


def cached_path(corpus: Corpus, file: CorpusFile) -> Path:
    """Where a fetched file lies."""
    return cache_folder() / "data" / corpus.name / file.path


def locate(corpus: Corpus, file: CorpusFile) -> Path | None:
    """The file in the user's folder, else in the cache, else None."""
    folder = data_folder()
    kept = [] if folder is None else [folder / corpus.name / file.path]
    return next((path for path in [*kept, cached_path(corpus, file)] if path.is_file()), None)


def whereabouts(corpus: Corpus, files: Iterable[CorpusFile]) -> str:
    """Where files lie: all in the user's folder, some in the cache, or some nowhere (fetchable or not).

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
    """Where these files of a corpus lie, fetched first where they are missing."""
    files = {file.path: file for file in corpus.files}
    wanted = [files[path] for path in paths]
    absent = [file for file in wanted if locate(corpus, file) is None]
    if absent:
        if not fetch_missing or not all(file.address for file in absent):
            raise missing(corpus, absent)
        fetch(corpus, absent, progress)
    return [_sized(corpus, file) for file in wanted]


def missing(corpus: Corpus, files: list[CorpusFile]) -> InputError:
    """The sentence for files that are nowhere: which, where to put them, and where they come from."""
    file = next((file for file in files if not file.address), files[0])
    others = f" (and {len(files) - 1} more)" if len(files) > 1 else ""
    place = _place(corpus, file)
    if file.address:
        source = f"run `throughtime data fetch {corpus.name}`, or put it there from {file.address}"
    else:
        source = f"it cannot be fetched; get it from {corpus.home}"
        source += f". {corpus.preparation}" if corpus.preparation else ""
    return InputError(corpus.name, f"{place} is missing{others}; {source}.")


def _place(corpus: Corpus, file: CorpusFile) -> str:
    """Where a person should put the file."""
    return str(Path(data_folder() or "$THROUGHTIME_DATA") / corpus.name / file.path)


def _sized(corpus: Corpus, file: CorpusFile) -> Path:
    """The file's place; another length than the catalogue's means another text under the same name."""
    path = locate(corpus, file)
    if path is None:
        raise missing(corpus, [file])
    if (size := path.stat().st_size) != file.size:
        raise InputError(
            str(path),
            f"has {size:,} bytes where the corpus {corpus.name} has {file.size:,}; "
            f"remove it and run `throughtime data fetch {corpus.name}`, or open your own text by its path.",
        )
    return path


def files_of(name: str) -> list[CorpusFile]:
    """The files behind a data name, in all its languages; a name that holds several data sets means all.

    >>> len(files_of("multi30k/tok")), len(files_of("series")), len(files_of("series/ETTh1"))
    (9, 5, 1)
    """
    owner = corpus(name)
    if name == owner.name and name not in owner.names:
        return list(owner.files)
    part = find(name).part
    pairs = list(itertools.permutations(part.languages, 2)) or [("", "")]
    wanted = {path for split in part.splits for pair in pairs for path in part.paths(split, *pair)}
    return [file for file in owner.files if file.path in wanted]


def unsound(corpus: Corpus, files: Iterable[CorpusFile]) -> list[CorpusFile]:
    """Those files that are not there, or in the cache with a wrong SHA-256.

    A wrong file in the user's own folder is an error: nothing that is fetched would be found behind it.
    """
    found = []
    for file in files:
        path = locate(corpus, file)
        if path is not None and path.stat().st_size == file.size and sha256_of(path) == file.sha256:
            continue
        if path is not None and path != cached_path(corpus, file):
            raise InputError(
                str(path),
                f"has SHA-256 {sha256_of(path)} where {file.sha256} is expected; remove or replace it.",
            )
        found.append(file)
    return found


def fetch(corpus: Corpus, files: Iterable[CorpusFile], progress: FileProgress | None = None) -> list[Path]:
    """Download files of a corpus into the cache, each verified before it takes its name."""
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

    def tell(done: int, total: int | None) -> None:
        if progress is not None:
            progress(file, done, total)

    target = cached_path(corpus, file)
    address, _, member = file.address.partition("!")
    if not address:
        raise missing(corpus, [file])
    try:
        if not member and not address.endswith(".gz"):
            return download(address, target, sha256=file.sha256, progress=tell)
        if address not in archives:
            # One process, one archive: its bytes are not checked, so two must not share a half-written one.
            archives[address] = target.with_name(f".{os.getpid()}-{address.rpartition('/')[2]}")
            download(address, archives[address], progress=tell)
    except UnreachableError as error:
        raise ThroughtimeError(f"{error}, or put the file at {_place(corpus, file)}.") from error
    return _unpack(archives[address], member, target, file)


def _unpack(archive: Path, member: str, target: Path, file: CorpusFile) -> Path:
    """Take a file out of its archive; it appears only with the right SHA-256."""
    from throughtime.data.download import CHUNK, ChecksumError, wrong_sum

    try:
        with contextlib.ExitStack() as stack:
            packed: IO[bytes]
            if member:
                packed = stack.enter_context(stack.enter_context(zipfile.ZipFile(archive)).open(member))
            else:
                packed = cast(IO[bytes], stack.enter_context(gzip.open(archive)))
            digest = hashlib.sha256()
            with whole_file(target, "wb") as output:
                while chunk := packed.read(CHUNK):
                    digest.update(chunk)
                    output.write(chunk)
                if digest.hexdigest() != file.sha256:
                    raise ChecksumError(wrong_sum(file.address, digest.hexdigest(), file.sha256))
    except (OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise ThroughtimeError(f"{file.address}: the archive cannot be unpacked ({error}).") from error
    return target
