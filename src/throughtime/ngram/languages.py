"""Languages by their codes: what they are called, and the words that give them away."""

from __future__ import annotations

from importlib.resources import files

NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nb": "Norwegian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}

COMMON_WORDS = {
    "cs": (
        "já ty on ona my vy oni je jsem jsi jsme jsou byl byla bylo být mít má máme nemá a i ale nebo že "
        "když protože jako co kdo kde kdy proč jak ten ta to tento tato v ve na do z ze s se si k ke o po "
        "pro při pod nad před za u od už ještě také jen velmi dobrý malý velký muž žena dítě lidé dům den "
        "rok čas voda ulice město dva tři děkuji prosím ano ne dobře dnes zítra chci může několik černý "
        "bílý pes stojí sedí"
    ),
    "de": (
        "ich du er sie es wir ihr ist bin bist sind war waren sein haben hat hatte habe werden wird wurde "
        "und oder aber dass wenn weil wie was wer wo wann warum der die das den dem des ein eine einen "
        "einem einer kein nicht in im auf an am zu zum zur mit von vom für bei nach aus über unter vor "
        "durch um gegen ohne auch noch nur schon sehr gut klein groß mann frau kind menschen leute haus tag "
        "jahr zeit wasser straße stadt zwei drei danke bitte ja nein heute morgen möchte kann steht sitzt "
        "läuft hund schwarz weiß junge mädchen einige während zwischen"
    ),
    "en": (
        "i you he she it we they is am are was were be been have has had do does did and or but that if "
        "because as what who where when why how the a an this these those not no in on at to of for with "
        "from by about over under before after through into out up down also still only already very good "
        "small big large man woman child people house day year time water street city two three thank "
        "please yes today tomorrow would could should can will stands sits runs dog black white boy girl "
        "some while between there their which your would wearing playing walking looking holding"
    ),
    "es": (
        "yo tú él ella usted nosotros ellos es soy eres somos son era fue ser estar está están tener tiene "
        "ha hay y o pero que si porque como qué quién dónde cuándo por el la los las un una unos unas este "
        "esta no en a al de del para con sin sobre entre hasta desde también todavía solo ya muy bueno "
        "pequeño grande hombre mujer niño niña gente casa día año tiempo agua calle ciudad dos tres gracias "
        "favor sí hoy mañana quiero puede perro negro blanco mientras algunos"
    ),
    "fr": (
        "je tu il elle nous vous ils elles on est suis es sommes êtes sont était être avoir a ai as avons "
        "avez ont et ou mais que qui si parce comme quoi où quand pourquoi le la les un une des du de ce "
        "cette ces ne pas plus dans en à au aux pour avec sans sur sous entre chez par aussi encore "
        "seulement déjà très bon petit grand homme femme enfant gens maison jour année temps eau rue ville "
        "deux trois merci oui non aujourd'hui demain veux peut chien noir blanc garçon fille pendant "
        "quelques l'homme d'un qu'il c'est n'est j'ai s'il plaît voudrais"
    ),
    "it": (
        "io tu lui lei noi voi loro è sono sei siamo era essere avere ho hai ha abbiamo hanno e o ma che se "
        "perché come cosa chi dove quando il lo la i gli le un uno una questo questa non in a al alla di "
        "del della dei nel nella per con su sul tra fra da dal anche ancora solo già molto buono piccolo "
        "grande uomo donna bambino gente casa giorno anno tempo acqua strada città due tre grazie prego sì "
        "oggi domani vuole può cane nero bianco ragazzo ragazza mentre alcuni"
    ),
    "ja": "これ は 日本語 です。 わたし の 犬 が います か。 ありがとう ございます。 コーヒー を 飲みます。",
    "ko": "저는 한국어를 합니다. 이것은 무엇입니까? 감사합니다.",
    "nl": (
        "ik jij je hij zij ze wij we jullie is ben bent zijn was waren heb hebt heeft hebben had worden "
        "wordt en of maar dat als omdat zoals wat wie waar wanneer waarom hoe de het een deze dit die niet "
        "geen in op aan te naar van voor met bij uit over onder door om tegen zonder ook nog alleen al zeer "
        "goed klein groot man vrouw kind mensen huis dag jaar tijd water straat stad twee drie dank "
        "alstublieft ja nee vandaag morgen wil kan staat zit loopt hond zwart wit jongen meisje enkele "
        "terwijl tussen"
    ),
    "pt": (
        "eu tu ele ela você nós vocês eles é sou és somos são era foi ser estar está estão ter tem há e ou "
        "mas que se porque como o quem onde quando a os as um uma uns umas este esta isto não em no na nos "
        "nas ao à de do da dos das para por com sem sobre entre até também ainda só já muito bom pequeno "
        "grande homem mulher criança pessoas casa dia ano tempo água rua cidade dois três obrigado sim hoje "
        "amanhã quero pode cão preto branco menino menina enquanto alguns"
    ),
    "ru": (
        "я ты он она оно мы вы они есть был была было были быть и или но что если потому как кто где когда "
        "почему этот эта это эти не нет в во на к ко из с со у о об по для при под над перед за от до уже "
        "ещё также только очень хороший маленький большой мужчина женщина ребёнок люди дом день год время "
        "вода улица город два три спасибо пожалуйста да сегодня завтра хочу может собака чёрный белый "
        "мальчик девочка"
    ),
    "zh": "我们说中文。他是谁？这只狗在哪里？谢谢你。",
}
"""The commonest words of languages, by hand: enough to tell languages apart, not to speak them."""


