"""How things are: qualities, places, ages, prices, hours, weather, and what people wear."""

from __future__ import annotations

from throughtime.data.embedded import chinese, english, french
from throughtime.data.embedded.adjectives import ADJECTIVES, COLOURS, Adjective, colours_of
from throughtime.data.embedded.adverbials import Adverbial
from throughtime.data.embedded.clauses import Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.nouns import NOUNS
from throughtime.data.embedded.numbers import CHINESE_COUNT, CHINESE_NUMBER, ENGLISH_NUMBER, FRENCH_NUMBER
from throughtime.data.embedded.people import (
    ASKED_ABOUT,
    COUPLES,
    FAMILY,
    GENTLEFOLK,
    HE,
    MEN,
    NAMES,
    RELATIVES,
    SHE,
    SPOKEN_OF,
    THEY,
    WE,
    WOMEN,
    YOUR_FAMILY,
    I,
    Person,
)
from throughtime.data.embedded.phrases import Thing

QUALITIES = {
    "soup": "hot cold delicious salty",
    "salad": "fresh delicious",
    "tea": "hot cold sweet",
    "coffee": "hot cold sweet",
    "cake": "delicious sweet expensive",
    "fish": "fresh delicious salty expensive",
    "bread": "fresh delicious",
    "book": "interesting boring difficult easy long expensive",
    "novel": "interesting boring long difficult",
    "film": "interesting boring long",
    "story": "interesting boring long",
    "song": "beautiful long",
    "car": "expensive fast dirty clean big small",
    "bicycle": "expensive heavy",
    "house": "big small expensive beautiful comfortable quiet",
    "room": "big small clean dirty quiet comfortable",
    "kitchen": "big small clean dirty",
    "hotel": "expensive quiet clean comfortable",
    "restaurant": "expensive quiet clean",
    "city": "big small quiet beautiful",
    "street": "long quiet clean",
    "bag": "heavy big small expensive",
    "suitcase": "heavy big small",
    "box": "heavy big small",
    "coat": "expensive beautiful dirty",
    "dress": "expensive beautiful long",
    "shirt": "clean dirty expensive",
    "chair": "comfortable heavy",
    "sofa": "comfortable expensive big",
    "bed": "comfortable big small",
    "shoes": "dirty clean expensive comfortable",
    "computer": "expensive fast",
    "phone": "expensive",
    "garden": "big small beautiful quiet",
    "watch": "expensive beautiful",
    "apple": "sweet delicious",
    "orange": "sweet delicious",
}
_TRAITS = "tired happy sad busy nervous"
_LASTING_TRAITS = "tall kind clever strong patient"
_COLOURED = ("car", "dress", "shirt", "bag", "hat", "coat", "skirt", "sweater", "scarf", "umbrella", "bicycle", "suitcase")


def thing_as_person(thing: Thing) -> Person:
    """A thing has the grammar of a third person."""
    model = THEY if thing.plural else HE
    countless = not thing.noun.countable and not thing.noun.plural_only
    in_chinese = thing.noun.chinese if countless else thing.chinese()
    return Person(thing.english(), thing.french(), in_chinese, model.person, thing.noun.gender)


def described(
    subject: Person, adjective: Adjective, *, plural: bool, degree: str = "", negative: bool = False,
    question: bool = False, past: bool = False,
) -> tuple[str, str, str]:  # fmt: skip
    """That somebody or something is hot, very hot, too hot, or not; unfinished."""
    adverbs = {"": ("", "", "很"), "very": ("very", "très", "非常"), "too": ("too", "trop", "太")}
    en_adverb, fr_adverb, zh_adverb = adverbs[degree]
    be = english.be(subject, past=past, negative=negative)
    quality = f"{en_adverb} {adjective.english}"
    in_english = f"{be} {subject.english} {quality}" if question else f"{subject.english} {be} {quality}"
    verb = french.be(subject, past=past)
    denied = f"ne {verb} pas" if negative else verb
    agreed = adjective.agreed(subject.gender, plural)
    in_french = f"{'est-ce que' if question else ''} {subject.french} {denied} {fr_adverb} {agreed}"
    return in_english, in_french, f"{subject.chinese} {_chinese_quality(adjective, zh_adverb, negative, question)}"


def _chinese_quality(adjective: Adjective, adverb: str, negative: bool, question: bool) -> str:
    if adjective.english in COLOURS or adjective.english == "new":
        verb = "不 是" if negative else "是"
        return f"{verb} {adjective.chinese_predicate} 的{' 吗' if question else ''}"
    if question:
        return f"{adjective.chinese_predicate} 吗"
    if negative:
        return f"不 {adjective.chinese_predicate}"
    return f"{adverb} {adjective.chinese_predicate}{' 了' if adverb == '太' else ''}"


