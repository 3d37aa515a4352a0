"""Texts of many scripts, drawn at random, and the tokenizers that read them."""

from __future__ import annotations

import random
import struct
import unicodedata
from collections.abc import Iterator
from typing import Any

SENTENCES = (
    "The cat's whiskers aren't 3.5 cm long, but -7 % isn't \"bad\" (really)!",
    "L'homme d'aujourd'hui qu'il a vu ; «\u202fVa\u202f!\u202f»",
    "Lorsqu’on jusqu’ici, ſ'il PUIS'Qu'un puıſqu'on",
    "Grüße aus Straßburg — ÀÉÎÕÜ, ÅNGSTRÖM, İstanbul ILIK ıslak Ǆ ǅ",
    "Ὀδυσσεύς ΟΔΟΣ ΣΑΣ. ΣΊΣΥΦΟΣ Σ' Σ: Σ\u0301 αΣ\u200dβ ᾳ ᾼ ὓ",
    "Привет, мир! Ёлка й и\u0306 Ѐ ѝ",
    "مرحبا بالعالم! السلام عليكم ١٢٣ ۴۵ ﷺ ﻻ",
    "שלום עולם, בְּרֵאשִׁית 'גרש׳",
    "नमस्ते दुनिया! क्षत्रिय १२३ ड़ \u0921\u093c",
    "สวัสดีชาวโลก ๑๒๓ กำ",
    "你好，世界！我今年20岁。「引号」（括号） 凜\ufa15",
    "こんにちは、世界。カタカナ ｶﾀｶﾅ がか\u3099 ㍿ ｡",
    "안녕하세요 세계! 한\u1112\u1161\u11ab \u1100\u1161\u11a8 각",
    "👩\u200d👩\u200d👧\u200d👦 👍🏽 🇫🇷🇩🇪 ❤\ufe0f 😀😁 🏳\ufe0f\u200d🌈",
    "e\u0301 a\u0323\u0302 a\u0302\u0323 q\u0307\u0323 \u0301x ﬁ ﬀ Ⅷ ① ½ ² ™ ǆ Å \u1e9b\u0323",
    "a\tb\nc\rd\x0be\x0cf\x1cg\x1dh\x1ei\x1fj\x85k\xa0l\u1680m\u2003n\u2028o\u2029p\u202fq\u205fr\u3000s\ufefft",
    "\x00\x01\x7f\x80\x9f\u200b\u200c\u200e\u202e\u2060\ufff9",
    "\u0378\u0530\u1c89\ua7ce\U00010d50\U00016ea0\U0001e6c0\U000323b0\U0003fffe\U000e0001\U000e01f0\U0010ffff",
    "\u1acf\u1ae0\u0897\U00011f5a\U00010efa\U00010ec5\U0001171e\U00011938\U00011935\U00011930\U0001133e\U00011357",
    "<unk> <br <br />/> [MASK] [UNK] ___ <eos> ##ing # ## ▁ ▁▁a  b   c </w> <0xE4> Ġ",
    "Don't (I'LL, we'Ve) they're 100,000.5:30 a/b @me #tag $5 £6 x@y.z - -5 -x a--b ... ?!",
    "“q” „r“ “s“ 'my parents' s' the boys' \"x\" 'y' z",
)
SCRIPTS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x531, 0x6FF), (0x900, 0xDFF),
    (0xE00, 0x109F), (0x10A0, 0x13FF), (0x1D00, 0x20FF), (0x2100, 0x2BFF), (0x2C00, 0x30FF), (0x3100, 0x9FFF),
    (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x11FFF),
    (0x12000, 0x1FFFF), (0x20000, 0x33FFF), (0x40000, 0x10FFFF),
)  # fmt: skip
MARKS = " .,!?'’-:;()\"_#$%\n\u00a0\u0301\u200d"
LANGUAGE_TEXTS = (
    "the cat sat on the mat. it's the cat that sat, isn't it? 12 34",
    "le chat l'homme d'un « oui » jusqu'au bout; où est-il ?",
    "Привет мир как дела Σίσυφος οδός", "我们今天去学校。こんにちは カタカナ",
    "नमस्ते แมว 안녕 مرحبا שלום 😀👍🏽",
)  # fmt: skip
REPLACED = {
    **{one: unicodedata.normalize("NFKC", one) for one in "ﬁﬀⅧ①½²™ǆÅ㍿ｶﾀﷺ\u00a0\u3000\ufa15"},
    **dict.fromkeys("\t\n\r\u200b\u2028", " "),
    **dict.fromkeys("\x01\x7f\u200d", ""),
    **{unicodedata.normalize("NFD", one): one for one in "éàÀüйが"},
    "e\u0301\u0323": "E",
    "a": "α",
    "😀": ":)",
}
"""Replacements like those of SentencePiece, and some that overlap."""


def draw_texts(count: int, seed: int = 0) -> list[str]:
    """Draw texts: parts of sentences, characters of one script or of all, and changed sentences."""
    draws = random.Random(seed)
    texts = ["", " ", "a", *SENTENCES, *LANGUAGE_TEXTS]
    while len(texts) < count:
        texts.append("".join(_parts(draws)))
    return texts[:count]


