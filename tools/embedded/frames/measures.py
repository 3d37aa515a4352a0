"""How old, how much, at what time, and what the weather is like."""

from __future__ import annotations

from tools.embedded import english, french
from tools.embedded.dice import Dice
from tools.embedded.nouns import NOUNS
from tools.embedded.numbers import CHINESE_COUNT, CHINESE_NUMBER, ENGLISH_NUMBER, FRENCH_NUMBER
from tools.embedded.people import ASKED_ABOUT, FAMILY, GENTLEFOLK, HE, NAMES, SHE, SPOKEN_OF, I
from tools.embedded.phrases import Thing
from tools.embedded.plausible import is_child, is_elder
from tools.embedded.sentences import Sentence, finished, unit
from tools.embedded.verbs import english_verb, french_verb


def age(dice: Dice) -> Sentence:
    """My little brother is twelve years old."""
    kind = dice.throw(4)
    if kind == 0:
        subject, years = dice.choose((FAMILY[6], FAMILY[7])), dice.choose((60, 70, 75, 80))
    elif kind == 1:
        subject, years = (
            dice.choose((FAMILY[0], FAMILY[1], FAMILY[8], FAMILY[9], *GENTLEFOLK)),
            dice.choose((35, 40, 45, 50)),
        )
    elif kind == 2:
        subject, years = (
            dice.choose((FAMILY[3], FAMILY[5], *NAMES, HE, SHE, I)),
            dice.choose((16, 17, 18, 19, 20, 25, 30)),
        )
    else:
        subject, years = dice.choose((FAMILY[2], FAMILY[4], *NAMES, HE, SHE)), dice.choose(range(5, 16))
    verb = "ai" if subject == I else "a"
    return finished(
        f"{subject.english} {english.be(subject)} {ENGLISH_NUMBER[years]} years old",
        f"{subject.french} {verb} {FRENCH_NUMBER[years]} ans",
        f"{subject.chinese} {CHINESE_NUMBER[years]} 岁",
    )


_PRICES = {
    "book": (10, 12, 15, 20, 25),
    "novel": (8, 10, 12, 15),
    "pen": (2, 3, 4, 5),
    "notebook": (2, 3, 4),
    "bag": (30, 40, 50, 60),
    "hat": (15, 20, 25, 30),
    "scarf": (15, 20, 30),
    "shirt": (25, 30, 35, 40),
    "dress": (40, 50, 60, 75),
    "umbrella": (10, 12, 15, 20),
    "lamp": (25, 30, 40),
    "magazine": (3, 4, 5, 6),
    "cake": (3, 4, 5),
    "sandwich": (4, 5, 6, 7),
    "pizza": (9, 10, 11, 12, 13),
    "dictionary": (20, 25, 30),
    "chair": (40, 50, 60, 70),
    "skirt": (25, 30, 35, 40),
    "sweater": (35, 40, 45, 50),
    "ticket": (8, 9, 10, 12, 14),
    "shoes": (50, 60, 70, 75, 80),
    "gloves": (12, 15, 20),
}


def price(dice: Dice) -> Sentence:
    """This bag costs thirty euros. How much does this bag cost?"""
    noun = NOUNS[dice.choose(sorted(_PRICES))]
    thing = Thing(noun, dice.choose(("this", "that")))
    cost, do = ("cost", "do") if thing.plural else ("costs", "does")
    verb = "coûtent" if thing.plural else "coûte"
    if dice.once_in(4):
        return finished(
            f"how much {do} {thing.english()} cost",
            f"combien {verb} {thing.french()}",
            f"{thing.chinese()} 多少 钱",
            mark="?",
        )
    euros = dice.choose(_PRICES[noun.english])
    return finished(
        f"{thing.english()} {cost} {ENGLISH_NUMBER[euros]} euros",
        f"{thing.french()} {verb} {FRENCH_NUMBER[euros]} euros",
        f"{thing.chinese()} {CHINESE_COUNT[euros]} 欧元",
    )


