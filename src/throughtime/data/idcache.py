"""The ids of a corpus in a cache on disk: it is encoded once, and may be larger than memory."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from throughtime.data.source import file_of
from throughtime.errors import InputError
from throughtime.files import cache_entry, sha256_of, sweep_parts, whole_folder, writable_cache

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.text.codec import Codec

# Increase when the format of the files changes, so that older caches are ignored.
VERSION = 1
# Number of characters to encode at a time.
CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class TokenIds:
    """All ids of a split as one memory-mapped array; text i is `ids[starts[i]:starts[i + 1]]`."""

    ids: npt.NDArray[Any]  # [N], uint16 where the vocabulary fits, else int32
    starts: npt.NDArray[np.int64]  # [texts + 1]
    folder: Path

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.ids)

    def text(self, number: int) -> npt.NDArray[Any]:
        """Return the ids of one text; a corpus with layout `stream` is one text."""
        return self.ids[self.starts[number] : self.starts[number + 1]]


def token_ids(
    dataset: Dataset,
    split: str,
    codec: Codec,
    *,
    eos: bool,
    side: str | None = None,
    cache: Path | None = None,
) -> TokenIds:
    """Return the ids of a split: encoded on the first call, mapped from the cache on later calls.

    An entry of the cache depends on the content of the files and on the codec, so a changed file or
    vocabulary gets a new entry. `eos` ends each text (with layout `stream`, the one text) with the end token.
    """
    name = f"ids/{_key(dataset, split, codec, eos, side)}"
    if (entry := _open(cache_entry(name) if cache is None else cache / name)) is not None:
        return entry
    folder = (cache or writable_cache()) / name
    shutil.rmtree(folder, ignore_errors=True)  # in case it is damaged
    sweep_parts(folder.parent)
    try:
        with whole_folder(folder) as temporary:
            _build(temporary, dataset, split, codec, eos, side)
    except OSError:
        # The rename fails if another process has finished the same entry first; its result is used then.
        if _open(folder) is None:
            raise
    built = _open(folder)
    if built is None:
        problem = "was changed by another program while it was written; run the command again"
        raise InputError(str(folder), problem)
    return built


def _open(folder: Path) -> TokenIds | None:
    """Return the entry in this folder, or None if there is none that is complete."""
    try:
        header = json.loads((folder / "header.json").read_text("utf-8"))
        ids = _map_file(folder / "ids.bin", np.dtype(header["dtype"]), header["tokens"])
        starts = _map_file(folder / "starts.bin", np.dtype(np.int64), header["texts"] + 1)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return TokenIds(ids, starts, folder)


def _map_file(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path} has another length than its header says")
    return np.memmap(path, dtype, mode="r") if count else np.zeros(0, dtype)


def _build(folder: Path, dataset: Dataset, split: str, codec: Codec, eos: bool, side: str | None) -> None:
    dtype = np.dtype(np.uint16 if len(codec.vocabulary) <= 1 << 16 else np.int32)
    end = codec.vocabulary.eos_id if eos else None
    if eos and end is None:
        raise InputError("vocabulary", "has no end token (<eos> or [SEP]); reserve one when building it")
    one_text = dataset.layout == "stream"
    tokens = texts = 0
    with (folder / "ids.bin").open("wb") as ids_file, (folder / "starts.bin").open("wb") as starts_file:
        starts_file.write(np.zeros(1, np.int64).tobytes())
        for chunk in _chunks(dataset.texts(split, side)):
            ids, ends = _encode_texts(chunk, codec, None if one_text else end)
            ids_file.write(ids.astype(dtype).tobytes())
            if not one_text:
                starts_file.write((ends + tokens).tobytes())
                texts += len(ends)
            tokens += len(ids)
        if one_text:
            if end is not None:
                ids_file.write(np.array([end], dtype).tobytes())
                tokens += 1
            starts_file.write(np.array([tokens], np.int64).tobytes())
            texts = 1
    header = {"version": VERSION, "dtype": dtype.name, "tokens": tokens, "texts": texts, "data": dataset.name}
    (folder / "header.json").write_text(json.dumps(header | {"split": split, "codec": codec.hash}), "utf-8")


def _chunks(texts: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    block: list[str] = []
    length = 0
    for text in texts:
        block.append(text)
        length += len(text)
        if length >= size:
            yield block
            block, length = [], 0
    if block:
        yield block


def _encode_texts(
    texts: list[str], codec: Codec, end: int | None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the ids of some texts, concatenated, and the end of each; one look-up serves all texts."""
    tokenized = [codec.tokenizer.tokenize(text) for text in texts]
    ends = np.cumsum([len(tokens) for tokens in tokenized], dtype=np.int64)
    ids = np.asarray(codec.vocabulary.encode_array(list(itertools.chain.from_iterable(tokenized))), np.int32)
    if end is None:
        return ids, ends
    return np.insert(ids, ends, end).astype(np.int32), ends + np.arange(1, len(ends) + 1)


def _key(dataset: Dataset, split: str, codec: Codec, eos: bool, side: str | None) -> str:
    places = [(path, file_of(path)) for path in dataset.files(split)]
    # Members of one archive differ by their names alone.
    content = [_sum(file) + str(path).removeprefix(str(file)) for path, file in places]
    content = content or [_sum_of_texts(dataset, split)]
    parts = [VERSION, content, dataset.signature, split, side, eos, codec.hash]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _sum_of_texts(dataset: Dataset, split: str) -> str:
    digest = hashlib.sha256()
    for text in dataset.texts(split):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def _sum(path: Path) -> str:
    """Return the SHA-256 of a file, computed once as long as its size and modification time stay the same."""
    state = path.stat()
    return _sum_of_state(path.resolve(), state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _sum_of_state(path: Path, size: int, changed: int) -> str:
    return sha256_of(path)