def finished(parts: tuple[str, str, str], *, question: bool = False) -> Sentence:
    """Three unfinished sentences with their marks."""
    mark, full = ("?", "？") if question else (".", "。")
    return Sentence(
        english.finish(parts[0], mark), french.finish(parts[1], mark), chinese.finish(parts[2], full)
    )


def quality(dice: Dice) -> Sentence:
    """The soup is too hot. Is this book interesting? Those shoes are expensive."""
    noun = NOUNS[dice.choose(sorted(QUALITIES))]
    adjective = ADJECTIVES[dice.choose(QUALITIES[noun.english].split())]
    determiner = "the" if noun.familiar or not (noun.countable or noun.plural_only) else dice.choose(("this", "that"))
    thing = Thing(noun, determiner)
    manner = dice.throw(6)
    degree = dice.choose(("very", "too")) if manner > 3 and adjective.english not in ("new", "delicious", "interesting") else ""
    if degree == "too" and adjective.english in ("beautiful", "clean", "fresh", "comfortable", "easy", "quiet", "fast"):
        degree = "very"
    parts = described(
        thing_as_person(thing), adjective, plural=thing.french_plural, degree=degree, negative=manner == 0, question=manner == 1
    )
    return finished(parts, question=manner == 1)


def colour(dice: Dice) -> Sentence:
    """My car is red. Is her umbrella blue?"""
    noun = NOUNS[dice.choose(_COLOURED)]
    adjective = ADJECTIVES[dice.choose(colours_of(noun))]
    manner = dice.throw(4)
    owner = SHE if noun.english in ("dress", "skirt") else dice.choose((HE, SHE) if manner == 1 else (I, HE, SHE))
    thing = dice.choose((Thing(noun, "mine", owner=owner), Thing(noun, dice.choose(("this", "that")))))
    parts = described(thing_as_person(thing), adjective, plural=False, negative=manner == 0, question=manner == 1)
    return finished(parts, question=manner == 1)


