"""A `tokenizer.json` from elsewhere, checked before the `tokenizers` library builds anything from it.

Only known steps with small settings are accepted, so that neither loading a tokenizer nor using it takes
endless time or memory. Padding, truncation and the template for special tokens are left out, as they are not
used.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from throughtime.errors import InputError, ThroughtimeError, first_line
from throughtime.text.characters import class_end

LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
"""The parts of a tokenizer that consist of steps, and the names under which sequences list steps."""
KNOWN = {
    "normalizer": "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace "
    "Strip StripAccents",
    "pre_tokenizer": "BertPreTokenizer ByteLevel CharDelimiterSplit Digits FixedLength Metaspace Punctuation "
    "Split UnicodeScripts Whitespace WhitespaceSplit",
    "decoder": "BPEDecoder ByteFallback ByteLevel CTC Fuse Metaspace Replace Strip WordPiece",
    "model": "BPE Unigram WordLevel WordPiece None",  # early versions did not name the model
}
GROWTHS = {"NFKC": 18, "NFKD": 18, "NFC": 3, "NFD": 4, "Lowercase": 3, "BertNormalizer": 12}
GROWTHS |= {"ByteLevel": 5, "Metaspace": 2, "WordPiece": 2}
"""How many characters a step can make of one, where no setting decides it."""
MAX_GROWTH = {"normalizer": 10_000, "pre_tokenizer": 20, "decoder": 20}
"""How many characters all steps together may make of one; `SubwordTokenizer` counts those of normalizers."""
MAX_STEPS, MAX_SETTING, MAX_TOKEN = 40, 500, 1_000
"""Limits: the number of steps, a number or the length of a text in the settings, the length of a token."""
MAX_PATTERN, UNLIMITED, MAX_ATTEMPTS = 5_000, 20_000, 100_000
"""Limits: characters of a regular expression, repetitions if it has no limit, attempts at each character."""
_PIECES = re.compile(
    r"\\[pPx]\{\^?\w+\}|\\[AbBdDfGhHnrsStuvwWxzZ]|\\\W"
    r"|(?P<open>\((?:\?(?:[im]*:|<?[=!])|(?!\?)))|(?P<close>\))|(?P<or>\|)|(?P<set>\[)|[^\\\[*+?{()|]",
    re.DOTALL,
)
_REPEAT = re.compile(
    r"(?:(?P<sign>[*+?])[?+]?|\{(?P<low>\d{0,3})(?:(?P<comma>,)(?P<high>\d{0,3}))?\}\??)(?![*+?{])"
)


def build_backend(definition: str, where: str) -> tuple[Any, int]:
    """Return the tokenizer of the `tokenizers` library that a definition describes, if it is harmless.

    The number says how many characters its normalizer may make of one.
    """
    import tokenizers

    with name_failures(where, "is no Hugging Face tokenizer file"):
        parts = json.loads(definition)
        try:
            growth = _check_parts(parts, where)
        except (TypeError, AttributeError, LookupError):
            raise InputError(where, "is no Hugging Face tokenizer file, or a damaged one") from None
        parts |= dict.fromkeys(("padding", "truncation", "post_processor"))
        return tokenizers.Tokenizer.from_str(json.dumps(parts)), growth


@contextlib.contextmanager
def name_failures(where: str, problem: str) -> Iterator[None]:
    """Raise an error for whatever fails in a block; the library raises nothing narrow, and panics."""
    try:
        yield
    except (ThroughtimeError, TimeoutError, TypeError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise InputError(where, f"{problem}: {first_line(error)}") from None


def list_steps(part: dict[str, Any] | None, inner: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer, pre-tokenizer or decoder, with nested sequences flattened."""
    if part is not None and part["type"] == "Sequence":
        for member in part[inner]:
            yield from list_steps(member, inner)
    elif part is not None:
        yield part


def _check_parts(parts: dict[str, Any], where: str) -> int:
    """Refuse parts that are not harmless; return the growth of the normalizer."""
    attempts, growths = 0, {}
    for name, inner in LISTS.items():
        steps, growth = list(list_steps(parts.get(name), inner)), 1
        if len(steps) > MAX_STEPS:
            raise InputError(where, f"has {len(steps):,} steps in its {name}, expected at most {MAX_STEPS}")
        for step in steps:
            _check_settings(name, step, where)
            growth *= _find_growth(step, where)
            if "Regex" in step.get("pattern", ()):
                attempts += count_attempts(step["pattern"]["Regex"], where)
        growths[name] = growth
        if growth > MAX_GROWTH[name]:
            problem = f"has a {name} that may turn one character into {growth:,} characters"
            raise InputError(where, f"{problem}; remove its replacements")
    if attempts > MAX_ATTEMPTS:
        problem = "has regular expressions that may take very long, as they repeat one thing after another"
        raise InputError(where, f"{problem}; use another tokenizer")
    _check_settings("model", parts["model"], where)
    added = (token["content"] for token in parts.get("added_tokens") or ())
    vocabulary = (token if isinstance(token, str) else token[0] for token in parts["model"]["vocab"])
    longest = max((len(token) for tokens in (added, vocabulary) for token in tokens), default=0)
    if longest > MAX_TOKEN:
        raise InputError(where, f"has a token of {longest:,} characters, expected at most {MAX_TOKEN:,}")
    return growths["normalizer"]


