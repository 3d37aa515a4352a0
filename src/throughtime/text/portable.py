"""The files of a model's tokenizers in the form that the page of an exported model reads."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import normalizers, pre_tokenizers

from throughtime.errors import InputError
from throughtime.text import characters
from throughtime.text.characters import CharacterSets, Pattern, all_characters
from throughtime.text.codec import Codec
from throughtime.text.definition import LISTS, list_steps
from throughtime.text.subword import SUBWORDS, SubwordTokenizer, find_decoder, tokenizer_label

RULES = ("char", "word", "space", "basic-english", "translation", "unicode")
NORMALISERS = ("none", "nfc", "lower", "letters")
CHARACTERS = "characters.json"

Step = dict[str, Any]

_BYTE_LEVEL = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # as GPT-2 splits texts
)


def portable_files(folder: Path) -> dict[str, str]:
    """Return the text files in a folder that a model's `save` wrote, by path, as the page reads them.

    Tokenizers are checked and rewritten, and a table of characters is added unless the folder is empty.
    """
    files = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for path in [path for path in files if path.endswith("tokenizer_config.json")]:
        codec = Codec.load(folder / Path(path).parent)
        if isinstance(codec.tokenizer, SubwordTokenizer):
            file = path.removesuffix("tokenizer_config.json") + "tokenizer.json"
            files[file] = _to_json(describe_subword(codec.tokenizer))
        else:
            check_portable(codec)
    return files | {CHARACTERS: characters.python_table()} if files else {}


def check_portable(codec: Codec) -> None:
    """Raise an error if a page cannot split texts as this tokenizer does."""
    tokenizer = codec.tokenizer
    if isinstance(tokenizer, SubwordTokenizer):
        describe_subword(tokenizer)
    elif tokenizer.name not in RULES:
        known = ", ".join([*RULES, *SUBWORDS])
        raise InputError("tokens", f"is {tokenizer.name!r}, which a page does not have; it has {known}")
    elif tokenizer.options().get("normaliser", "none") not in NORMALISERS:
        name = tokenizer.options()["normaliser"]
        raise InputError(
            "normaliser", f"is {name!r}, which a page does not have; it has {', '.join(NORMALISERS)}"
        )


def describe_subword(tokenizer: SubwordTokenizer) -> dict[str, Any]:
    """Describe a subword tokenizer: its steps, with sets of characters in place of their names."""
    return _Description(tokenizer).to_dict()


class _Description:
    """Rewrites the parts of a `tokenizer.json` as few kinds of simple steps."""

    def __init__(self, tokenizer: SubwordTokenizer) -> None:
        self.tokenizer, self.sets = tokenizer, CharacterSets()
        self.parts: dict[str, Any] = json.loads(tokenizer.backend.to_str())
        self.tokens = tokenizer.vocabulary_tokens()

    def to_dict(self) -> dict[str, Any]:
        decoder: Any = find_decoder(self.tokenizer.backend)
        self.parts["decoder"] = json.loads(decoder.__getstate__())
        changes = self.rewrite("normalizer", self.normalize)
        return {
            "tokens": self.tokens,
            "special": self.tokenizer.special_tokens(),
            "added": self.list_added(),
            "normalizers": changes,
            "splitters": self.rewrite("pre_tokenizer", self.split),
            "model": self.model(),
            "decoders": self.rewrite("decoder", self.decode),
            "inBytes": '"ByteLevel"' in self.tokenizer.definition,
            "sets": self.sets.written,
            **self.tables(changes),
        }

    def rewrite(self, name: str, rewrite_step: Any) -> list[Step]:
        """Rewrite the steps of a part of the tokenizer."""
        return [new for step in list_steps(self.parts[name], LISTS[name]) for new in rewrite_step(step)]

    def tables(self, changes: Iterable[Step]) -> dict[str, Any]:
        """The characters that the library treats in another way than this Python."""
        kinds = {sign["type"] for sign in changes}
        tables: dict[str, Any] = {}
        if "Lowercase" in kinds:
            lower = normalizers.Lowercase()
            unassigned = [sign for sign in all_characters() if unicodedata.category(sign) == "Cn"]
            changed = ((sign, lower.normalize_str(sign)) for sign in unassigned)
            tables["lower"] = {sign: new for sign, new in changed if new != sign}
        if kinds & set(characters.FORMS):
            tables["inert"] = characters.write_ranges(characters.inert())
        return tables

    def list_added(self) -> list[list[Any]]:
        """The tokens that are found in a text before it is split, with whether they are special."""
        decoder = self.tokenizer.backend.get_added_tokens_decoder()
        if all(token.special for token in decoder.values()):
            return []
        for token in decoder.values():
            changes = token.normalized and self.parts["normalizer"]
            if token.lstrip or token.rstrip or token.single_word or changes:
                raise self.refuse(f"the added token {token.content!r} with options")
        return [[token.content, token.special] for token in decoder.values()]

    def normalize(self, step: Step) -> Iterator[Step]:
        """Rewrite a step that changes the text."""
        kind = step["type"]
        if kind == "Lowercase" or kind in characters.FORMS:
            yield {"type": kind}
        elif kind == "Prepend":
            yield {"type": kind, "text": step["prepend"]}
        elif kind == "Replace":
            yield self.replace(characters.translate_pattern(step["pattern"], self.sets), step["content"])
        elif kind == "Strip":
            space = self.white_space()
            if step["strip_left"]:
                yield self.replace(["^", space, "+"], "")
            if step["strip_right"]:
                yield self.replace([space, "+", "(?![^])"], "")
        elif kind in ("StripAccents", "Nmt"):
            yield from self.per_character(kind)
        elif kind == "ByteLevel":
            yield {"type": "Bytes"}
        elif kind == "Precompiled":
            joining, alone = characters.clusters(step["precompiled_charsmap"])
            table = {"table": step["precompiled_charsmap"]}
            yield {"type": kind, **table, "joining": self.sets.add(joining), "alone": self.sets.add(alone)}
        elif kind == "BertNormalizer":
            off = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
            if step["clean_text"]:
                yield from self.per_character(kind, **off | {"clean_text": True})
            if step["handle_chinese_chars"]:
                surrounded = characters.find_surrounded(kind, off | {"handle_chinese_chars": True})
                yield self.replace(["(", self.sets.add(surrounded), ")"], " $1 ", raw=True)
            if step["strip_accents"] or (step["strip_accents"] is None and step["lowercase"]):
                yield {"type": "NFD"}
                yield from self.per_character(kind, **off | {"strip_accents": True})
            if step["lowercase"]:
                yield {"type": "Lowercase"}
        else:
            raise self.refuse(f"the normalizer {kind}")

    def per_character(self, kind: str, **options: Any) -> Iterator[Step]:
        """Rewrite a normalizer that removes some characters and makes spaces of others."""
        change, removed, spaces = getattr(normalizers, kind)(**options).normalize_str, "", ""
        for sign in all_characters():
            if unicodedata.normalize("NFD", sign) == sign and (new := change(sign)) != sign:
                removed, spaces = (removed + sign, spaces) if not new else (removed, spaces + sign)
        yield self.replace([self.sets.add(removed)], "")
        if spaces:
            yield self.replace([self.sets.add(spaces)], " ")

    def split(self, step: Step) -> Iterator[Step]:
        """Rewrite a step that splits the text."""
        kind = step["type"]
        if kind == "Split":
            pattern = characters.translate_pattern(step["pattern"], self.sets)
            yield self.cut(pattern, step["behavior"], step["invert"])
        elif kind == "ByteLevel":
            if step["add_prefix_space"]:
                yield {"type": "Prefix", "text": " ", "first": False}
            if step.get("use_regex", True):
                yield self.cut(characters.translate_pattern({"Regex": _BYTE_LEVEL}, self.sets), "Isolated")
            yield {"type": "Bytes"}
        elif kind == "Metaspace":
            sign, scheme = step["replacement"], step.get("prepend_scheme", "always")
            literal = characters.translate_pattern({"String": sign}, self.sets)
            yield self.replace([r"\u{20}"], sign)
            if scheme != "never":
                yield {"type": "Prefix", "text": sign, "first": scheme == "first"}
            if step.get("split", True):
                yield self.cut(literal, "MergedWithNext")
        elif kind == "Whitespace":
            word, other = (self.sets.add(members) for members in characters.words_and_signs())
            yield self.cut([word, "+|", other, "+"], "Removed", invert=True)
        elif kind == "WhitespaceSplit":
            yield self.cut([self.white_space()], "Removed")
        elif kind == "BertPreTokenizer":
            yield self.cut([self.white_space()], "Removed")
            yield self.cut([self.punctuation()], "Isolated")
        elif kind == "Punctuation":
            yield self.cut([self.punctuation()], step["behavior"])
        elif kind == "Digits":
            digit = self.sets.add("".join(characters.digits()))
            yield self.cut([digit], "Isolated" if step["individual_digits"] else "Contiguous")
        elif kind == "CharDelimiterSplit":
            yield self.cut(characters.translate_pattern({"String": step["delimiter"]}, self.sets), "Removed")
        else:
            raise self.refuse(f"the pre-tokenizer {kind}")

    def decode(self, step: Step) -> Iterator[Step]:
        """Rewrite a step that joins pieces."""
        kind = step["type"]
        if kind == "Replace":
            yield self.replace(characters.translate_pattern(step["pattern"], self.sets), step["content"])
        elif kind in ("Fuse", "ByteFallback", "ByteLevel", "Strip", "WordPiece", "BPEDecoder"):
            yield step
        elif kind == "Metaspace":
            keeps = step.get("prepend_scheme", "always") == "never"
            yield {"type": kind, "sign": step["replacement"], "keepsFirst": keeps}
        else:
            raise self.refuse(f"the decoder {kind}")

    def model(self) -> dict[str, Any]:
        """The model, with the ids of its merges or the scores of its pieces."""
        model, kind = self.parts["model"], self.parts["model"]["type"]
        names = {"unk": "unk_token", "prefix": "continuing_subword_prefix", "suffix": "end_of_word_suffix"}
        flags = {"fuse": "fuse_unk", "bytes": "byte_fallback", "whole": "ignore_merges"}
        described = {"type": kind} | {key: model.get(name) or "" for key, name in names.items()}
        described |= {key: bool(model.get(name)) for key, name in flags.items()}
        if kind == "Unigram":
            pieces = model["vocab"]
            described |= {"scores": [score for _, score in pieces], "unk": model["unk_id"]}
            ids = {token: number for number, (token, _) in enumerate(pieces)}
        else:
            ids = model["vocab"]
        if any(self.tokens[number] != token for token, number in ids.items()):
            raise self.refuse("tokens that share an id")
        described["outside"] = [number for number, token in enumerate(self.tokens) if token not in ids]
        if kind == "BPE":
            if model.get("dropout"):
                raise self.refuse("dropout")
            pairs = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
            described["merges"] = [ids[piece] for pair in pairs for piece in pair]
        if kind == "WordPiece":
            described["longest"] = model["max_input_chars_per_word"]
        return described

    def white_space(self) -> int:
        """The set of white space."""
        return self.sets.add(characters.removed_by(pre_tokenizers.WhitespaceSplit()))

    def punctuation(self) -> int:
        """The set of punctuation."""
        return self.sets.add(characters.removed_by(pre_tokenizers.Punctuation("removed")))

    def replace(self, pattern: Pattern, content: str, raw: bool = False) -> Step:
        """A step that replaces what a pattern finds; `raw` contents may name groups of the pattern."""
        content = content if raw else content.replace("$", "$$")
        return {"type": "Replace", "pattern": pattern, "content": content}

    def cut(self, pattern: Pattern, behavior: str, invert: bool = False) -> Step:
        """A step that splits a text at what a pattern finds."""
        return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    def refuse(self, what: str) -> InputError:
        """The error for something that a page cannot do."""
        problem = f"has {what}, which a page does not support; use another tokenizer"
        return InputError(tokenizer_label(self.tokenizer), problem)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