def _parts(draws: random.Random) -> Iterator[str]:
    for _ in range(draws.randint(1, 4)):
        way = draws.randrange(5)
        if way <= 1:
            text = draws.choice(SENTENCES + LANGUAGE_TEXTS)
            start = draws.randrange(len(text))
            part = text[start : start + draws.randint(1, 30)]
        elif way == 2:
            first, last = draws.choice(SCRIPTS)
            part = "".join(_character(draws, first, last) for _ in range(draws.randint(1, 12)))
        elif way == 3:
            part = "".join(_character(draws, *draws.choice(SCRIPTS)) for _ in range(draws.randint(1, 6)))
        else:
            part = "".join(draws.choices("aAsSzéΣσΙİıſ019我ア각" + MARKS, k=draws.randint(1, 10)))
        change = draws.randrange(12)
        if change == 0:
            part = part.upper()
        elif change == 1:
            part = unicodedata.normalize("NFD", part)
        elif change == 2:
            part = "".join(one + draws.choice(MARKS) for one in part)
        yield part


def _character(draws: random.Random, first: int, last: int) -> str:
    while 0xD800 <= (code := draws.randint(first, last)) <= 0xDFFF:
        pass
    return chr(code)


def replacement_table(replaced: dict[str, str]) -> bytes:
    """Write a table of replacements as SentencePiece does: a double-array trie, and the new texts."""
    texts, starts = b"", {}
    for key, text in replaced.items():
        starts[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    units, taken = {0: 0}, {0}

    def place_children(prefix: bytes, unit: int) -> None:
        following = {key[len(prefix)] for key in starts if key.startswith(prefix) and key != prefix}
        labels = sorted(following | ({0} if prefix in starts else set()))
        # The units of all children differ from the place of this one by the same offset.
        offset = next(
            step for step in range(1, 1 << 21) if not taken & {unit ^ step ^ label for label in labels}
        )
        taken.update(unit ^ offset ^ label for label in labels)
        units[unit] |= offset << 10 | (prefix in starts) << 8
        for label in labels:
            child = unit ^ offset ^ label
            units[child] = label if label else 1 << 31 | starts[prefix]
            if label:
                place_children(prefix + bytes([label]), child)

    place_children(b"", 0)
    length = (max(units) | 255) + 1
    return struct.pack(f"<I{length}I", 4 * length, *(units.get(n, 0) for n in range(length))) + texts


def foreign_tokenizers() -> dict[str, Any]:
    """Tokenizers as other programs save them, by name; trained on few sentences."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, trainers
    from tokenizers import normalizers as change
    from tokenizers import pre_tokenizers as cut

    texts = [*SENTENCES, *LANGUAGE_TEXTS] * 3
    specials = ["<unk>", "<s>", "</s>", "<pad>"]

    def train(model: Any, trainer: Any, normalizer: Any, cutter: Any, decoder: Any) -> Any:
        made = Tokenizer(model)
        made.normalizer, made.pre_tokenizer = normalizer, cutter
        made.train_from_iterator(texts, trainer)
        if decoder is not None:
            made.decoder = decoder
        return made

    pairs: dict[str, Any] = {"vocab_size": 500, "special_tokens": specials, "show_progress": False}
    bert = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    pieces = trainers.WordPieceTrainer(vocab_size=400, special_tokens=bert, show_progress=False)
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    fallback = trainers.BpeTrainer(vocab_size=700, special_tokens=specials + bytes_, show_progress=False)
    alphabet = cut.ByteLevel.alphabet()
    level = trainers.BpeTrainer(**pairs, initial_alphabet=alphabet)
    split4 = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    words = models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True)
    llama = models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    scored = trainers.UnigramTrainer(
        vocab_size=420, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    made = {
        "bert": train(models.WordPiece(unk_token="[UNK]"), pieces, change.BertNormalizer(),
                      cut.BertPreTokenizer(), decoders.WordPiece()),
        "cased": train(models.WordPiece(unk_token="[UNK]"), pieces, change.BertNormalizer(lowercase=False),
                       cut.BertPreTokenizer(), None),
        "gpt2": train(models.BPE(), level, None, cut.ByteLevel(add_prefix_space=True), decoders.ByteLevel()),
        "gpt4": train(models.BPE(ignore_merges=True), level, change.NFC(),
                      cut.Sequence([cut.Split(Regex(split4), "isolated"),
                                    cut.ByteLevel(add_prefix_space=False, use_regex=False)]),
                      decoders.ByteLevel()),
        "llama": train(llama, fallback, change.Sequence([change.Prepend("▁"), change.Replace(" ", "▁")]),
                       None, decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                                decoders.Fuse(), decoders.Strip(" ", 1, 0)])),
        "suffix": train(words, trainers.BpeTrainer(**pairs, end_of_word_suffix="</w>"),
                        change.Sequence([change.NFKC(), change.Lowercase()]), cut.Whitespace(),
                        decoders.BPEDecoder("</w>")),
        "sentencepiece": train(models.Unigram(), scored,
                               change.Sequence([change.NFKD(), change.StripAccents(), change.Strip()]),
                               cut.Metaspace(), decoders.Metaspace()),
        "precompiled": train(models.Unigram(), scored, change.Precompiled(replacement_table(REPLACED)),
                             cut.Metaspace(), decoders.Metaspace()),
        "wordlevel": train(models.WordLevel(unk_token="<unk>"),
                           trainers.WordLevelTrainer(vocab_size=200, special_tokens=specials,
                                                     show_progress=False),
                           change.NFD(),
                           cut.Sequence([cut.WhitespaceSplit(), cut.Digits(individual_digits=True),
                                         cut.Punctuation("merged_with_previous")]), None),
    }  # fmt: skip
    made["bert"].add_special_tokens(bert)
    made["gpt4"].add_tokens([AddedToken("  ", normalized=False), AddedToken("<br", normalized=False)])
    made["gpt4"].add_special_tokens(["<br />"])
    return made