def _check_settings(name: str, step: dict[str, Any], where: str) -> None:
    """Refuse an unknown kind of step, and long texts and large numbers among its settings."""
    if (kind := str(step.get("type"))) not in KNOWN[name].split():
        raise InputError(where, f"has the {name} {kind!r}, which is not known here; use another tokenizer")
    for key in step.keys() - {"vocab", "merges", "unk_id", "pattern", "precompiled_charsmap"}:
        size = len(step[key]) if isinstance(step[key], str) else step[key] or 0
        if not 0 <= size <= MAX_SETTING:
            problem = f"has the setting {key!r} of {size:,} in its {name}, expected at most {MAX_SETTING}"
            raise InputError(where, problem)


def _find_growth(step: dict[str, Any], where: str) -> int:
    """Return how many characters a step may make of one."""
    if step["type"] == "Precompiled":
        return _check_table(base64.b64decode(step["precompiled_charsmap"]), where)
    if step["type"] == "Prepend":
        return 1 + len(step["prepend"])
    if step["type"] == "Replace":
        # A regular expression may match nothing, before every character.
        length, content = len(step["pattern"].get("String", "")), len(step["content"])
        return max(1, -(-content // length)) if length else content + 1
    return GROWTHS.get(step["type"], 1)


def _check_table(table: bytes, where: str) -> int:
    """Refuse a table of replacements that leads out of itself; return the length of its longest new text.

    It is a trie in a double array (darts-clone), and then the new texts, with a zero at the end of each.
    """
    size = int.from_bytes(table[:4], "little")
    units, texts = np.frombuffer(table[4 : 4 + size // 4 * 4], "<u4").astype(np.int64), table[4 + size :]
    begins = np.append((np.frombuffer(texts, np.uint8) & 0xC0) != 0x80, True)  # where a character may begin
    inner = (units >> 31 == 0) | (np.arange(len(units)) == 0)  # the others hold a place in the texts
    children = np.arange(len(units)) ^ ((units >> 10) << ((units & 1 << 9) >> 6))
    if 0 < size == 4 * len(units) and (children[inner] | 255 < len(units)).all():
        places = units[children[inner & (units >> 8 & 1 == 1)]] & 0x7FFFFFFF
        if (places < len(begins)).all() and begins[places].all():
            return max(map(len, texts.decode().split("\0")))
    raise InputError(where, "has a damaged table in its normalizer Precompiled; use another tokenizer")


def count_attempts(pattern: str, where: str) -> int:
    r"""Return how often a regular expression may try again at one character before it gives up.

    A repetition is tried with each of its lengths if something that may fail follows. Expressions that repeat
    groups or refer to them are refused, as there is no such bound.

    >>> [count_attempts(pattern, "") for pattern in (r" ?\w+|\d{1,3}|'s", r"\s+(?!\S)", "(?:[ab]?c)?a*b")]
    [4, 20000, 60003]
    """
    at, groups = 0, [[0, 1, 1, 1]]  # attempts and last lengths of the alternatives so far, and of this one
    while at < len(pattern) <= MAX_PATTERN and (piece := _PIECES.match(pattern, at)):
        at = class_end(pattern, at) if piece.lastgroup == "set" else piece.end()
        attempts, lengths = 1, 1
        if piece.lastgroup == "open":
            groups.append([0, 1, 1, 1])
            continue
        if piece.lastgroup in ("or", "close"):
            total, longest, tried, last = groups[-1]
            groups[-1] = [total + tried, max(longest, last), 1, 1]
        if piece.lastgroup == "or":
            continue
        if piece.lastgroup == "close":
            attempts, lengths = groups.pop()[:2]
            if not groups:
                break
        low, high, at = _read_repeat(pattern, at)
        if piece.lastgroup == "close" and high > 1:
            break
        group = groups[-1]
        if low:
            group[2:] = [group[2] * group[3] * attempts, lengths * (high - low + 1)]
        else:
            group[3] *= 1 + attempts * lengths * high
    else:
        if at == len(pattern) and len(groups) == 1:
            return groups[0][0] + groups[0][2]
    shown = pattern[at : at + 40]
    problem = f"has a regular expression that is not known to end soon, from {shown!r} on"
    raise InputError(where, f"{problem}; use another tokenizer")


def _read_repeat(pattern: str, at: int) -> tuple[int, int, int]:
    """Return how often the piece before this place is repeated, at least and at most, and the next place."""
    match = _REPEAT.match(pattern, at)
    if match is None:
        return 1, 1, at
    if sign := match["sign"]:
        return int(sign == "+"), 1 if sign == "?" else UNLIMITED, match.end()
    low = int(match["low"] or 0)
    return low, int(match["high"] or (UNLIMITED if match["comma"] else low)), match.end()
