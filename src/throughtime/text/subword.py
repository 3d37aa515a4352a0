"""Subword tokenizers: three kinds that can be trained, and any `tokenizer.json`.

Pieces keep every space, so that decoding restores the text exactly: a space is written as ▁ at the beginning
of the next word (wordpiece, unigram) or is a byte like any other (bpe).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.errors import InputError
from throughtime.files import check_plain
from throughtime.text.definition import build_backend, list_steps, name_failures
from throughtime.text.tokenizer import Tokenizer

SPACE = "▁"
_PROBE = "a b"
_UNKNOWN = "a \ue000"  # a character for private use, which is in no vocabulary


class SubwordTokenizer(Tokenizer):
    """A tokenizer with the `definition` of a Hugging Face `tokenizer.json`."""

    def __init__(self, definition: str) -> None:
        self.definition = definition
        self.backend, self._growth = build_backend(definition, "tokenizer.json")
        # "[SEP]" in a text is text, not the end of a sentence.
        self.backend.encode_special_tokens = True
        self._decoder = find_decoder(self.backend)

    def tokenize(self, text: str) -> list[str]:
        """Split a text into pieces, without special tokens around them."""
        if self._growth > USUAL_GROWTH and len(text) * self._growth > MAX_UNCOUNTED:
            self._check_growth(text)
        with name_failures(tokenizer_label(self), "fails for a text"):
            pieces: list[str] = self.backend.encode(text, add_special_tokens=False).tokens
        return pieces

    def _check_growth(self, text: str) -> None:
        """Refuse a text that the normalizer makes much longer, before its memory is needed."""
        change, width = self.backend.normalizer.normalize_str, max(1, MAX_UNCOUNTED // self._growth)
        size, most = 0, MAX_UNCOUNTED + len(text) * USUAL_GROWTH
        for start in range(0, len(text), width):
            size += len(change(text[start : start + width]))
            if size > most:
                problem = f"makes more than {most:,} characters of a text of {len(text):,}"
                raise InputError(tokenizer_label(self), f"{problem}; use another tokenizer")

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join pieces by the decoder of the definition, or else by the marks in the pieces."""
        assert self._decoder is not None, "`read_definition` refuses a definition without a decoder"
        with name_failures(tokenizer_label(self), "fails for an answer"):
            return str(self._decoder.decode(list(tokens)))

    def options(self) -> dict[str, Any]:
        """The definition."""
        return {"definition": self.definition}

    def vocabulary_tokens(self) -> list[str]:
        """List all pieces by id; an id that the definition skips gets a name made from its number."""
        ids = self.backend.get_vocab(with_added_tokens=True)
        by_id = {number: token for token, number in ids.items()}
        return [by_id.get(number, f"<no-token-{number}>") for number in range(max(by_id) + 1)]

    def special_tokens(self) -> list[str]:
        """List the special tokens, which stand for no text."""
        added = self.backend.get_added_tokens_decoder()
        return [added[number].content for number in sorted(added) if added[number].special]


class FileTokenizer(SubwordTokenizer):
    """A tokenizer read from a `tokenizer.json`; what a round trip keeps depends on its author."""

    name: ClassVar[str] = "file"

    def __init__(self, definition: str, path: str = "tokenizer.json") -> None:
        super().__init__(definition)
        self.path = path  # only for messages


class BytePairTokenizer(SubwordTokenizer):
    """Byte pair encoding over bytes, which can represent any text."""

    name: ClassVar[str] = "bpe"

    def normalise(self, text: str) -> str:
        """Return the text, in lower case if the tokenizer was trained so."""
        normalizer = self.backend.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))


class _SpaceMarkTokenizer(SubwordTokenizer):
    """The base of wordpiece and unigram, where ▁ at the beginning of a piece is a space."""

    def normalise(self, text: str) -> str:
        """Return the text, in lower case if the tokenizer was trained so; the sign ▁ becomes a space."""
        return str(self.backend.normalizer.normalize_str(text))[1:].replace(SPACE, " ")


class WordPieceTokenizer(_SpaceMarkTokenizer):
    """Takes the longest known piece first; ## marks a piece inside a word."""

    name: ClassVar[str] = "wordpiece"


class UnigramTokenizer(_SpaceMarkTokenizer):
    """Takes the most probable sequence of pieces."""

    name: ClassVar[str] = "unigram"


SUBWORDS: dict[str, type[SubwordTokenizer]] = {
    kind.name: kind for kind in (WordPieceTokenizer, BytePairTokenizer, UnigramTokenizer, FileTokenizer)
}
TRAINED = ("wordpiece", "bpe", "unigram")
MAX_UNCOUNTED, USUAL_GROWTH = 1_000_000, 20
"""Characters that a normalizer may make of a text: this number, and this for each (Unicode makes 18)."""


def tokenizer_file(path: Path | str) -> FileTokenizer:
    """Read the tokenizer of a `tokenizer.json` or of a folder that contains one."""
    path = Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    return FileTokenizer(read_definition(path), str(path))