def mood(dice: Dice) -> Sentence:
    """Marie is very tired today. Are you busy? He isn't tall."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    passing = dice.once_in(2)
    adjective = ADJECTIVES[dice.choose((_TRAITS if passing else _LASTING_TRAITS).split())]
    degree = "very" if manner == 2 else ""
    en, fr, zh = described(
        subject, adjective, plural=subject.plural, degree=degree, negative=manner == 0, question=manner == 1
    )
    if passing and dice.once_in(2):
        today = Adverbial("today", "aujourd'hui", "今天")
        zh = zh.replace(subject.chinese, f"{subject.chinese} {today.chinese}", 1)
        return finished((f"{en} {today.english}", f"{fr} {today.french}", zh), question=manner == 1)
    return finished((en, fr, zh), question=manner == 1)


def past_mood(dice: Dice) -> Sentence:
    """Paul was tired last night."""
    subject = dice.choose(SPOKEN_OF)
    adjective = ADJECTIVES[dice.choose(_TRAITS.split())]
    negative = adjective.english in ("happy", "busy", "tired") and dice.once_in(3)
    when = dice.choose((
        Adverbial("yesterday", "hier", "昨天"),
        Adverbial("last night", "hier soir", "昨天 晚上"),
        Adverbial("this morning", "ce matin", "今天 早上"),
    ))  # fmt: skip
    en, fr, zh = described(subject, adjective, plural=subject.plural, negative=negative, past=True)
    zh = zh.replace(subject.chinese, f"{subject.chinese} {when.chinese}", 1)
    return finished((f"{en} {when.english}", f"{fr} {when.french}", zh))


def comparison(dice: Dice) -> Sentence:
    """Paul is taller than Marie. Anna is as clever as Tom."""
    words = {"tall": "taller", "strong": "stronger", "patient": "more patient", "busy": "busier", "clever": "cleverer",
             "kind": "kinder"}  # fmt: skip
    adjective = ADJECTIVES[dice.choose(sorted(words))]
    peers = (*NAMES, FAMILY[3], FAMILY[5])
    one = dice.choose(peers)
    other = dice.choose([peer for peer in peers if peer != one])
    agreed = adjective.agreed(one.gender, False)
    if dice.once_in(3):
        return finished((
            f"{one.english} is as {adjective.english} as {other.english}",
            f"{one.french} est aussi {agreed} que {other.french}",
            f"{one.chinese} 和 {other.chinese} 一样 {adjective.chinese_predicate}",
        ))  # fmt: skip
    return finished((
        f"{one.english} is {words[adjective.english]} than {other.english}",
        f"{one.french} est plus {agreed} que {other.french}",
        f"{one.chinese} 比 {other.chinese} {adjective.chinese_predicate}",
    ))  # fmt: skip


def age(dice: Dice) -> Sentence:
    """My little brother is twelve years old."""
    kind = dice.throw(4)
    if kind == 0:
        subject, years = dice.choose((FAMILY[6], FAMILY[7])), dice.choose((60, 70, 75, 80))
    elif kind == 1:
        subject, years = dice.choose((FAMILY[0], FAMILY[1], FAMILY[8], FAMILY[9], *GENTLEFOLK)), dice.choose((35, 40, 45, 50))
    elif kind == 2:
        subject, years = dice.choose((FAMILY[3], FAMILY[5], *NAMES, HE, SHE, I)), dice.choose((16, 17, 18, 19, 20, 25, 30))
    else:
        subject, years = dice.choose((FAMILY[2], FAMILY[4], *NAMES, HE, SHE)), dice.choose(range(5, 16))
    verb = "ai" if subject == I else "a"
    return finished((
        f"{subject.english} {english.be(subject)} {ENGLISH_NUMBER[years]} years old",
        f"{subject.french} {verb} {FRENCH_NUMBER[years]} ans",
        f"{subject.chinese} {CHINESE_NUMBER[years]} 岁",
    ))  # fmt: skip


_PRICES = {
    "book": (10, 12, 15, 20, 25), "novel": (8, 10, 12, 15), "pen": (2, 3, 4, 5), "notebook": (2, 3, 4), "bag": (30, 40, 50, 60),
    "hat": (15, 20, 25, 30), "scarf": (15, 20, 30), "shirt": (25, 30, 35, 40), "dress": (40, 50, 60, 75),
    "umbrella": (10, 12, 15, 20), "lamp": (25, 30, 40), "magazine": (3, 4, 5, 6), "cake": (3, 4, 5), "sandwich": (4, 5, 6, 7),
    "pizza": (9, 10, 11, 12, 13), "dictionary": (20, 25, 30), "chair": (40, 50, 60, 70), "skirt": (25, 30, 35, 40),
    "sweater": (35, 40, 45, 50), "ticket": (8, 9, 10, 12, 14), "shoes": (50, 60, 70, 75, 80), "gloves": (12, 15, 20),
}  # fmt: skip


def price(dice: Dice) -> Sentence:
    """This bag costs thirty euros. How much does this bag cost?"""
    noun = NOUNS[dice.choose(sorted(_PRICES))]
    thing = Thing(noun, dice.choose(("this", "that")))
    cost, do = ("cost", "do") if thing.plural else ("costs", "does")
    verb = "coûtent" if thing.plural else "coûte"
    if dice.once_in(4):
        return finished((
            f"how much {do} {thing.english()} cost",
            f"combien {verb} {thing.french()}",
            f"{_counted_pair(thing)} 多少 钱",
        ), question=True)  # fmt: skip
    euros = dice.choose(_PRICES[noun.english])
    return finished((
        f"{thing.english()} {cost} {ENGLISH_NUMBER[euros]} euros",
        f"{thing.french()} {verb} {FRENCH_NUMBER[euros]} euros",
        f"{_counted_pair(thing)} {CHINESE_COUNT[euros]} 欧元",
    ))  # fmt: skip


def _counted_pair(thing: Thing) -> str:
    """Shoes on sale are one pair: 这 双 鞋."""
    return thing.chinese().replace("些", thing.noun.measure)


def hour(dice: Dice) -> Sentence:
    """It is half past three. It is a quarter to nine."""
    number = dice.choose(range(1, 12))
    hours = f"{'une' if number == 1 else FRENCH_NUMBER[number]} heure{'s' if number > 1 else ''}"
    now = f"现在 {CHINESE_COUNT[number]} 点"
    before = f"{CHINESE_COUNT[number - 1] if number > 1 else '十二'} 点 三刻"
    shape = dice.choose((
        (f"it is {ENGLISH_NUMBER[number]} o'clock", f"il est {hours}", now),
        (f"it is half past {ENGLISH_NUMBER[number]}", f"il est {hours} et demie", f"{now} 半"),
        (f"it is a quarter past {ENGLISH_NUMBER[number]}", f"il est {hours} et quart", f"{now} 一刻"),
        (f"it is a quarter to {ENGLISH_NUMBER[number]}", f"il est {hours} moins le quart", f"现在 {before}"),
        (f"it is ten past {ENGLISH_NUMBER[number]}", f"il est {hours} dix", f"{now} 十 分"),
        (f"it is twenty past {ENGLISH_NUMBER[number]}", f"il est {hours} vingt", f"{now} 二十 分"),
    ))  # fmt: skip
    return finished(shape)


def timetable(dice: Dice) -> Sentence:
    """The train leaves at eight o'clock. We get up at seven o'clock every day."""
    number = dice.choose(range(5, 12))
    half = dice.once_in(3)
    en = f"half past {ENGLISH_NUMBER[number]}" if half else f"{ENGLISH_NUMBER[number]} o'clock"
    fr = f"{FRENCH_NUMBER[number]} heures{' et demie' if half else ''}"
    zh = f"{CHINESE_COUNT[number]} 点{' 半' if half else ''}"
    if dice.once_in(2):
        return _timetable_of_things(dice, en, fr, zh)
    person = dice.choose(SPOKEN_OF)
    third = person.person == HE.person
    rise = ("lève", "lèves", "lève", "levons", "levez", "lèvent")[person.person]
    own = ("me", "te", "se", "nous", "vous", "se")[person.person]
    if number < 10:
        return finished((
            f"{person.english} {'gets' if third else 'get'} up at {en} every day",
            f"{person.french} {own} {rise} à {fr} tous les jours",
            f"{person.chinese} 每天 {zh} 起床",
        ))  # fmt: skip
    bed = rise.replace("lèv", "couch").replace("lev", "couch")
    return finished((
        f"{person.english} {'goes' if third else 'go'} to bed at {en} every day",
        f"{person.french} {own} {bed} à {fr} tous les jours",
        f"{person.chinese} 每天 {zh} 睡觉",
    ))  # fmt: skip


def _timetable_of_things(dice: Dice, en: str, fr: str, zh: str) -> Sentence:
    things = (
        ("the train leaves", "le train part", "火车 {} 出发"),
        ("the bus leaves", "le bus part", "公交车 {} 出发"),
        ("the plane leaves", "l'avion part", "飞机 {} 起飞"),
        ("the train arrives", "le train arrive", "火车 {} 到"),
        ("the shop opens", "le magasin ouvre", "商店 {} 开门"),
        ("the museum opens", "le musée ouvre", "博物馆 {} 开门"),
        ("the library closes", "la bibliothèque ferme", "图书馆 {} 关门"),
        ("the film starts", "le film commence", "电影 {} 开始"),
        ("the match starts", "le match commence", "比赛 {} 开始"),
        ("the class starts", "le cours commence", "{} 上课"),
    )
    thing = dice.choose(things)
    return finished((f"{thing[0]} at {en}", f"{thing[1]} à {fr}", thing[2].format(zh)))


_CITIES = (("Paris", "à Paris", "巴黎"), ("London", "à Londres", "伦敦"), ("Beijing", "à Pékin", "北京"),
           ("Shanghai", "à Shanghai", "上海"), ("Rome", "à Rome", "罗马"), ("Tokyo", "à Tokyo", "东京"),
           ("Berlin", "à Berlin", "柏林"), ("Madrid", "à Madrid", "马德里"))  # fmt: skip
_WEATHER = (
    ("it is cold", "il fait froid", "很 冷", "today; aujourd'hui; 今天"),
    ("it is hot", "il fait chaud", "很 热", "today; aujourd'hui; 今天"),
    ("the weather is nice", "il fait beau", "天气 很 好", "today; aujourd'hui; 今天"),
    ("it is raining", "il pleut", "在 下雨", "now; maintenant; 现在"),
    ("it is snowing", "il neige", "在 下雪", "now; maintenant; 现在"),
    ("it was cold", "il faisait froid", "很 冷", "yesterday; hier; 昨天"),
    ("it was hot", "il faisait chaud", "很 热", "yesterday; hier; 昨天"),
    ("it was very cold", "il faisait très froid", "非常 冷", "last night; hier soir; 昨天 晚上"),
    ("it rained", "il a plu", "下雨 了", "yesterday; hier; 昨天"),
    ("it snowed", "il a neigé", "下雪 了", "yesterday; hier; 昨天"),
    ("it rained", "il a plu", "下雨 了", "this morning; ce matin; 今天 早上"),
    ("it will rain", "il pleuvra", "会 下雨", "tomorrow; demain; 明天"),
    ("it will snow", "il neigera", "会 下雪", "tomorrow; demain; 明天"),
    ("it will be cold", "il fera froid", "会 很 冷", "tomorrow; demain; 明天"),
    ("it will be hot", "il fera chaud", "会 很 热", "tomorrow; demain; 明天"),
    ("it didn't rain", "il n'a pas plu", "没 下雨", "yesterday; hier; 昨天"),
    ("it won't rain", "il ne pleuvra pas", "不 会 下雨", "tomorrow; demain; 明天"),
    ("it isn't cold", "il ne fait pas froid", "不 冷", "today; aujourd'hui; 今天"),
    ("it is very cold", "il fait très froid", "非常 冷", "today; aujourd'hui; 今天"),
    ("it is too hot", "il fait trop chaud", "太 热 了", "today; aujourd'hui; 今天"),
)  # fmt: skip


def weather(dice: Dice) -> Sentence:
    """It is cold in Beijing today. It will rain tomorrow."""
    en, fr, zh, time = dice.choose(_WEATHER)
    en_time, fr_time, zh_time = time.split("; ")
    if dice.once_in(4):
        return finished((f"{en} {en_time}", f"{fr} {fr_time}", f"{zh_time} {zh}"))
    city = dice.choose(_CITIES)
    return finished((f"{en} in {city[0]} {en_time}", f"{fr} {city[1]} {fr_time}", f"{city[2]} {zh_time} {zh}"))


JOBS = (
    ("a doctor", "médecin", "médecin", "医生"), ("a teacher", "professeur", "professeure", "老师"),
    ("a student", "étudiant", "étudiante", "学生"), ("an engineer", "ingénieur", "ingénieure", "工程师"),
    ("a lawyer", "avocat", "avocate", "律师"), ("a nurse", "infirmier", "infirmière", "护士"),
    ("a cook", "cuisinier", "cuisinière", "厨师"), ("a singer", "chanteur", "chanteuse", "歌手"),
    ("a journalist", "journaliste", "journaliste", "记者"), ("a musician", "musicien", "musicienne", "音乐家"),
    ("a baker", "boulanger", "boulangère", "面包师"), ("a writer", "écrivain", "écrivaine", "作家"),
)  # fmt: skip


def profession(dice: Dice) -> Sentence:
    """My father is a doctor. Is Marie an engineer?"""
    job = dice.choose(JOBS)
    manner = dice.throw(4)
    grown = (HE, SHE, *NAMES, *FAMILY[:2], FAMILY[3], FAMILY[5], *FAMILY[8:10], *GENTLEFOLK)
    asked = (HE, SHE, *NAMES, *YOUR_FAMILY[:2], YOUR_FAMILY[3], YOUR_FAMILY[5], *YOUR_FAMILY[8:10], *ASKED_ABOUT[:6])
    subject = dice.choose(asked if manner == 1 else (I, *grown))
    negative, question = manner == 0, manner == 1
    be = english.be(subject, negative=negative)
    verb = french.be(subject)
    return finished((
        f"{be} {subject.english} {job[0]}" if question else f"{subject.english} {be} {job[0]}",
        f"{'est-ce que' if question else ''} {subject.french} {f'ne {verb} pas' if negative else verb}"
        f" {job[2] if subject.gender == 'f' else job[1]}",
        f"{subject.chinese} {'不' if negative else ''} 是 {job[3]} {'吗' if question else ''}",
    ), question=question)  # fmt: skip


_WORN = {"穿": ("shirt", "coat", "jacket", "sweater", "dress", "skirt", "shoes", "boots"), "戴": ("hat", "scarf", "gloves")}


def clothing(dice: Dice) -> Sentence:
    """Anna is wearing a red dress. Paul isn't wearing a hat."""
    verb = dice.choose(("穿", "穿", "戴"))
    noun = NOUNS[dice.choose(_WORN[verb])]
    who = (*WOMEN, SHE, FAMILY[0], FAMILY[4]) if noun.english in ("dress", "skirt") else (*NAMES, *MEN, HE, SHE, *FAMILY[:6])
    subject = dice.choose(who)
    negative = noun.english in ("hat", "coat", "scarf", "gloves", "jacket") and dice.once_in(3)
    thing = Thing(noun, "a" if noun.countable else "bare", None if negative else ADJECTIVES[dice.choose(colours_of(noun))])
    wears = f"没 {verb} {thing.chinese(bare=True)}" if negative else f"{verb} 着 {thing.chinese()}"
    made = finished((
        f"{subject.english} {english.be(subject, negative=negative)} wearing {thing.english()}",
        f"{subject.french} {'ne porte pas' if negative else 'porte'} {thing.french(negated=negative)}",
        f"{subject.chinese} {wears}",
    ))  # fmt: skip
    return made._replace(units=frozenset({("wear", noun.english)}))
