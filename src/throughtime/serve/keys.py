"""The keys of clients: one without a name, and a file of named ones that is read again when it changes."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Iterable
from pathlib import Path

from throughtime.errors import InputError
from throughtime.files import check_plain
from throughtime.serve.observing import LOGGER

ONLY = "api-key"
"""The name of the key that has no other."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
MAX_BYTES = 1_000_000
UNSETTLED = 2.0
"""Seconds after a change in which a second one may leave the time of a file as it is."""


class Keys:
    """Tells whose key a client gave. Keys are kept as digests and never logged; names are.

    A key that is removed from the file stops working with the next request. A file that cannot be read, or is
    broken, leaves the keys as they are; a line in the log says why.
    """

    def __init__(self, only: str | None = None, path: Path | None = None) -> None:
        self._path, self._problem = path, ""
        self._seen: tuple[int, ...] = ()
        self._only = {} if only is None else {ONLY: digest(only.encode())}
        self._named: dict[str, bytes] = {}
        self.required = only is not None or path is not None
        if path is not None:
            self._named = read_keys(path)
            if not self._named:
                raise InputError(str(path), "has no keys; write a name and a key in each line")

    def name_of(self, candidates: Iterable[bytes]) -> str | None:
        """Return the name of the first known key among these; it takes as long for a key that is unknown."""
        self._refresh()
        match = None
        for key in candidates:
            own = digest(key)
            for name, known in (self._only | self._named).items():
                if hmac.compare_digest(own, known) and match is None:
                    match = name
        return match

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            stat = self._path.stat()
            # The change of its permissions counts, too, and an older time that a copy of a file may have.
            signature = (stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if signature != self._seen or time.time() - max(stat.st_ctime, stat.st_mtime) < UNSETTLED:
                self._named, self._problem = read_keys(self._path), ""
                self._seen = signature  # only now: a file that cannot be read is tried again
        except (InputError, OSError) as error:
            sentence = str(error) if isinstance(error, InputError) else f"{self._path}: {error.strerror}"
            if sentence != self._problem:
                LOGGER.warning("%s; the previous keys stay valid", sentence)
            self._problem = sentence


def digest(key: bytes) -> bytes:
    """Return the digest of a key, which is stored instead of it; all have the same length."""
    return hashlib.sha256(key).digest()


def read_keys(path: Path) -> dict[str, bytes]:
    """Read a file of keys: in each line a name, space and the key; `#` starts a line that is ignored."""
    check_plain(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text") from None
    if len(content) > MAX_BYTES:
        raise InputError(str(path), f"is larger than {MAX_BYTES:,} bytes")
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, key = (*line.split(maxsplit=1), "")[:2]
        key = key.strip()
        # What is wrong is never quoted: it may be a key.
        if not NAME.fullmatch(name) or not key:
            problem = "expected a name (letters, digits, dots, underscores, hyphens), a space, and a key"
            raise InputError(str(path), problem, line=number)
        if name in keys or name == ONLY:
            raise InputError(str(path), f"has the name {name} a second time; choose another", line=number)
        if digest(key.encode()) in keys.values():
            problem = f"gives {name} a key that another name has; choose another"
            raise InputError(str(path), problem, line=number)
        keys[name] = digest(key.encode())
    return keys
