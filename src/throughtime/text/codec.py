"""A tokenizer and a vocabulary together: text to ids and back."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from throughtime.errors import InputError
from throughtime.files import read_json, whole_file
from throughtime.text.input_warnings import InputWarnings, TokenizerCoverage, blank
from throughtime.text.subword import SUBWORDS, SubwordTokenizer, read_definition, tokenizer_file
from throughtime.text.texts import check_text
from throughtime.text.tokenizer import Tokenizer, check_normaliser
from throughtime.text.tokenizer import tokenizer as build_tokenizer
from throughtime.text.vocabulary import Vocabulary

RESERVED = ("<pad>", "<unk>", "<bos>", "<eos>")
RESERVED_OF = {"translate": RESERVED, "compose": RESERVED, "classify": ("<pad>", "<unk>")}
"""The reserved tokens of tasks that read each text alone."""
SUBWORD_SIZE = 8000
BEGIN, END = "⟨begin⟩", "⟨end⟩"
"""How the marks around a sequence are displayed, whatever their names in the vocabulary."""
WINDOW = 24
"""Number of tokens that are decoded again to see what a new one adds; spacing depends on near tokens only."""

LOWERCASE: dict[str, dict[str, Any]] = {"char": {"normaliser": "lower"}, "unicode": {"lower": True}}
"""The options with which tokenizers by rule turn text into lowercase letters."""


class Codec:
    """Converts text to ids and back.

    For a text whose tokens are all in the vocabulary, `decode(encode(text)) == tokenizer.normalise(text)`. A
    reserved token that is spelled out in a corpus (`<unk>` in the Penn Treebank) gets its id.

    >>> codec = Codec.build(["go .", "run !"], tokenizer="translation")
    >>> codec.encode("Run.", eos=True), codec.decode([2, 6, 7, 3])
    ([6, 5, 3], 'run !')
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.notes: tuple[str, ...] = ()
        self._silent = frozenset(vocabulary[sorted(vocabulary.reserved)]) - {vocabulary.unk_id}

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        tokenizer: str | Tokenizer,
        min_freq: int = 1,
        max_size: int | None = None,
        reserved: Sequence[str] = RESERVED,
        normaliser: str = "none",
        where: str = "the training text",
        *,
        lowercase: bool = False,
    ) -> Codec:
        """Build a codec from texts, which are read once; `where` names them in messages.

        `tokenizer` is a name or the path of a `tokenizer.json`. For `wordpiece`, `bpe` and `unigram`, a
        tokenizer of `max_size` pieces (8,000 by default) is trained, with special tokens of its own;
        `min_freq` and `reserved` apply to the others, and `normaliser` to `char`. With `lowercase`, all text
        becomes lower case. Texts without tokens are an error; warnings about them are in the codec's `notes`.
        """
        check_normaliser(normaliser, tokenizer if isinstance(tokenizer, str) else tokenizer.name)
        if isinstance(tokenizer, str) and tokenizer.endswith(".json"):
            tokenizer = tokenizer_file(tokenizer)
        if isinstance(tokenizer, str) and tokenizer in SUBWORDS:
            from throughtime.text.subword_training import train_subword

            size = max_size or SUBWORD_SIZE
            tokenizer = train_subword(tokenizer, _check_visible(texts, where), size, lowercase=lowercase)
        if isinstance(tokenizer, str):
            options: dict[str, Any] = {"normaliser": normaliser} if normaliser != "none" else {}
            if lowercase and tokenizer in LOWERCASE:
                options = LOWERCASE[tokenizer]
            tokenizer = build_tokenizer(tokenizer, **options)
        if lowercase and tokenizer.normalise("A") != "a":
            known = ", ".join([*LOWERCASE, *SUBWORDS])
            raise InputError("lowercase", f"does not go with tokens {tokenizer.name!r}; choose {known}")
        if isinstance(tokenizer, SubwordTokenizer):
            return cls(tokenizer, subword_vocabulary(tokenizer))
        counts: Counter[str] = Counter()
        coverage = TokenizerCoverage(tokenizer, where)
        for text in texts:
            counts.update(coverage.tokenize(check_text(text, where)))
        notes = coverage.notes()  # refuses texts without tokens
        codec = cls(tokenizer, Vocabulary.from_counts(counts, min_freq, max_size, reserved))
        codec.notes = notes
        return codec

    def encode(self, text: str, bos: bool = False, eos: bool = False) -> list[int]:
        """Return the ids of a text, optionally with the ids that begin and end a sequence."""
        ids = self.vocabulary[self.tokenizer.tokenize(text)]
        if bos:
            ids.insert(0, _require(self.vocabulary.bos_id, "<bos>"))
        if eos:
            ids.append(_require(self.vocabulary.eos_id, "<eos>"))
        return ids

    def decode(self, ids: Iterable[int], skip_reserved: bool = True) -> str:
        """Return the text of ids, by default without reserved tokens other than the unknown one."""
        numbers = [int(number) for number in ids]
        if skip_reserved:
            numbers = [number for number in numbers if number not in self._silent]
        return self.tokenizer.detokenize(self.vocabulary.tokens(numbers))

    @cached_property
    def warnings(self) -> InputWarnings:
        """Finds texts that this tokenizer and vocabulary know little about."""
        return InputWarnings(self.tokenizer, self.vocabulary)

    @cached_property
    def hash(self) -> str:
        """A digest of everything that determines the ids of a text, the same on every machine."""
        parts = [self.tokenizer.name, self.tokenizer.options(), self.vocabulary.hash]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path | str) -> None:
        """Write the files of the tokenizer to a folder, which may contain other files."""
        folder = Path(folder)
        config: dict[str, Any] = {"tokenizer": self.tokenizer.name, "options": {}}
        if isinstance(self.tokenizer, SubwordTokenizer):
            with whole_file(folder / "tokenizer.json") as file:
                file.write(self.tokenizer.definition)
        else:
            config["options"] = self.tokenizer.options()
            self.vocabulary.save(folder / "vocabulary.txt")
        with whole_file(folder / "tokenizer_config.json") as file:
            json.dump(config, file, ensure_ascii=False, indent=2)
            file.write("\n")

    @classmethod
    def load(cls, folder: Path | str) -> Codec:
        """Read what `save` wrote."""
        folder = Path(folder)
        name, options = _read_config(folder / "tokenizer_config.json")
        if name in SUBWORDS:
            subword = SUBWORDS[name](read_definition(folder / "tokenizer.json"))
            return cls(subword, subword_vocabulary(subword))
        return cls(build_tokenizer(name, **options), Vocabulary.load(folder / "vocabulary.txt"))


