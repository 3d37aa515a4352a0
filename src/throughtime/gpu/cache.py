"""The cache of compiled kernels, which all processes of a user share."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable

from throughtime.errors import InputError
from throughtime.files import cache_entry, whole_file, writable_cache

_DIGEST_SIZE = hashlib.sha256().digest_size


def load_or_build(key: str, build: Callable[[], bytes]) -> bytes:
    """Return the bytes stored under `key`; without them call `build` and store its result.

    Any number of processes may do this at once. Each writes a temporary file and renames it, so the file of a
    key is always a whole one. It begins with the checksum of its content: a file that is truncated or damaged
    is built again.
    """
    name = f"kernels/{key}.kernel"
    try:
        stored = cache_entry(name).read_bytes()
    except OSError:
        stored = b""
    digest, content = stored[:_DIGEST_SIZE], stored[_DIGEST_SIZE:]
    if content and hashlib.sha256(content).digest() == digest:
        return content
    content = build()
    with contextlib.suppress(OSError, InputError), whole_file(writable_cache() / name, "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
    return content
