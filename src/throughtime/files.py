"""Files that appear complete or not at all, and where caches are kept."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import glob
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from throughtime.errors import InputError, ThroughtimeWarning

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

FULL = {errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas
"""Error numbers of a disk that has no room for what is written, or fails."""
_REPLACED: dict[
    Path, Path
] = {}  # cache folders that cannot be written to, and what this process uses instead
UNPACKED = "THROUGHTIME_MAX_UNPACKED"
SMALL, RATIO = 1 << 28, 100
MAX_LINE_BYTES = 1 << 27
"""Maximum number of bytes in a line of a file; text8 is one line of 100 million."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
TOO_MUCH = "is nested too deeply, or holds a number with too many digits"
"""The problem of a file that the JSON parser gives up on, although it may be well-formed."""

PAGE = Path(__file__).with_name("page")
"""The files of the page on which a person sees inside a model; `serve` and `export` use them."""


def cache_folder() -> Path:
    """The folder for what was downloaded or computed: `THROUGHTIME_CACHE`, or the platform's cache folder."""
    try:
        if folder := os.environ.get("THROUGHTIME_CACHE"):
            return Path(folder).expanduser()
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home, as in some containers
        base = Path(os.devnull)
    return base / "throughtime"


def cache_entry(name: str) -> Path:
    """Return the path at which the cache has an entry, or would have it."""
    folder = cache_folder()
    entry = folder / name
    return _REPLACED[folder] / name if folder in _REPLACED and not entry.exists() else entry


def writable_cache() -> Path:
    """Return the cache folder or, if that cannot be written to, a temporary one until this process ends."""
    folder = cache_folder()
    if folder not in _REPLACED and not _is_writable(folder):
        _REPLACED[folder] = Path(tempfile.mkdtemp(prefix="throughtime-"))
        atexit.register(shutil.rmtree, _REPLACED[folder], ignore_errors=True)
        problem = f"{folder}: cannot be written to, so that nothing is kept there for the next time"
        warnings.warn(f"{problem}; set THROUGHTIME_CACHE to another folder", ThroughtimeWarning, stacklevel=2)
    return _REPLACED.get(folder, folder)


@functools.cache
def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_exists(path: Path | str) -> bool:
    """Return whether this path exists; False for a text that cannot be a path, such as a long sentence.

    >>> path_exists("."), path_exists("a sentence " * 100), path_exists("\\0")
    (True, False, False)
    """
    try:
        return Path(path).exists()
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False


def has_content(path: Path) -> bool:
    """Return whether there is anything at this path; an empty folder counts as nothing."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def check_plain(path: Path | str) -> None:
    """Raise an error if there is anything but a plain file at `path`; a pipe or a device may never end."""
    if path_exists(path) and not Path(path).is_file():
        kind = "folder, expected a file" if Path(path).is_dir() else "pipe or a device, expected a plain file"
        raise InputError(str(path), f"is a {kind}")


def check_new(path: Path | str) -> None:
    """Raise an error if a folder cannot be written at `path`; call it before long work."""
    check_place(path)
    if has_content(Path(path)):
        raise InputError(str(path), "exists already; choose another folder or remove it")


def check_place(path: Path | str) -> None:
    """Raise an error if `path` would lie inside a file; call it before long work."""
    for above in Path(path).parents:
        if above.exists() and not above.is_dir():
            raise InputError(str(above), "is a file, expected a folder")


def check_file(path: Path | str) -> None:
    """Raise an error if no file can be written at `path`; call it before long work."""
    check_place(path)
    if Path(path).is_dir():
        raise InputError(str(path), "is a folder; name a file to write")


class _UnpackedFile(io.RawIOBase):
    """What a packed file holds, up to a limit: more is refused, as a small file can unpack to terabytes."""

    def __init__(self, file: IO[bytes], path: Path, limit: int) -> None:
        self._file, self._path, self._limit, self._left = file, path, limit, limit

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes."""
        chunk = self._file.read(len(buffer))
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._path, self._limit)
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _too_large(path: Path, limit: int) -> InputError:
    problem = f"unpacks to more than {limit:,} bytes; if you trust it, set {UNPACKED} to a larger"
    return InputError(str(path), f"{problem} number of bytes")


