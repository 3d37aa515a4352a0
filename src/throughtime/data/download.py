"""Download one file: resumed after an interruption, and verified before it gets its name."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from throughtime.errors import ThroughtimeError
from throughtime.files import sha256_of

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received and, if the server tells it, the total."""

CHUNK = 1 << 16
SCHEMES = ("https",)
MAX_DOWNLOAD_BYTES = 1 << 30
"""The maximum number of bytes of a file whose size is not known."""


class ChecksumError(ThroughtimeError):
    """A complete download has the wrong SHA-256."""


class UnreachableError(ThroughtimeError):
    """The server cannot be found or does not answer."""


def wrong_sum(address: str, actual: str, expected: str) -> str:
    """Return the message for a file with another checksum than the catalogue has."""
    return (
        f"{address}: the file has SHA-256 {actual} where {expected} is expected, so it was removed; "
        "its publisher may have changed it."
    )


def download(
    address: str,
    path: Path,
    *,
    sha256: str | None = None,
    limit: int = MAX_DOWNLOAD_BYTES,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
) -> Path:
    """Download `address` to `path`, which appears only when it is complete and its SHA-256 is right.

    Only https addresses are followed, by redirections too, and more than `limit` bytes are refused. Bytes
    are collected in `path` + `.part`; a later call continues from there if the server supports it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with _lock_part(part):
        if path.exists() and (sha256 is None or sha256_of(path) == sha256):
            return path  # another process fetched it while this one waited
        resumed = part.stat().st_size > 0
        fetch_rest = partial(_fetch_rest, address, part, limit, progress, timeout)
        _fetch(address, part, fetch_rest, attempts, pause)
        if sha256 is not None and sha256_of(part) != sha256 and resumed:
            # The kept bytes may belong to another version than the rest: start again.
            part.write_bytes(b"")
            _fetch(address, part, fetch_rest, attempts, pause)
        if sha256 is not None and (actual := sha256_of(part)) != sha256:
            part.unlink()
            raise ChecksumError(wrong_sum(address, actual, sha256))
        part.replace(path)
    return path


def _fetch(address: str, part: Path, fetch_rest: Callable[[], None], attempts: int, pause: float) -> None:
    """Complete `part`, with several attempts if the connection breaks."""
    for attempt in range(1, attempts + 1):
        try:
            fetch_rest()
            return
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            with error:
                if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    part.write_bytes(b"")  # it is longer than the server's file: another version
                elif error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise ThroughtimeError(f"{address}: {reason}") from error
        except urllib.error.URLError as error:
            reason = f"{address}: cannot be reached ({error.reason}); check that this machine is online"
            if attempt == attempts or isinstance(error.reason, socket.gaierror | ConnectionRefusedError):
                raise UnreachableError(reason) from error
        except (http.client.HTTPException, OSError) as error:
            reason = f"broke off ({str(error) or type(error).__name__}); run again to continue from there"
        if attempt == attempts:
            raise ThroughtimeError(f"{address}: {reason}")
        time.sleep(pause * attempt)


def _fetch_rest(address: str, part: Path, limit: int, progress: Progress | None, timeout: float) -> None:
    """Request the bytes that `part` lacks, and append them."""
    start = part.stat().st_size
    _check_address(address, address)
    request = urllib.request.Request(address, headers={"User-Agent": "throughtime"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.build_opener(_Redirections(address)).open(request, timeout=timeout) as response:
        # Many servers send everything, not only what follows the first `start` bytes.
        sent = str(response.headers.get("Content-Range", ""))
        if response.status != http.HTTPStatus.PARTIAL_CONTENT or not sent.startswith(f"bytes {start}-"):
            part.write_bytes(b"")
            start = 0
        expected: int | None = response.length
        total = None if expected is None else start + expected
        received = 0
        with part.open("ab") as file:
            while chunk := response.read(CHUNK):
                if max(start + received + len(chunk), total or 0) > limit:
                    file.truncate(0)
                    raise ThroughtimeError(
                        f"{address}: the server sends more than the {limit:,} bytes expected, so the file "
                        "was removed; its publisher may have changed it"
                    )
                file.write(chunk)
                received += len(chunk)
                if progress is not None:
                    progress(start + received, total)
    if expected is not None and received < expected:
        raise ConnectionError(f"{start + received} of {total} bytes arrived")


def _check_address(address: str, asked: str) -> None:
    scheme = address.partition(":")[0].lower()
    if scheme not in SCHEMES:
        sent = "" if address == asked else f"; the server redirects to {address}"
        raise ThroughtimeError(f"{asked}: only {' and '.join(SCHEMES)} addresses can be downloaded{sent}")


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Follows redirections only to addresses that are allowed."""

    def __init__(self, asked: str) -> None:
        self._asked = asked

    def redirect_request(self, request: Any, response: Any, *details: Any) -> urllib.request.Request | None:
        """Return the request that follows, or raise an error."""
        try:
            _check_address(details[-1], self._asked)
        except ThroughtimeError:
            response.close()
            raise
        return super().redirect_request(request, response, *details)


@contextlib.contextmanager
def _lock_part(part: Path) -> Iterator[None]:
    """Let one process at a time write `part`: all ranks of a training run need the same file."""
    with part.open("ab") as file:
        with contextlib.suppress(ImportError):  # Windows has no such lock; the checksum protects the result
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have renamed or removed the file while this one waited.
        part.touch()
        try:
            yield
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