def choose_reserved(layout: str | None, task: str = "language") -> tuple[str, ...]:
    """Return the reserved tokens of a task; texts in lines have marks at their ends.

    >>> choose_reserved("stream"), choose_reserved("lines"), choose_reserved("lines", "ngram")
    (('<unk>',), ('<unk>', '<eos>'), ('<unk>', '<bos>', '<eos>'))
    """
    if task in RESERVED_OF:
        return RESERVED_OF[task]
    marks = ("<bos>", "<eos>") if task == "ngram" else ("<eos>",)
    return ("<unk>", *marks) if layout == "lines" else ("<unk>",)


def subword_vocabulary(tokenizer: SubwordTokenizer) -> Vocabulary:
    """Build the vocabulary of a subword tokenizer, with the ids of its definition."""
    return Vocabulary(tokenizer.vocabulary_tokens(), reserved=tokenizer.special_tokens())


def pieces(codec: Codec, ids: Sequence[int]) -> list[str]:
    """Return what each id adds to the text, including spaces; the name of a mark such as ⟨end⟩."""
    return [piece(codec, ids[:position], number) for position, number in enumerate(ids)]


def piece(codec: Codec, before: Sequence[int], number: int) -> str:
    """Return what one id adds to the text of the ids before it.

    The last byte of a character adds the character, although the bytes before it were drawn as unknown.
    """
    marks = {codec.vocabulary.bos_id: BEGIN, codec.vocabulary.eos_id: END}
    if number in marks:
        return marks[number]
    token = codec.vocabulary.token(number)
    if token in codec.vocabulary.reserved:
        return token
    near = list(before[-WINDOW:])
    return cut_common(codec.decode(near), codec.decode([*near, number]))


def cut_common(text: str, longer: str) -> str:
    """Return what a longer text has after its beginning in common with another one.

    A token may change what was written before it, such as the space after a quotation mark.

    >>> cut_common("he said ' ", "he said 'yes")
    'yes'
    """
    pairs = enumerate(zip(text, longer, strict=False))
    return longer[next((position for position, (old, new) in pairs if old != new), len(text)) :]


def label(piece: str, before: str = "") -> str:
    """Return the label of a piece on an axis: without its space, and with a dot if it continues a word.

    >>> label(" jar", "le"), label("din", " jar"), label("Ma", "<bos>"), label(".", "din"), label(" ", "a")
    ('jar', '·din', 'Ma', '.', '␣')
    """
    inner = piece.strip()
    if not inner:
        return "␣"
    within = piece[0].isalnum() and before[-1:].isalnum()
    return f"·{inner}" if within else inner


def labels(pieces: Sequence[str]) -> list[str]:
    """Return the labels of pieces on an axis; if all are single characters, none has a dot.

    >>> labels(["Ma", " jar", "din", "."]), labels(list("a be"))
    (['Ma', 'jar', '·din', '.'], ['a', '␣', 'b', 'e'])
    """
    single = all(len(text) <= 1 for text in pieces if not text.startswith(("<", "[", BEGIN, END)))
    before = ["", *pieces] if not single else [""] * len(pieces)
    return [label(text, previous) for text, previous in zip(pieces, before, strict=False)]


def _check_visible(texts: Iterable[str], where: str) -> Iterator[str]:
    """Yield the texts unchanged; raise at the end if all of them were blank."""
    seen = False
    for text in texts:
        seen = seen or bool(text.strip())
        yield text
    if not seen:
        raise blank(where)


def _require(number: int | None, name: str) -> int:
    if number is None:
        raise InputError("vocabulary", f"has no {name}; build it with {name} among its reserved tokens")
    return number


def _read_config(path: Path) -> tuple[str, dict[str, Any]]:
    if not path.exists():
        raise InputError(str(path), "does not exist; every folder with a tokenizer has this file")
    content = 'it holds {"tokenizer": NAME, "options": {...}}'
    config = read_json(path, content)
    try:
        name, options = config["tokenizer"], config["options"]
        if not all(isinstance(value, str | bool | int) for value in (name, *options.values())):
            raise ValueError
        return str(name), options
    except (AttributeError, ValueError, KeyError, TypeError):
        raise InputError(str(path), f"is damaged; {content}") from None
