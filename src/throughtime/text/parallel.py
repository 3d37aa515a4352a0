"""The texts of both languages: their codecs, long texts in parts, and word alignments. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from throughtime.errors import InputError
from throughtime.results import Alignment, Translation, with_alternatives
from throughtime.text.codec import END, Codec
from throughtime.text.subword import SUBWORDS, tokenizer_label
from throughtime.text.texts import check_texts, join_texts, split_text

if TYPE_CHECKING:
    import numpy as np

    from throughtime.text.tokenizer import Tokenizer

SIDES = ("source", "target")
Item = TypeVar("Item")


class Codecs(NamedTuple):
    """One codec for each side; the same object for both if they share a vocabulary."""

    source: Codec
    target: Codec

    @property
    def shared(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def distinct(self) -> tuple[Codec, ...]:
        """Each codec once."""
        return (self.source,) if self.shared else self

    @property
    def special_ids(self) -> tuple[int, int, int]:
        """The id that every source ends with, and the ids that every target begins and ends with."""
        ids = []
        for codec, mark in ((self.source, "eos_id"), (self.target, "bos_id"), (self.target, "eos_id")):
            if (number := getattr(codec.vocabulary, mark)) is None:
                raise InputError(
                    tokenizer_label(codec.tokenizer),
                    "has no <bos> or <eos> (or [CLS] and [SEP]); choose another tokenizer",
                )
            ids.append(number)
        return ids[0], ids[1], ids[2]

    @property
    def begin_id(self) -> int:
        """The id that every target begins with."""
        return self.special_ids[1]

    @property
    def end_id(self) -> int:
        """The id that every target ends with."""
        return self.special_ids[2]

    @property
    def excluded_ids(self) -> list[int]:
        """The id of `<unk>`, which translations must not contain.

        Empty if tokens are parts of words: no model learns `<unk>` then, and excluding it costs time.
        """
        unk = self.target.vocabulary.unk_id
        return [] if unk is None or self.target.tokenizer.name in SUBWORDS else [unk]

    def prompt(self, text: str) -> list[int]:
        """Encode a source text as the encoder reads it."""
        return self.source.encode(text, eos=True)

    @property
    def hash(self) -> str:
        """A short digest of the vocabularies."""
        return "+".join(codec.hash[:12] for codec in self.distinct)

    def save(self, folder: Any) -> None:
        """Write a shared codec to a `ModelFolder` itself, or the two codecs to a subfolder each."""
        if self.shared:
            self.source.save(folder.path)
        else:
            for side, codec in zip(SIDES, self, strict=True):
                codec.save(folder.path / side)

    @classmethod
    def load(cls, folder: Path) -> Codecs:
        """Read the codecs that `save` wrote."""
        if (folder / "tokenizer_config.json").exists():
            shared = Codec.load(folder)
            return cls(shared, shared)
        return cls(*(Codec.load(folder / side) for side in SIDES))

    def translate_in_parts(
        self,
        texts: str | Sequence[str],
        max_tokens: int,
        translate: Callable[[list[str]], list[list[Translation]]],
    ) -> list[Translation]:
        """Split texts into parts of at most `max_tokens` tokens, translate all parts at once, and join them.

        Returns one answer per text, with the other translations as its alternatives. The translation of an
        empty or blank text is empty.
        """
        split = [self.split(text, max_tokens) for text in check_texts(texts)]
        rest = iter(translate([part for parts in split for part in parts]))
        return [join_parts([next(rest) for _ in parts]) for parts in split]

    def split(self, text: str, max_tokens: int) -> list[str]:
        """Split a text into parts of at most `max_tokens` tokens; an empty or blank text has none."""
        stripped = text.strip()
        return split_text(stripped, max_tokens, lambda part: len(self.prompt(part))) if stripped else []

    def align_words(
        self, attention: np.ndarray[Any, Any], source: Sequence[str], target: Sequence[str]
    ) -> Alignment:
        """Turn attention between tokens, [target tokens, source tokens], into attention between words.

        Weights are summed over the tokens of a source word and averaged over those of a target word. The last
        column belongs to the source's end mark; if the translation ended, the last row belongs to its own.
        """
        import numpy as np

        source_words, source_owner = group_into_words(source, self.source.tokenizer)
        target_words, target_owner = group_into_words(target, self.target.tokenizer)
        source_words, source_owner = [*source_words, END], [*source_owner, len(source_words)]
        if len(attention) > len(target):
            target_words, target_owner = [*target_words, END], [*target_owner, len(target_words)]
        summed = np.zeros((len(target_words), len(source_words)))
        places = np.array(target_owner)[:, None], np.array(source_owner)
        np.add.at(summed, places, attention[:, : len(source_owner)])
        weights = summed / np.bincount(target_owner, minlength=len(target_words))[:, None]
        return Alignment(tuple(source_words), tuple(target_words), tuple(map(tuple, weights.tolist())))


def group_into_words(tokens: Sequence[str], tokenizer: Tokenizer) -> tuple[list[str], list[int]]:
    """Return the words that tokens spell, and for each token the index of its word.

    A token belongs to the word in which it ends, so that the bytes of one character stay together. Words that
    a single token spans, as in Chinese, count as one word.

    >>> from throughtime.text.tokenizer import tokenizer
    >>> group_into_words(list("a cat."), tokenizer("char"))
    (['a', 'cat', '.'], [0, 1, 1, 1, 1, 2])
    """
    text = tokenizer.detokenize(tokens)
    ends = _word_ends(text)
    reached: list[int] = []  # the word in which each token ends
    for count in range(1, len(tokens) + 1):
        last, word = len(tokenizer.detokenize(tokens[:count])), reached[-1] if reached else 0
        while word + 1 < len(ends) and last > ends[word]:
            word += 1
        reached.append(word)
    owned = sorted(set(reached))
    bounds = [0, *(ends[word] for word in owned[:-1]), len(text)]
    words = [text[start:end].strip() for start, end in pairwise(bounds)] if owned else []
    return words, [owned.index(word) for word in reached]


def _word_ends(text: str) -> list[int]:
    """Return the position after each word, punctuation mark or ideograph of a text."""
    from throughtime.text.unicode import UnicodeTokenizer

    ends, reached = [], 0
    for word in UnicodeTokenizer().tokenize(text):
        start = text.find(word, reached)
        if start >= 0:
            reached = start + len(word)
            ends.append(reached)
    return ends or [len(text)]


def join_parts(parts: Sequence[Sequence[Translation]]) -> Translation:
    """Join the best translations of all parts; the second best ones form the first alternative, and so on.

    >>> un, deux = (Translation(text, -1.0, -2.0, True) for text in ("Un.", "Deux."))
    >>> join_parts([[un], [deux]])
    Translation(text='Un. Deux.', score=-2.0, log_prob=-4.0, ended=True, alignment=None, alternatives=())
    """
    if len(parts) == 1:
        return with_alternatives(parts[0])
    return with_alternatives([_join(rank) for rank in join_ranks(parts)])


def join_ranks(parts: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """List the best items of all parts, then the second best ones; the last of a part stands for lower ranks.

    >>> join_ranks([["a", "b", "c"], ["d", "e"]])
    [['a', 'd'], ['b', 'e'], ['c', 'e']]
    """
    count = max(map(len, parts), default=1)
    return [[items[min(rank, len(items) - 1)] for items in parts] for rank in range(count)]


def _join(parts: Sequence[Translation]) -> Translation:
    alignments = [part.alignment for part in parts if part.alignment is not None]
    return Translation(
        join_texts([part.text for part in parts]),
        float(sum(part.score for part in parts)),
        float(sum(part.log_prob for part in parts)),
        all(part.ended for part in parts),
        join_alignments(alignments) if parts and len(alignments) == len(parts) else None,
    )


def join_alignments(parts: Sequence[Alignment]) -> Alignment:
    """Join the alignments of the parts of a text; words of different parts have weight 0.

    >>> one = Alignment(("a",), ("b",), ((1.0,),))
    >>> join_alignments([one, one]).weights
    ((1.0, 0.0), (0.0, 1.0))
    """
    source = tuple(word for part in parts for word in part.source)
    target = tuple(word for part in parts for word in part.target)
    rows: list[tuple[float, ...]] = []
    before = 0
    for part in parts:
        after = len(source) - before - len(part.source)
        rows += [(0.0,) * before + row + (0.0,) * after for row in part.weights]
        before += len(part.source)
    return Alignment(source, target, tuple(rows))