def hour(dice: Dice) -> Sentence:
    """It is half past three. It is a quarter to nine."""
    number = dice.choose(range(1, 12))
    hours = f"{'une' if number == 1 else FRENCH_NUMBER[number]} heure{'s' if number > 1 else ''}"
    now = f"现在 {CHINESE_COUNT[number]} 点"
    before = f"{CHINESE_COUNT[number - 1] if number > 1 else '十二'} 点 三刻"
    shape = dice.choose(
        (
            (f"it is {ENGLISH_NUMBER[number]} o'clock", f"il est {hours}", now),
            (f"it is half past {ENGLISH_NUMBER[number]}", f"il est {hours} et demie", f"{now} 半"),
            (f"it is a quarter past {ENGLISH_NUMBER[number]}", f"il est {hours} et quart", f"{now} 一刻"),
            (
                f"it is a quarter to {ENGLISH_NUMBER[number]}",
                f"il est {hours} moins le quart",
                f"现在 {before}",
            ),
            (f"it is ten past {ENGLISH_NUMBER[number]}", f"il est {hours} dix", f"{now} 十 分"),
            (f"it is twenty past {ENGLISH_NUMBER[number]}", f"il est {hours} vingt", f"{now} 二十 分"),
        )
    )
    return finished(*shape)


def timetable(dice: Dice) -> Sentence:
    """The train leaves at eight o'clock. We get up at seven o'clock every day."""
    if dice.once_in(2):
        en_thing, fr_thing, zh_thing, hours = dice.choose(_TIMETABLE)
        en, fr, zh = _clock(dice, hours)
        return finished(f"{en_thing} at {en}", f"{fr_thing} à {fr}", zh_thing.format(zh))
    person = dice.choose(SPOKEN_OF)
    rising = dice.once_in(2)
    en, fr, zh = _clock(dice, range(6, 9) if rising else range(8, 10) if is_child(person) else range(10, 12))
    verb = "get" if rising else "go"
    verb = f"{english.present(english_verb(verb), person)} {'up' if rising else 'to bed'}"
    own = ("me", "te", "se", "nous", "vous", "se")[person.person]
    verbe = french.present("lever" if rising else "coucher", person)
    return finished(
        f"{person.english} {verb} at {en} every day",
        f"{person.french} {own} {verbe} à {fr} tous les jours",
        f"{person.chinese} 每天 {zh} {'起床' if rising else '睡觉'}",
    )


def _clock(dice: Dice, hours: range) -> tuple[str, str, str]:
    """A full hour or half past it."""
    number, half = dice.choose(hours), dice.once_in(3)
    return (
        f"half past {ENGLISH_NUMBER[number]}" if half else f"{ENGLISH_NUMBER[number]} o'clock",
        f"{FRENCH_NUMBER[number]} heures{' et demie' if half else ''}",
        f"{CHINESE_COUNT[number]} 点{' 半' if half else ''}",
    )


_TIMETABLE = (
    ("the train leaves", "le train part", "火车 {} 出发", range(5, 12)),
    ("the bus leaves", "le bus part", "公交车 {} 出发", range(5, 12)),
    ("the plane leaves", "l'avion part", "飞机 {} 起飞", range(5, 12)),
    ("the train arrives", "le train arrive", "火车 {} 到", range(5, 12)),
    ("the shop opens", "le magasin ouvre", "商店 {} 开门", range(8, 11)),
    ("the museum opens", "le musée ouvre", "博物馆 {} 开门", range(9, 11)),
    ("the library closes", "la bibliothèque ferme", "图书馆 {} 关门", range(5, 10)),
    ("the film starts", "le film commence", "电影 {} 开始", range(5, 10)),
    ("the match starts", "le match commence", "比赛 {} 开始", range(5, 10)),
    ("the class starts", "le cours commence", "{} 上课", range(8, 11)),
)


_CITIES = (
    ("Paris", "à Paris", "巴黎"),
    ("London", "à Londres", "伦敦"),
    ("Beijing", "à Pékin", "北京"),
    ("Shanghai", "à Shanghai", "上海"),
    ("Rome", "à Rome", "罗马"),
    ("Tokyo", "à Tokyo", "东京"),
    ("Berlin", "à Berlin", "柏林"),
    ("Madrid", "à Madrid", "马德里"),
)
_WEATHER = (
    ("it is cold", "il fait froid", "很 冷", "today; aujourd'hui; 今天"),
    ("it is hot", "il fait chaud", "很 热", "today; aujourd'hui; 今天"),
    ("the weather is nice", "il fait beau", "天气 很 好", "today; aujourd'hui; 今天"),
    ("it is raining", "il pleut", "在 下雨", "now; en ce moment; 现在"),
    ("it is snowing", "il neige", "在 下雪", "now; en ce moment; 现在"),
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
)


