"""Vocabularies: the tokens that a model knows, their ids, and their file."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, check_whole
from throughtime.files import whole_file

# The names of the token of each role; the first one that is in a vocabulary has the role.
ROLES: dict[str, tuple[str, ...]] = {
    "unk": ("<unk>", "[UNK]"),
    "pad": ("<pad>", "[PAD]"),
    "bos": ("<bos>", "[CLS]", "<s>", "<|endoftext|>"),
    "eos": ("<eos>", "[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}
_ROLE_NAMES = frozenset(name for names in ROLES.values() for name in names)

# Characters that some programs take for the end of a line or column, or that are not text, are escaped.
_NAMED = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_UNNAMED = {escaped: character for character, escaped in _NAMED.items()}
_TO_ESCAPE = re.compile("[\\\\\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ufeff\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:u[0-9a-f]{4}|.|$)")


class _Ids(dict[str, int]):
    """Maps tokens to ids, and unknown tokens to one id if there is one for them."""

    unknown: int | None = None

    def __missing__(self, token: str) -> int:
        if self.unknown is None:
            raise InputError(f"token {token!r}", "is not in the vocabulary, and the vocabulary has no <unk>")
        return self.unknown


class Vocabulary:
    """Tokens and their ids, which count from 0.

    `reserved` lists tokens that stand for no text, such as `<pad>`. Tokens with usual names, such as `<pad>`
    and `[SEP]`, are recognised.

    >>> vocabulary = Vocabulary.build("to be or not to be".split(), reserved=("<pad>", "<unk>"))
    >>> vocabulary["to"], vocabulary[["be", "is"]], vocabulary.pad_id
    (2, [3, 1], 0)
    """

    unk_id: int | None  # the id of unknown tokens
    pad_id: int | None  # fills a row of a batch
    bos_id: int | None  # begins a sequence
    eos_id: int | None  # ends a sequence
    mask_id: int | None  # hides a token

    def __init__(
        self, tokens: Iterable[str], counts: Mapping[str, int] | None = None, reserved: Iterable[str] = ()
    ) -> None:
        self._tokens = tuple(tokens)
        self._ids = _Ids((token, number) for number, token in enumerate(self._tokens))
        if len(self._ids) != len(self._tokens):
            twice = next(token for token, count in Counter(self._tokens).items() if count > 1)
            raise InputError(f"token {twice!r}", "occurs twice in the vocabulary; list each token once")
        self.counts = None if counts is None else dict(counts)
        if wrong := {*map(type, self._tokens)} - {str}:
            raise InputError("vocabulary", f"has a token of type {wrong.pop().__name__}, expected texts")
        if "" in self._ids:
            raise InputError("vocabulary", "has an empty token; each token needs at least one character")
        self.reserved = frozenset(_ROLE_NAMES | set(reserved)).intersection(self._ids)
        self.unk_id, self.pad_id, self.bos_id, self.eos_id, self.mask_id = (
            next((self._ids[name] for name in names if name in self._ids), None) for names in ROLES.values()
        )
        self._ids.unknown = self.unk_id

    @classmethod
    def build(
        cls,
        tokens: Iterable[str],
        min_freq: int = 1,
        max_size: int | None = None,
        reserved: Sequence[str] = ("<unk>",),
    ) -> Vocabulary:
        """Build the vocabulary of a text that is given as tokens."""
        return cls.from_counts(Counter(tokens), min_freq, max_size, reserved)

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        min_freq: int = 1,
        max_size: int | None = None,
        reserved: Sequence[str] = ("<unk>",),
    ) -> Vocabulary:
        """Build a vocabulary: the reserved tokens, then the others by count, the most frequent first.

        `max_size` includes the reserved tokens.

        >>> list(Vocabulary.from_counts({"a": 1, "b": 2, "c": 1}, max_size=3))
        ['<unk>', 'b', 'a']
        """
        check_whole("min_freq", min_freq)
        if max_size is not None and check_whole("max_size", max_size, 0) < len(reserved):
            raise InputError(
                "max_size", f"is {max_size}, but there are {len(reserved)} reserved tokens; raise it"
            )
        frequent = [token for token, count in counts.items() if count >= min_freq and token not in reserved]
        frequent.sort(key=lambda token: -counts[token])
        room = None if max_size is None else max_size - len(reserved)
        tokens = [*reserved, *frequent[:room]]
        return cls(tokens, {token: counts[token] for token in tokens if token in counts}, reserved)

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self._tokens)

    def __iter__(self) -> Iterator[str]:
        """The tokens in the order of their ids."""
        return iter(self._tokens)

    def __contains__(self, token: object) -> bool:
        """Whether a token has its own id."""
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        """Whether both have the same tokens with the same ids and reserve the same tokens."""
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return (self._tokens, self.reserved) == (other._tokens, other.reserved)

    def __hash__(self) -> int:
        """A number for sets and dictionaries; `hash` is a digest that can be stored."""
        return hash(self._tokens)

    def __repr__(self) -> str:
        """The number of tokens in words."""
        return f"Vocabulary of {len(self):,} tokens"

    @overload  # a str is also an Iterable of str
    def __getitem__(self, tokens: str) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, tokens: Iterable[str]) -> list[int]: ...
    def __getitem__(self, tokens: str | Iterable[str]) -> int | list[int]:
        """Return the id of a token, or the ids of several."""
        if isinstance(tokens, str):
            return self._ids[tokens]
        return list(map(self._ids.__getitem__, tokens))

    def encode_array(self, tokens: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of many tokens as an array."""
        return np.fromiter(map(self._ids.__getitem__, tokens), dtype=np.int32, count=len(tokens))

    def token(self, number: int) -> str:
        """Return the token of an id."""
        if not 0 <= number < len(self._tokens):
            raise InputError(f"id {number}", f"is not in the vocabulary, whose ids are 0 to {len(self) - 1}")
        return self._tokens[number]

    def tokens(self, numbers: Iterable[int]) -> list[str]:
        """Return the tokens of several ids."""
        ids = list(numbers)
        if not ids or 0 <= min(ids) <= max(ids) < len(self._tokens):
            return list(map(self._tokens.__getitem__, ids))
        return [self.token(number) for number in ids]  # names the first that is outside

    @cached_property
    def hash(self) -> str:
        """A digest of the tokens in their order, the same on every machine."""
        digest = hashlib.sha256()
        for token in self._tokens:
            encoded = token.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
        return digest.hexdigest()

    def save(self, path: Path | str) -> None:
        """Write one token per line, followed by its count and the word "reserved" if these apply."""
        counts = self.counts or {}
        with whole_file(path) as file:
            for token in self._tokens:
                mark = "reserved" if token in self.reserved else ""
                line = f"{_TO_ESCAPE.sub(_escape, token)}\t{counts.get(token, '')}\t{mark}"
                file.write(line.rstrip("\t") + "\n")

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Read a file that `save` wrote, or any file with one token per line."""
        path = Path(path)
        tokens: dict[str, None] = {}
        counts: dict[str, int] = {}
        reserved: list[str] = []
        for number, line in enumerate(_lines(path), start=1):
            token, count, mark = _columns(line, str(path), number)
            if token in tokens:
                raise InputError(str(path), f"token {token!r} occurs twice; list it once", line=number)
            tokens[token] = None
            if count is not None:
                counts[token] = count
            if mark:
                reserved.append(token)
        if not tokens:
            raise InputError(str(path), "is empty; a vocabulary has one token per line")
        return cls(tokens, counts or None, reserved)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        what = "is not a plain file" if path.exists() else "does not exist"
        raise InputError(str(path), f"{what}; a vocabulary is a file with one token per line")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(str(path), "is not UTF-8 text; write the vocabulary again", line=line) from None
    lines = text.removeprefix("\ufeff").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _columns(line: str, where: str, number: int) -> tuple[str, int | None, bool]:
    """Read the token of a line, its count if it has one, and whether it is reserved."""
    written, _, rest = line.rstrip("\r").partition("\t")
    count, _, mark = rest.partition("\t")
    if (count and not count.isdecimal()) or mark not in ("", "reserved"):
        raise InputError(where, f"{rest!r} after the token is not a count", line=number)
    if not written:
        raise InputError(where, "has no token; write one per line", line=number)
    token = _ESCAPED.sub(lambda match: _unescape(match[0], where, number), written)
    return token, int(count) if count else None, bool(mark)


def _escape(match: re.Match[str]) -> str:
    return _NAMED.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _unescape(escaped: str, where: str, number: int) -> str:
    if len(escaped) == 6:
        return chr(int(escaped[2:], 16))
    if escaped not in _UNNAMED:
        raise InputError(
            where, f"{escaped!r} is not an escape sequence; write a backslash as \\\\", line=number
        )
    return _UNNAMED[escaped]
