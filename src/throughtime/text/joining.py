"""Decoders for a `tokenizer.json` without one, found from the marks in its pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_PROBE = "a b"


@dataclass(frozen=True)
class MarkedPieces:
    """A decoder for pieces with a prefix if they continue a word, or a suffix if they end one.

    Without either, every piece is a word.

    >>> MarkedPieces(prefix="##", gap=" ").decode(["play", "##ing", "card", "##s"])
    'playing cards'
    >>> MarkedPieces(suffix="</w>", gap=" ").decode(["play", "ing</w>", "cards</w>"])
    'playing cards'
    """

    prefix: str = ""
    suffix: str = ""
    gap: str = ""  # between two words

    def decode(self, pieces: Sequence[str]) -> str:
        """The text of these pieces."""
        if not (self.prefix or self.suffix):
            return self.gap.join(pieces)
        parts: list[str] = []
        ended = False
        for piece in pieces:
            inside = bool(self.prefix) and piece.startswith(self.prefix) and piece != self.prefix
            begins = ended if self.suffix else not inside
            if parts and begins:
                parts.append(self.gap)
            ended = bool(self.suffix) and piece.endswith(self.suffix)
            own = piece.removeprefix(self.prefix) if inside else piece
            parts.append(own.removesuffix(self.suffix))
        return "".join(parts)


def decoder_of(backend: Any) -> Any | None:
    """The decoder of a tokenizer of the `tokenizers` library: its own, or one that suits its pieces.

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
        # Where spaces are in the pieces, nothing belongs between words.
        return MarkedPieces(prefix, suffix, gap="" if keeps_spaces else " ")
    return None


def _words(backend: Any) -> list[str]:
    """The words of a text of two words, as the tokenizer passes them to its model."""
    text = _PROBE if backend.normalizer is None else backend.normalizer.normalize_str(_PROBE)
    if backend.pre_tokenizer is None:
        return [text]
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)]


def _sign_decoder(parts: dict[str, Any]) -> Any | None:
    """A decoder for a tokenizer that replaces spaces by visible signs; None for others."""
    from tokenizers import decoders

    cutters = {one["type"]: one for one in _flat(parts["pre_tokenizer"], "pretokenizers")}
    normalizers = _flat(parts["normalizer"], "normalizers")
    fallback = [decoders.ByteFallback()] if parts["model"].get("byte_fallback") else []
    strip = [decoders.Strip(" ", 1, 0)]
    if "ByteLevel" in cutters:
        added = cutters["ByteLevel"].get("add_prefix_space")
        return decoders.Sequence([decoders.ByteLevel(), *(strip if added else [])])
    if "Metaspace" in cutters:
        given = cutters["Metaspace"]
        scheme = given.get("prepend_scheme", "always")
        replaced = decoders.Replace(given.get("replacement", "▁"), " ")
        return decoders.Sequence(
            [replaced, *fallback, decoders.Fuse(), *(strip if scheme != "never" else [])]
        )
    for one in normalizers:
        if one["type"] == "Replace" and one["pattern"] == {"String": " "} and one["content"].strip():
            replaced = decoders.Replace(one["content"], " ")
            added = any(other["type"] == "Prepend" for other in normalizers)
            return decoders.Sequence([replaced, *fallback, decoders.Fuse(), *(strip if added else [])])
    return None


def _flat(part: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    """The steps of a normalizer or pre-tokenizer, with nested sequences flattened."""
    if part is None:
        return []
    return (
        [step for one in part[inner] for step in _flat(one, inner)] if part["type"] == "Sequence" else [part]
    )
