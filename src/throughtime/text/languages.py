"""The table of languages: codes, names and scripts."""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """A language. `code` has two letters; `other_codes` are outdated ones and those of three letters."""

    code: str
    name: str
    scripts: frozenset[str]
    other_codes: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()


# code | English name | scripts unless Latin, as named in `text/unicode.py` | other codes | other names
_TABLE = """
am | Amharic | ETHIOPIC
ar | Arabic | ARABIC | ara
be | Belarusian | CYRILLIC
bg | Bulgarian | CYRILLIC
bn | Bengali | BENGALI
bo | Tibetan | TIBETAN | bod tib
ca | Catalan
cs | Czech |  | ces cze
da | Danish
de | German |  | deu ger
dz | Dzongkha | TIBETAN | dzo
el | Greek | GREEK | ell gre
en | English |  | eng
eo | Esperanto
es | Spanish |  | spa
et | Estonian
fa | Persian | ARABIC
fi | Finnish
fr | French |  | fra fre
gu | Gujarati | GUJARATI
he | Hebrew | HEBREW | heb
hi | Hindi | DEVANAGARI | hin
hr | Croatian
hu | Hungarian
hy | Armenian | ARMENIAN
id | Indonesian
it | Italian |  | ita
ja | Japanese | CJK HIRAGANA KATAKANA | jpn jp | nihongo 日本語 日语 日文
ka | Georgian | GEORGIAN
km | Khmer | KHMER | khm
kn | Kannada | KANNADA
ko | Korean | HANGUL | kor | hangul hangugeo 한국어 조선말 韩语 韓語
lo | Lao | LAO | lao | laotian
lt | Lithuanian
lv | Latvian
mk | Macedonian | CYRILLIC
ml | Malayalam | MALAYALAM
mr | Marathi | DEVANAGARI
my | Burmese | MYANMAR | mya bur
nb | Norwegian
ne | Nepali | DEVANAGARI
nl | Dutch |  | dut nld
no | Norwegian
pa | Punjabi | GURMUKHI
pl | Polish |  | pol
pt | Portuguese |  | por
ro | Romanian
ru | Russian | CYRILLIC | rus
si | Sinhala | SINHALA
sk | Slovak
sl | Slovenian
sv | Swedish |  | swe
ta | Tamil | TAMIL
te | Telugu | TELUGU
th | Thai | THAI | tha
tr | Turkish |  | tur
uk | Ukrainian | CYRILLIC | ukr
ur | Urdu | ARABIC
vi | Vietnamese
yi | Yiddish | HEBREW
zh | Chinese | CJK | zho chi cmn yue wuu lzh nan hak cn | mandarin cantonese putonghua hanyu \
hanzi 中文 汉语 漢語 华语 華語 国语 國語 普通话 普通話 粤语 粵語
"""


def _read(line: str) -> Language:
    fields = [field.strip() for field in line.split("|")]
    code, name, scripts, codes, names = fields + [""] * (5 - len(fields))
    return Language(
        code, name, frozenset((scripts or "LATIN").split()), tuple(codes.split()), tuple(names.split())
    )


LANGUAGES = {language.code: language for language in map(_read, _TABLE.strip().splitlines())}
BY_CODE = {code: one for one in LANGUAGES.values() for code in (one.code, *one.other_codes)}
BY_NAME = {name: one for one in LANGUAGES.values() for name in (one.name.lower(), *one.other_names)}


def plain_code(code: str) -> str:
    """Return a code in lower case without its country or script.

    >>> plain_code("pt-BR"), plain_code("zh_Hans")
    ('pt', 'zh')
    """
    return code.lower().partition("-")[0].partition("_")[0]


def find_language(name: str) -> Language | None:
    """Find a language by its name or its code of two or three letters; None if it is not in the table.

    >>> found = (find_language(name) for name in ("fr-CA", "deu", "English", "source"))
    >>> [one and one.code for one in found]
    ['fr', 'de', 'en', None]
    """
    word = plain_code(name.strip())
    return BY_CODE.get(word) or BY_NAME.get(word)


def language_name(code: str) -> str:
    """Return the English name of a language; for an unknown one, its code.

    >>> language_name("fr"), language_name("eng"), language_name("tlh")
    ('French', 'English', 'tlh')
    """
    language = find_language(code)
    return language.name if language else code