def _sentences() -> dict[str, str]:
    """The sentences of `sentences.txt` by language; they help to tell similar languages apart."""
    text = files(__package__).joinpath("sentences.txt").read_text("utf-8")
    return {block[:2]: block[3:].replace("\n", " ") for block in text.removeprefix("[").split("\n[")}


SAMPLES = {**COMMON_WORDS, **{code: f"{COMMON_WORDS[code]} {own}" for code, own in _sentences().items()}}
"""Words and sentences of languages, by their codes."""


SCRIPTS = {
    "am": "ETHIOPIC",
    "ar": "ARABIC",
    "be": "CYRILLIC",
    "bg": "CYRILLIC",
    "bn": "BENGALI",
    "bo": "TIBETAN",
    "el": "GREEK",
    "fa": "ARABIC",
    "gu": "GUJARATI",
    "he": "HEBREW",
    "hi": "DEVANAGARI",
    "hy": "ARMENIAN",
    "ja": "CJK HIRAGANA KATAKANA",
    "ka": "GEORGIAN",
    "km": "KHMER",
    "kn": "KANNADA",
    "ko": "HANGUL",
    "lo": "LAO",
    "mk": "CYRILLIC",
    "ml": "MALAYALAM",
    "mr": "DEVANAGARI",
    "my": "MYANMAR",
    "ne": "DEVANAGARI",
    "pa": "GURMUKHI",
    "ru": "CYRILLIC",
    "si": "SINHALA",
    "ta": "TAMIL",
    "te": "TELUGU",
    "th": "THAI",
    "uk": "CYRILLIC",
    "ur": "ARABIC",
    "yi": "HEBREW",
    "zh": "CJK",
}
"""The scripts of languages that are not written in Latin letters, as `text/scripts.py` calls them."""

_CODES = {
    "ara": "ar",
    "ces": "cs",
    "chi": "zh",
    "cmn": "zh",
    "cze": "cs",
    "deu": "de",
    "dut": "nl",
    "ell": "el",
    "eng": "en",
    "fra": "fr",
    "fre": "fr",
    "ger": "de",
    "gre": "el",
    "heb": "he",
    "hin": "hi",
    "ita": "it",
    "jpn": "ja",
    "kor": "ko",
    "mandarin": "zh",
    "nld": "nl",
    "pol": "pl",
    "por": "pt",
    "rus": "ru",
    "spa": "es",
    "swe": "sv",
    "tha": "th",
    "tur": "tr",
    "ukr": "uk",
    "zho": "zh",
} | {name.lower(): code for code, name in NAMES.items()}


def plain(code: str) -> str:
    """The language of a code without its country or script.

    >>> plain("pt-BR"), plain("zh_Hans")
    ('pt', 'zh')
    """
    return code.lower().partition("-")[0].partition("_")[0]


def language_code(name: str) -> str | None:
    """The two-letter code of a language given by a code of two or three letters, or by its name.

    >>> language_code("fr-CA"), language_code("deu"), language_code("English"), language_code("source")
    ('fr', 'de', 'en', None)
    """
    code = plain(name.strip())
    code = _CODES.get(code, code)
    return code if code in NAMES or code in SCRIPTS else None


def scripts_of(code: str) -> frozenset[str]:
    """The scripts that a language is written in; empty if they are not known.

    >>> sorted(scripts_of("ja")), sorted(scripts_of("fr")), sorted(scripts_of("tlh"))
    (['CJK', 'HIRAGANA', 'KATAKANA'], ['LATIN'], [])
    """
    return frozenset((SCRIPTS.get(code) or ("LATIN" if code in NAMES else "")).split())


def name_of(code: str) -> str:
    """What a language is called in English; its code where that is not known.

    >>> name_of("fr"), name_of("eng"), name_of("tlh")
    ('French', 'English', 'tlh')
    """
    return NAMES.get(language_code(code) or "", code)
