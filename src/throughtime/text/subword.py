"""Subword tokenizers: three that are trained here, and any `tokenizer.json` from elsewhere.

The pieces keep every space, so decoding gives the text back exactly: a space is written ▁ at the beginning of
the word that follows it (wordpiece, unigram), or is a byte like any other (bpe).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, ClassVar

from throughtime.errors import InputError, unknown
from throughtime.text.joining import decoder_of
from throughtime.text.tokenizer import Tokenizer

SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")

_SPACE = "▁"
_UNHEARD_OF = "a \ue000"  # for private use: in no vocabulary
# Ideographs, kana and marks stand alone (so # never begins a longer piece, and ## is safe as the sign of a
# piece inside a word), and no word is longer than wordpiece accepts.
_IDEOGRAPHS = r"\p{Han}\p{Hiragana}\p{Katakana}"
_WORDS = (
    rf"▁?[\p{{L}}\p{{M}}&&[^{_IDEOGRAPHS}]]{{1,100}}|▁?\p{{N}}{{1,100}}"
    rf"|[{_IDEOGRAPHS}]|▁?[^\s\p{{L}}\p{{M}}\p{{N}}▁]|▁|\s"
)


class SubwordTokenizer(Tokenizer):
    """A tokenizer that its `definition` describes: the text of a Hugging Face `tokenizer.json`."""

    def __init__(self, definition: str) -> None:
        import tokenizers

        self.definition = definition
        self.backend = tokenizers.Tokenizer.from_str(definition)
        self.backend.no_padding()
        self.backend.no_truncation()
        # A text that spells "[SEP]" is a text, not the end of a sentence.
        self.backend.encode_special_tokens = True
        self._decoder = decoder_of(self.backend)

    def tokenize(self, text: str) -> list[str]:
        """The pieces of the text, without special tokens around them."""
        pieces: list[str] = self.backend.encode(text, add_special_tokens=False).tokens
        return pieces

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The text of these pieces, by the definition's own decoder, or else by the marks in its pieces."""
        assert self._decoder is not None, "`read_definition` refuses a definition without a decoder"
        return str(self._decoder.decode(list(tokens)))

    def options(self) -> dict[str, Any]:
        """The definition."""
        return {"definition": self.definition}

    def vocabulary_tokens(self) -> list[str]:
        """Every piece in the order of its id; a number that the definition skips gets a name of its own."""
        ids = self.backend.get_vocab(with_added_tokens=True)
        by_id = {number: token for token, number in ids.items()}
        return [by_id.get(number, f"<no-token-{number}>") for number in range(max(by_id) + 1)]

    def special_tokens(self) -> list[str]:
        """The pieces that stand for no text."""
        added = self.backend.get_added_tokens_decoder()
        return [added[number].content for number in sorted(added) if added[number].special]


class FileTokenizer(SubwordTokenizer):
    """The tokenizer of somebody's `tokenizer.json`. What a round trip keeps is up to its author."""

    name: ClassVar[str] = "file"

    def __init__(self, definition: str, path: str = "tokenizer.json") -> None:
        super().__init__(definition)
        self.path = path  # for messages alone: where it was read does not make it another tokenizer


class BytePairTokenizer(SubwordTokenizer):
    """Byte pair encoding over bytes: any text at all survives."""

    name: ClassVar[str] = "bpe"

    def normalise(self, text: str) -> str:
        """The text, in small letters if it was trained so."""
        normalizer = self.backend.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))


class _SpaceMarkTokenizer(SubwordTokenizer):
    """What wordpiece and unigram share: a space is ▁ at the beginning of a piece."""

    def normalise(self, text: str) -> str:
        """The text, in small letters if it was trained so; the sign ▁ itself becomes a space."""
        return str(self.backend.normalizer.normalize_str(text))[1:].replace(_SPACE, " ")


class WordPieceTokenizer(_SpaceMarkTokenizer):
    """The longest known piece first; a piece inside a word is marked by ##."""

    name: ClassVar[str] = "wordpiece"


class UnigramTokenizer(_SpaceMarkTokenizer):
    """The most probable pieces together."""

    name: ClassVar[str] = "unigram"


SUBWORDS: dict[str, type[SubwordTokenizer]] = {
    kind.name: kind for kind in (WordPieceTokenizer, BytePairTokenizer, UnigramTokenizer, FileTokenizer)
}
TRAINED = ("wordpiece", "bpe", "unigram")


def tokenizer_file(path: Path | str) -> FileTokenizer:
    """The tokenizer of a `tokenizer.json`, or of the folder that holds one."""
    path = Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    return FileTokenizer(read_definition(path), str(path))


def called(tokenizer: Tokenizer) -> str:
    """What messages call a tokenizer: its file, or its name.

    >>> called(train_subword("unigram", ["a text"], vocabulary_size=20))
    "tokenizer 'unigram'"
    """
    return tokenizer.path if isinstance(tokenizer, FileTokenizer) else f"tokenizer {tokenizer.name!r}"


