"""The codecs of two languages, or the one that both share."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from throughtime.data.records import Specials
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.text.codec import Codec
from throughtime.text.subword import tokenizer_label
from throughtime.text.tokenizer import Tokenizer

SIDES = ("source", "target")


class Codecs(NamedTuple):
    """One codec for each side; the same object where the vocabulary is shared."""

    source: Codec
    target: Codec

    @property
    def shared(self) -> bool:
        """Whether both languages have one vocabulary."""
        return self.source is self.target

    @property
    def distinct(self) -> tuple[Codec, ...]:
        """Each codec once."""
        return (self.source,) if self.shared else self

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """What cuts the texts of each side."""
        return self.source.tokenizer, self.target.tokenizer

    @property
    def specials(self) -> tuple[Specials, Specials]:
        """What each side reserves. Padding is known by lengths, so any id may fill it."""
        source, target = (codec.vocabulary for codec in self)
        for codec in self:
            vocabulary = codec.vocabulary
            if vocabulary.eos_id is None or (vocabulary is target and vocabulary.bos_id is None):
                raise InputError(
                    tokenizer_label(codec.tokenizer),
                    "has no <bos> or <eos> (or [CLS] and [SEP]); choose another one",
                )
        return (
            Specials(source.pad_id or 0, None, source.eos_id),
            Specials(target.pad_id or 0, target.bos_id, target.eos_id),
        )

    @property
    def begin_id(self) -> int:
        """What every target begins with."""
        begin = self.specials[1].bos_id
        assert begin is not None
        return begin

    @property
    def end_id(self) -> int:
        """What every target ends with."""
        end = self.specials[1].eos_id
        assert end is not None
        return end

    def prompt(self, text: str) -> list[int]:
        """A source as the encoder reads it."""
        return self.source.encode(text, eos=True)

    @property
    def hash(self) -> str:
        """Which vocabularies these are, in short."""
        return "+".join(codec.hash[:12] for codec in self.distinct)

    def save(self, folder: ModelFolder) -> None:
        """Write them into a model folder: a shared one beside the weights, else a folder for each side."""
        if self.shared:
            self.source.save(folder.path)
        else:
            for side, codec in zip(SIDES, self, strict=True):
                codec.save(folder.path / side)

    @classmethod
    def load(cls, folder: Path) -> Codecs:
        """Read what `save` wrote."""
        if (folder / "tokenizer_config.json").exists():
            shared = Codec.load(folder)
            return cls(shared, shared)
        return cls(*(Codec.load(folder / side) for side in SIDES))