def weather(dice: Dice) -> Sentence:
    """It is cold in Beijing today. It will rain tomorrow."""
    en, fr, zh, time = dice.choose(_WEATHER)
    en_time, fr_time, zh_time = time.split("; ")
    if dice.once_in(4):
        return finished(f"{en} {en_time}", f"{fr} {fr_time}", f"{zh_time} {zh}")
    city = dice.choose(_CITIES)
    return finished(f"{en} in {city[0]} {en_time}", f"{fr} {city[1]} {fr_time}", f"{city[2]} {zh_time} {zh}")


_COUNTED = {
    "buy": ("acheter", "买", "apple orange banana egg tomato book ticket stamp notebook pen pear"),
    "eat": ("manger", "吃", "apple banana orange egg sandwich cake pear"),
    "read": ("lire", "看", "book novel magazine letter"),
    "write": ("écrire", "写", "letter email poem"),
    "draw": ("dessiner", "画", "cat dog tree flower bird"),
}


def how_many(dice: Dice) -> Sentence:
    """How many apples did you buy? How many brothers does Tom have?"""
    subject = dice.choose(ASKED_ABOUT)
    if dice.once_in(3):
        noun = NOUNS[dice.choose(("brother", "sister", "cat", "dog", "child", "bicycle"))]
        if noun.english == "child" and any(
            word in subject.english
            for word in ("child", "student", "little", "parents", "Anna and", "Tom and")
        ):
            noun = NOUNS["cat"]
        if noun.english in ("brother", "sister") and subject.english.endswith(("brother", "sister")):
            noun = NOUNS["dog"]  # their number is known
        asked = f"combien de {noun.french_plural}"
        return finished(
            f"how many {noun.english_plural} {english.do(subject)} {subject.english} have",
            french.short_question(asked, "avoir", subject),
            f"{subject.chinese} 有 几 {noun.measure} {noun.chinese}",
            mark="?",
            units=unit("have", noun),
        )
    base = dice.choose([verb for verb in sorted(_COUNTED) if verb != "draw" or not is_elder(subject)])
    infinitive, zh, things = _COUNTED[base]
    noun = NOUNS[dice.choose(things.split())]
    bought = french.agree(french_verb(infinitive).participle, noun.gender, True)
    having = f"{subject.french} {french.present('avoir', subject)}"
    return finished(
        f"how many {noun.english_plural} did {subject.english} {base}",
        f"combien de {noun.french_plural} est-ce que {having} {bought}",
        f"{subject.chinese} {zh} 了 几 {noun.measure} {noun.chinese}",
        mark="?",
        units=unit(base, noun),
    )


def which_time(dice: Dice) -> Sentence:
    """What time does the train leave? What time do you get up?"""
    if dice.once_in(3):
        thing = dice.choose(
            (
                ("does the train leave", "part le train", "火车 几点 出发"),
                ("does the plane leave", "part l'avion", "飞机 几点 起飞"),
                ("does the bus leave", "part le bus", "公交车 几点 出发"),
                ("does the museum open", "ouvre le musée", "博物馆 几点 开门"),
                ("does the shop open", "ouvre le magasin", "商店 几点 开门"),
                ("does the film start", "commence le film", "电影 几点 开始"),
                ("does the match start", "commence le match", "比赛 几点 开始"),
                ("is it", "est-il", "现在 几点"),
                ("does the library close", "ferme la bibliothèque", "图书馆 几点 关门"),
                ("does the class start", "commence le cours", "几点 上课"),
            )
        )
        return finished(
            f"what time {thing[0]}",
            f"à quelle heure {thing[1]}" if thing[0] != "is it" else "quelle heure est-il",
            thing[2],
            mark="?",
        )
    subject = dice.choose(ASKED_ABOUT)
    own = ("me", "te", "se", "nous", "vous", "se")[subject.person]
    base, infinitive, zh = dice.choose(
        (
            ("get up", "se lever", "起床"),
            ("go to bed", "se coucher", "睡觉"),
            ("have lunch", "déjeuner", "吃 午饭"),
            ("have dinner", "dîner", "吃 晚饭"),
        )
    )
    verbe = french_verb(infinitive)
    reflexive = own if verbe.reflexive else ""
    return finished(
        f"what time {english.do(subject)} {subject.english} {base}",
        f"à quelle heure est-ce que {subject.french} {reflexive} {verbe.present[subject.person]}",
        f"{subject.chinese} 几点 {zh}",
        mark="?",
    )