def limit_unpacked(file: IO[bytes], path: Path, claim: int = 0) -> IO[bytes]:
    """Return an unpacked file that is refused past `RATIO` times the size of the packed file at `path`.

    Below `SMALL` bytes nothing is refused; `THROUGHTIME_MAX_UNPACKED` sets another limit, in bytes. A file
    that claims to have more bytes is refused before any of them is unpacked.
    """
    value = os.environ.get(UNPACKED)
    if value and not value.isdecimal():
        raise InputError(UNPACKED, f"is {value!r}, expected a number of bytes")
    limit = int(value) if value else max(SMALL, RATIO * path.stat().st_size)
    if claim > limit:
        raise _too_large(path, limit)
    return io.BufferedReader(_UnpackedFile(file, path, limit), 1 << 18)


@contextlib.contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Make errors of writing name `path`: a full disk names no file, and users do not know temporary names.

    >>> with name_in_errors(Path("poem.txt")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'poem.txt'
    """
    try:
        yield
    except OSError as error:
        parts = Path(os.fsdecode(error.filename)).parts if isinstance(error.filename, str | bytes) else ()
        temporary = any(name.startswith(f".{path.name}.") and name.endswith(".part") for name in parts)
        if not temporary and error.errno not in FULL:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_json(path: Path, cure: str) -> Any:
    """Return what a JSON file holds; `cure` says in an error what to do about a bad file."""
    check_plain(path)
    try:
        return parse_json(path.read_text(encoding="utf-8"), object_pairs_hook=_build_object)
    except (UnicodeDecodeError, json.JSONDecodeError, _UnusableError) as error:
        raise InputError(str(path), f"is not valid JSON ({error}); {cure}") from None
    except (ValueError, RecursionError):
        raise InputError(str(path), f"{TOO_MUCH}; {cure}") from None


def parse_json(text: str, **how: Any) -> Any:
    r"""Return what a JSON text holds; half a surrogate pair is refused, as no output can be written with it.

    >>> parse_json('"\\ud83d\\ude00"')
    '😀'
    >>> parse_json('"\\ud83d"')
    Traceback (most recent call last):
    throughtime.files._UnusableError: it has half a surrogate pair
    """
    values = json.loads(text, **how)
    if _SURROGATE.search(text):
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise _UnusableError("it has half a surrogate pair") from None
    return values


class _UnusableError(ValueError):
    """JSON whose values cannot be used: a key twice in an object, or text that is not valid Unicode."""


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _UnusableError(f"the key {counts.most_common(1)[0][0]!r} occurs twice")
    return values


@contextlib.contextmanager
def whole_file(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file next to `path` for writing; it gets that name only if the block succeeds.

    If `path` is a link, its target is replaced; a device such as /dev/null is written to directly.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "poem.txt"
    >>> try:
    ...     with whole_file(target) as file:
    ...         _ = file.write("half a li")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     target.exists()
    False
    """
    path = Path(path)
    check_file(path)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    if path.exists() and not path.is_file():
        with name_in_errors(path), path.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        return
    if path.is_symlink():
        path = path.resolve()
    with name_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        try:
            with _in_use(temporary):
                with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                temporary.chmod(0o666 & ~_umask())
                temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def sweep_parts(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files and folders that killed processes left in `folder`, or those of one `name`.

    What a living process still writes is locked, and stays; Windows has no such locks, so all stays there.
    """
    if fcntl is None:
        return
    for part in folder.glob(f".{'*' if name is None else glob.escape(name)}.*.part"):
        with contextlib.suppress(OSError):  # being written, or gone meanwhile
            handle = os.open(part, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(part) if part.is_dir() else part.unlink()
            finally:
                os.close(handle)


@contextlib.contextmanager
def _in_use(part: Path) -> Iterator[None]:
    """Keep `sweep_parts` from removing a temporary file or folder, until the block or the process ends."""
    if fcntl is None:
        yield
        return
    handle = os.open(part, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def whole_folder(path: Path | str) -> Iterator[Path]:
    """Yield a temporary folder next to `path` to fill; it gets that name only if the block succeeds."""
    path = Path(path)
    check_place(path)
    with name_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            with _in_use(temporary):
                yield temporary
                temporary.chmod(0o777 & ~_umask())
                temporary.rename(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