def read_definition(path: Path) -> str:
    """The text of a `tokenizer.json`, once it has been seen to work."""
    import tokenizers

    try:
        definition = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        problem = (
            "is not UTF-8 text" if path.exists() else "does not exist; name a Hugging Face tokenizer.json"
        )
        raise InputError(str(path), problem) from None
    try:
        backend = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises nothing narrower
        raise InputError(str(path), f"is not a Hugging Face tokenizer file: {error}") from None
    if not backend.get_vocab_size(with_added_tokens=True):
        raise InputError(str(path), "has an empty vocabulary; train the tokenizer before you save it")
    try:
        backend.encode(_UNHEARD_OF, add_special_tokens=False)
    except Exception as error:
        raise InputError(str(path), f"cannot cut a text with a word that it does not know: {error}") from None
    if decoder_of(backend) is None:
        problem = (
            "has no decoder, and its pieces do not show where a word begins, so its text cannot be put "
            "together again; set the tokenizer's decoder and save it again"
        )
        raise InputError(str(path), problem)
    return definition


def train_subword(
    kind: str,
    texts: Iterable[str],
    vocabulary_size: int = 1000,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    lowercase: bool = False,
) -> SubwordTokenizer:
    """Train a tokenizer on texts, which are read once; the same texts always give the same tokenizer.

    Every character of the texts gets a piece of its own, even where that makes the vocabulary larger than
    `vocabulary_size`. The first special token stands for the unknown.

    >>> tokenizer = train_subword("wordpiece", ["low lower lowest", "new newer newest"], vocabulary_size=60)
    >>> tokenizer.tokenize("newest low")
    ['▁newest', '▁low']
    """
    trainers = {"wordpiece": _train_wordpiece, "bpe": _train_byte_pairs, "unigram": _train_unigram}
    if kind == FileTokenizer.name:
        raise InputError("tokens", f"is {kind!r}, which is no name; give the path of a tokenizer.json")
    if kind not in trainers:
        raise unknown("subword tokenizer", kind, trainers)
    if not special_tokens:
        raise InputError("special_tokens", "must name at least the token for the unknown")
    specials = list(special_tokens)
    if vocabulary_size <= len(specials):
        raise InputError(
            "vocabulary_size",
            f"is {vocabulary_size}, which leaves no room after {len(specials)} special tokens; raise it (the "
            "setting max_size)",
        )
    backend = trainers[kind](texts, vocabulary_size, specials, lowercase)
    backend.add_special_tokens(specials)
    return SUBWORDS[kind](json.dumps(json.loads(backend.to_str()), ensure_ascii=False, indent=1))


def _train_wordpiece(texts: Iterable[str], size: int, specials: list[str], lowercase: bool) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, trainers

    counts = _word_counts(texts, lowercase)
    # The trainer numbers pieces inside words in the order of a random hash, and breaks ties by number.
    # As special tokens they are numbered beforehand, in the order given here.
    inside = sorted({f"##{character}" for word in counts for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*specials, *inside], show_progress=False
    )
    pupil = Tokenizer(models.WordPiece(unk_token=specials[0]))
    pupil.train_from_iterator(_repeated(counts), trainer)
    model = models.WordPiece(pupil.get_vocab(), unk_token=specials[0], max_input_chars_per_word=200)
    backend = Tokenizer(model)
    _mark_spaces(backend, lowercase)
    backend.decoder = decoders.Sequence([decoders.Replace(Regex("^##(?=.)"), ""), backend.decoder])
    return backend


def _train_unigram(texts: Iterable[str], size: int, specials: list[str], lowercase: bool) -> Any:
    from tokenizers import Tokenizer, models

    from throughtime.text.unigram import unigram_pieces

    pieces = unigram_pieces(_word_counts(texts, lowercase), size - len(specials))
    backend = Tokenizer(models.Unigram([*((token, 0.0) for token in specials), *pieces], 0, False))
    _mark_spaces(backend, lowercase)
    return backend


def _train_byte_pairs(texts: Iterable[str], size: int, specials: list[str], lowercase: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _mark_spaces(backend: Any, lowercase: bool) -> None:
    """Make a tokenizer write each space as ▁, with one more before the text so that all words look alike."""
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    steps = [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    backend.decoder = decoders.Sequence(
        [decoders.Fuse(), decoders.Replace(_SPACE, " "), decoders.Strip(" ", 1, 0)]
    )


def _word_counts(texts: Iterable[str], lowercase: bool) -> Counter[str]:
    """How often each word occurs, cut as `_mark_spaces` will have it."""
    from tokenizers import Tokenizer, models

    backend = Tokenizer(models.WordPiece(unk_token="?"))
    _mark_spaces(backend, lowercase)
    normalizer, cutter = backend.normalizer, backend.pre_tokenizer
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in cutter.pre_tokenize_str(normalizer.normalize_str(text)))
    return counts


def _repeated(counts: Counter[str]) -> Iterable[str]:
    return chain.from_iterable(repeat(word, count) for word, count in counts.items())
