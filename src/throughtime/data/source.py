"""Read text files line by line, plain or packed, in UTF-8; errors name the line."""

from __future__ import annotations

import contextlib
import difflib
import errno
import gzip
import io
import lzma
import re
import struct
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from throughtime.data.decoding import split_lines
from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.files import MAX_LINE_BYTES, check_plain, limit_unpacked, path_exists
from throughtime.text.texts import format_count

BLOCK = 1 << 18
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PACKED_SUFFIXES = frozenset({".gz", ".xz", ".zip"})

_PACKING_ERRORS = (gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
_DAMAGE = (*_PACKING_ERRORS, EOFError, OverflowError, struct.error)


@dataclass(frozen=True)
class MemoryFile:
    """Python objects in place of a file: records (or their errors), or the rows of a table with a header."""

    items: Sequence[Any]
    name: str = "data"
    dated: bool = False  # a table whose dates are not text, so that it needs no date format

    def __str__(self) -> str:
        """Its name in errors."""
        return self.name


Place = Path | MemoryFile
"""What a reader reads."""


@contextlib.contextmanager
def naming_items(file: Place) -> Iterator[None]:
    """Make errors of rows that come from Python objects name the item, not the line."""
    try:
        yield
    except InputError as error:
        if not isinstance(file, MemoryFile) or error.where != file.name or error.line is None:
            raise
        item = file.name if error.line == 1 else f"{file.name}, item {error.line - 1}"
        named = InputError(item, error.problem)
        named.skippable = error.skippable
        raise named from None


Record = TypeVar("Record")


class BadRecords:
    """What to do with records that cannot be read: raise an error for the first, or skip and count all.

    Skipped records are counted by reason: the problem up to the first comma, colon or semicolon.

    >>> bad = BadRecords(skip=True)
    >>> bad.handle(InputError("pairs.tsv", "has one column, expected two", line=4))
    >>> bad.count, dict(bad.reasons)
    (1, {'has one column': 1})
    >>> bad.report()
    'skipped 1 bad record of pairs.tsv: line 4 has one column, expected two'
    """

    kept = 5

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        self.count = 0
        self.reasons: Counter[str] = Counter()
        self.examples: list[InputError] = []

    def handle(self, error: InputError) -> None:
        """Raise the error, or count it if bad records are skipped."""
        if not self.skip:
            error.skippable = True
            raise error
        self.count += 1
        self.reasons[re.split(r"[,:;]", error.problem or error.where, maxsplit=1)[0]] += 1
        if len(self.examples) < self.kept:
            self.examples.append(error)

    def keep(self, records: Iterable[Record | InputError]) -> Iterator[Record]:
        """Yield the records among these; the errors are handled."""
        for record in records:
            if isinstance(record, InputError):
                self.handle(record)
            else:
                yield record

    def report(self) -> str:
        """Return one sentence: the number of skipped records, and the first few."""
        if not self.count:
            return "skipped no bad records"
        files = list(dict.fromkeys(error.where for error in self.examples))
        shown = [
            f"{'' if len(files) == 1 else error.where + ' '}"
            f"{'' if error.line is None else f'line {error.line} '}{error.problem}"
            for error in self.examples
        ]
        more = [f"and {self.count - len(shown):,} more"] if self.count > len(shown) else []
        skipped = format_count(self.count, "bad record")
        return f"skipped {skipped} of {', '.join(files)}: {'; '.join(shown + more)}"


def read_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    r"""Yield number and text of each line, without its line break; the first bad line raises an error.

    A line ends with ``\n``, ``\r\n`` or ``\r``, and with nothing else. Only one block is held in memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "poem.txt"
    ...     _ = file.write_bytes(b"\xef\xbb\xbfTwo roads\r\ndiverged\rin a yellow wood")
    ...     list(read_lines(file))
    [(1, 'Two roads'), (2, 'diverged'), (3, 'in a yellow wood')]
    """
    for number, line in lines_or_errors(path):
        if isinstance(line, InputError):
            raise line
        yield number, line


def lines_or_errors(path: Path | str, *, drop: bool = False) -> Iterator[tuple[int, str | InputError]]:
    """Like `read_lines`, but yield the error of a bad line, so that a reader can skip its record.

    With `drop`, single control characters in texts are left out, and a warning says how many.
    """
    dropped: list[int] | None = [] if drop else None
    where = str(path)
    number = offset = 0
    with open_source(path) as file:
        for block in _whole_lines(file):
            if block is None:
                problem = f"is longer than {MAX_LINE_BYTES:,} bytes; break it into shorter lines"
                raise InputError(where, problem, line=number + 1)
            if not offset and block.startswith(BYTE_ORDER_MARK):
                block, offset = block[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
                if not block:
                    break
            for line in split_lines(block, where, number, offset, dropped):
                number += 1
                yield number, line
            offset += len(block)
    if not number:
        raise InputError(where, "is empty; give a file with at least one line")
    if dropped:
        many = format_count(len(dropped), "control character")
        warnings.warn(
            f"{where}: dropped {many} from its texts, the first in line {dropped[0]:,}",
            ThroughtimeWarning,
            stacklevel=2,
        )


def good_lines(path: Path | str, bad: BadRecords) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that can be read; the errors of others go to `bad`."""
    for number, line in lines_or_errors(path, drop=True):
        if isinstance(line, InputError):
            bad.handle(line)
        else:
            yield number, line


@contextlib.contextmanager
def open_source(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file as bytes, unpacked if it is gzip, xz or zip (`archive.zip!member` for one of many)."""
    path = Path(path)
    archive, member = _archive_and_member(path)
    if not path_exists(archive):
        raise InputError(str(path), f"no such file;{nearest_file(archive)} check the path")
    check_plain(archive)
    try:
        with contextlib.ExitStack() as stack:
            yield _unpack(stack, stack.enter_context(archive.open("rb")), archive, member)
    except PermissionError:
        raise InputError(str(path), "cannot be read; change its permissions") from None
    except (*_DAMAGE, OSError) as error:
        # Decompressors raise an OSError without a number; positions in a zip may lie before its beginning.
        if not isinstance(error, _DAMAGE) and error.errno not in (None, errno.EINVAL):
            raise
        problem = "is truncated or damaged and cannot be unpacked; fetch it again"
        raise InputError(str(path), problem) from None


def text_suffix(path: Path | str) -> str:
    """Return the suffix of the format, without that of the packing.

    >>> text_suffix("train.tsv.gz"), text_suffix("fra-eng.zip"), text_suffix("fra-eng.zip!fra.txt")
    ('.tsv', '', '.txt')
    """
    return unpacked_name(path).suffix.lower()


def unpacked_name(path: Path | str) -> Path:
    """Return a path without the suffixes of packing."""
    path = Path(path)
    while path.suffix.lower() in PACKED_SUFFIXES:
        path = path.with_suffix("")
    return path


def file_of(path: Path) -> Path:
    """Return the file that holds the content of `path`: itself, or the archive of a member.

    >>> str(file_of(Path("data/fra-eng.zip!fra.txt")))
    'data/fra-eng.zip'
    """
    return _archive_and_member(path)[0]


def _archive_and_member(path: Path) -> tuple[Path, str]:
    """`data/a.zip!b/c.txt` is member `b/c.txt` of `data/a.zip`, unless a file has exactly that name."""
    archive, mark, member = str(path).partition("!")
    if not mark or path_exists(path) or not archive.lower().endswith(".zip"):
        return path, ""
    return Path(archive), member


def _unpack(stack: contextlib.ExitStack, file: io.BufferedReader, archive: Path, member: str) -> IO[bytes]:
    # The content decides, not the suffix: downloads are often unpacked or renamed.
    head = file.peek(6)
    if head.startswith(b"\x1f\x8b"):
        claim = _gzip_size(file)
        return limit_unpacked(cast(IO[bytes], stack.enter_context(gzip.open(file))), archive, claim)
    if head.startswith(b"\xfd7zXZ\x00"):
        return limit_unpacked(stack.enter_context(lzma.open(file)), archive)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        try:
            return _zip_member(stack, stack.enter_context(zipfile.ZipFile(file)), archive, member)
        except UnicodeDecodeError as error:  # of a name in the archive, whose header says that it is UTF-8
            raise zipfile.BadZipFile from error
    if member:
        raise InputError(str(archive), "is not a zip archive, so it has no members; name the file alone")
    return file


def _gzip_size(file: io.BufferedReader) -> int:
    """Return the size that a gzip file claims for its last part, modulo 4 GiB; 0 if it cannot be told."""
    if not file.seekable():
        return 0
    start = file.tell()
    file.seek(max(start, file.seek(0, io.SEEK_END) - 4))
    claim = int.from_bytes(file.read(4), "little")
    file.seek(start)
    return claim


def list_members(path: Path) -> list[str]:
    """Return the names of the files in a zip archive; none if it is not one, or cannot be read."""
    if path.suffix.lower() == ".zip" and path.is_file():
        with contextlib.suppress(*_DAMAGE, OSError, UnicodeDecodeError), zipfile.ZipFile(path) as packed:
            return packed.namelist()
    return []


def _zip_member(
    stack: contextlib.ExitStack, packed: zipfile.ZipFile, archive: Path, member: str
) -> IO[bytes]:
    names = [entry.filename for entry in packed.infolist() if not entry.is_dir()]
    if not names:
        raise InputError(str(archive), "is a zip archive without files")
    if not member and len(names) > 1:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        problem = f"holds {len(names)} files ({shown}); name one, as in '{archive.name}!{names[0]}'"
        raise InputError(str(archive), problem)
    if member and member not in names:
        near = difflib.get_close_matches(member, names, n=1) or names[:1]
        raise InputError(str(archive), f"holds no {member!r}; did you mean {near[0]!r}?")
    try:
        chosen = packed.getinfo(member or names[0])
        return limit_unpacked(stack.enter_context(packed.open(chosen)), archive, chosen.file_size)
    except (RuntimeError, NotImplementedError):
        problem = "is encrypted or packed in an unusual way; unpack it yourself and name the file"
        raise InputError(str(archive), problem) from None


def nearest_file(path: Path) -> str:
    """Return the question whether a file of a similar name beside `path` was meant, if there is one."""
    if not path_exists(path.parent) or not path.parent.is_dir():
        return ""
    near = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    return f" did you mean {near[0]!r}?" if near else ""


def _whole_lines(file: IO[bytes]) -> Iterator[bytes | None]:
    r"""Yield blocks of whole lines, or None if a line is too long; the last gets a ``\n`` if it has none."""
    parts: list[bytes] = []
    held = b""
    while chunk := file.read(BLOCK):
        if len(parts) * BLOCK > MAX_LINE_BYTES:
            yield None
        chunk = held + chunk
        # A \r at the end of a chunk may be the first half of \r\n: keep it for the next chunk.
        held = b"\r" if chunk.endswith(b"\r") else b""
        chunk = chunk.removesuffix(b"\r")
        cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if cut:
            parts.append(chunk[:cut])
            yield b"".join(parts)
            parts = [chunk[cut:]]
        else:
            parts.append(chunk)
    rest = b"".join([*parts, held])
    if rest:
        yield rest if rest == BYTE_ORDER_MARK else rest + b"\n"