def tokenizer_label(tokenizer: Tokenizer) -> str:
    """Return the file of a tokenizer, or its name, for messages.

    >>> from throughtime.text.subword_training import train_subword
    >>> tokenizer_label(train_subword("unigram", ["a text"], vocabulary_size=20))
    "tokenizer 'unigram'"
    """
    return tokenizer.path if isinstance(tokenizer, FileTokenizer) else f"tokenizer {tokenizer.name!r}"


def read_definition(path: Path) -> str:
    """Read the text of a `tokenizer.json` and check that the tokenizer works."""
    check_plain(path)
    try:
        definition = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(str(path), "does not exist; give a Hugging Face tokenizer.json") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text") from None
    backend, _ = build_backend(definition, str(path))
    ids = backend.get_vocab(with_added_tokens=True).values()
    if not ids:
        raise InputError(str(path), "has an empty vocabulary; train the tokenizer before you save it")
    if max(ids) > len(definition):
        raise InputError(
            str(path), f"has the id {max(ids):,}, but only {len(ids):,} tokens; number them from 0"
        )
    with name_failures(str(path), "fails for a text with a word that it does not know"):
        backend.encode(_UNKNOWN, add_special_tokens=False)
    if find_decoder(backend) is None:
        problem = (
            "has no decoder, and its pieces do not show where words begin; set a decoder and save it again"
        )
        raise InputError(str(path), problem)
    return definition


# Decoders for a `tokenizer.json` without one, found from the marks in its pieces.


def find_decoder(backend: Any) -> Any | None:
    """Find a decoder for a tokenizer of the `tokenizers` library: its own, or one that suits its pieces.

    None if it has no decoder and its pieces do not show where words begin.
    """
    if backend.decoder is not None:
        return backend.decoder
    parts, words = json.loads(backend.to_str()), _words(backend)
    signs = _sign_decoder(parts)
    if signs is not None:
        return signs if signs.decode(words).strip() == _PROBE else None
    model, keeps_spaces = parts["model"], "".join(words) == _PROBE
    prefix, suffix = model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or ""
    if keeps_spaces or prefix or suffix or model["type"] == "WordLevel":
        # If the pieces contain the spaces, nothing is put between words.
        return _mark_decoder(prefix, suffix, gap="" if keeps_spaces else " ")
    return None


def _mark_decoder(prefix: str, suffix: str, gap: str) -> Any:
    """Build a decoder for pieces with a prefix if they continue a word, or a suffix if they end one.

    Without either, every piece is a word. `gap` is written between two words.

    >>> _mark_decoder("##", "", " ").decode(["play", "##ing", "card", "##s"])
    'playing cards'
    >>> _mark_decoder("", "</w>", " ").decode(["play", "ing</w>", "cards</w>"])
    'playing cards'
    """
    from tokenizers import Regex, decoders

    inside = rf"{re.escape(prefix)}(?!\z)"  # a bare prefix is a word
    edges = [rf"{re.escape(suffix)}\z", rf"{gap}\z"] if suffix else [r"\A", rf"\A{gap}"]
    if prefix and not suffix:
        edges[0] = rf"\A(?!{inside})"
    steps = [decoders.Replace(Regex(edges[0]), gap)]
    if prefix:
        steps.append(decoders.Replace(Regex(rf"\A{inside}"), ""))
    return decoders.Sequence([*steps, decoders.Fuse(), decoders.Replace(Regex(edges[1]), "")])


def _words(backend: Any) -> list[str]:
    """Split a text of two words as the tokenizer does before it applies its model."""
    text = _PROBE if backend.normalizer is None else backend.normalizer.normalize_str(_PROBE)
    if backend.pre_tokenizer is None:
        return [text]
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]


def _sign_decoder(parts: dict[str, Any]) -> Any | None:
    """Build a decoder for a tokenizer that replaces spaces by visible signs; None for others."""
    from tokenizers import decoders

    cutters = {step["type"]: step for step in list_steps(parts["pre_tokenizer"], "pretokenizers")}
    normalizers = list(list_steps(parts["normalizer"], "normalizers"))
    fallback = [decoders.ByteFallback()] if parts["model"].get("byte_fallback") else []
    strip = [decoders.Strip(" ", 1, 0)]
    if "ByteLevel" in cutters:
        added = cutters["ByteLevel"].get("add_prefix_space")
        return decoders.Sequence([decoders.ByteLevel(), *(strip if added else [])])
    if metaspace := cutters.get("Metaspace"):
        sign, added = metaspace.get("replacement", "▁"), metaspace.get("prepend_scheme") != "never"
    else:
        replaced = (step for step in normalizers if step.get("pattern") == {"String": " "})
        sign = next((step["content"] for step in replaced if step["content"].strip()), None)
        added = any(step["type"] == "Prepend" for step in normalizers)
    if sign is None:
        return None
    return decoders.Sequence(
        [decoders.Replace(sign, " "), *fallback, decoders.Fuse(), *(strip if added else [])]
    )
