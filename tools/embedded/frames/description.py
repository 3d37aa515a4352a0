"""How things are: qualities, places, ages, prices, hours, weather, and what people wear."""

from __future__ import annotations

from tools.embedded import english, french
from tools.embedded.adjectives import ADJECTIVES, COLOURS, Adjective, colours_of
from tools.embedded.adverbials import Adverbial
from tools.embedded.dice import Dice
from tools.embedded.nouns import NOUNS
from tools.embedded.people import (
    ASKED_ABOUT,
    FAMILY,
    HE,
    MEN,
    NAMES,
    SHE,
    SPOKEN_OF,
    THEY,
    WE,
    YOU,
    I,
    Person,
)
from tools.embedded.phrases import Thing
from tools.embedded.sentences import Sentence, finished

QUALITIES = {
    "soup": "hot cold salty",
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
_COLOURED = (
    "car",
    "dress",
    "shirt",
    "bag",
    "hat",
    "coat",
    "skirt",
    "sweater",
    "scarf",
    "umbrella",
    "bicycle",
    "suitcase",
)


def thing_as_person(thing: Thing) -> Person:
    """A thing has the grammar of a third person."""
    model = THEY if thing.plural else HE
    countless = not thing.noun.countable and not thing.noun.plural_only
    in_chinese = thing.noun.chinese if countless else thing.chinese()
    return Person(thing.english(), thing.french(), in_chinese, model.person, thing.noun.gender)


def described(
    subject: Person,
    adjective: Adjective,
    *,
    plural: bool,
    degree: str = "",
    negative: bool = False,
    question: bool = False,
    past: bool = False,
) -> tuple[str, str, str]:
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
    return (
        in_english,
        in_french,
        f"{subject.chinese} {_chinese_quality(adjective, zh_adverb, negative, question)}",
    )


def _chinese_quality(adjective: Adjective, adverb: str, negative: bool, question: bool) -> str:
    if adjective.english in COLOURS or adjective.english == "new":
        verb = "不 是" if negative else "是"
        return f"{verb} {adjective.chinese_predicate} 的{' 吗' if question else ''}"
    if question:
        return f"{adjective.chinese_predicate} 吗"
    if negative:
        return (
            f"{'没' if adjective.chinese_predicate.startswith('有') else '不'} {adjective.chinese_predicate}"
        )
    return f"{adverb} {adjective.chinese_predicate}{' 了' if adverb == '太' else ''}"


def quality(dice: Dice) -> Sentence:
    """The soup is too hot. Is this book interesting? Those shoes are expensive."""
    noun = NOUNS[dice.choose(sorted(QUALITIES))]
    adjective = ADJECTIVES[dice.choose(QUALITIES[noun.english].split())]
    determiner = (
        "the" if noun.familiar or not (noun.countable or noun.plural_only) else dice.choose(("this", "that"))
    )
    thing = Thing(noun, determiner)
    manner = dice.throw(6)
    degree = (
        dice.choose(("very", "too"))
        if manner > 3 and adjective.english not in ("new", "delicious", "interesting")
        else ""
    )
    if degree == "too" and adjective.english in (
        "beautiful",
        "clean",
        "fresh",
        "comfortable",
        "easy",
        "quiet",
        "fast",
    ):
        degree = "very"
    parts = described(
        thing_as_person(thing),
        adjective,
        plural=thing.french_plural,
        degree=degree,
        negative=manner == 0,
        question=manner == 1,
    )
    return finished(*parts, mark="?" if manner == 1 else ".")


def colour(dice: Dice) -> Sentence:
    """My car is red. Is her umbrella blue?"""
    noun = NOUNS[dice.choose(_COLOURED)]
    adjective = ADJECTIVES[dice.choose(colours_of(noun))]
    manner = dice.throw(4)
    owner = (
        SHE if noun.english in ("dress", "skirt") else dice.choose((HE, SHE) if manner == 1 else (I, HE, SHE))
    )
    thing = dice.choose((Thing(noun, "mine", owner=owner), Thing(noun, dice.choose(("this", "that")))))
    parts = described(
        thing_as_person(thing), adjective, plural=False, negative=manner == 0, question=manner == 1
    )
    return finished(*parts, mark="?" if manner == 1 else ".")


def mood(dice: Dice) -> Sentence:
    """Marie is very tired today. Are you busy? He isn't tall."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    passing = dice.once_in(2)
    adjective = ADJECTIVES[dice.choose((_TRAITS if passing else _lasting_traits(subject)).split())]
    degree = "very" if manner == 2 else ""
    en, fr, zh = described(
        subject, adjective, plural=subject.plural, degree=degree, negative=manner == 0, question=manner == 1
    )
    if passing and dice.once_in(2):
        today = Adverbial("today", "aujourd'hui", "今天")
        zh = zh.replace(subject.chinese, f"{subject.chinese} {today.chinese}", 1)
        return finished(f"{en} {today.english}", f"{fr} {today.french}", zh, mark="?" if manner == 1 else ".")
    return finished(en, fr, zh, mark="?" if manner == 1 else ".")


def _lasting_traits(subject: Person) -> str:
    """One does not call oneself clever, nor ask others whether they are."""
    if subject in (I, WE, YOU):
        return "tall patient"
    return _LASTING_TRAITS if subject in MEN else _LASTING_TRAITS.replace("strong ", "")


def past_mood(dice: Dice) -> Sentence:
    """Paul was tired last night."""
    subject = dice.choose(SPOKEN_OF)
    adjective = ADJECTIVES[dice.choose(_TRAITS.split())]
    negative = adjective.english in ("happy", "busy", "tired") and dice.once_in(3)
    when = dice.choose(
        (
            Adverbial("yesterday", "hier", "昨天"),
            Adverbial("last night", "hier soir", "昨天 晚上"),
            Adverbial("this morning", "ce matin", "今天 早上"),
        )
    )
    en, fr, zh = described(subject, adjective, plural=subject.plural, negative=negative, past=True)
    zh = zh.replace(subject.chinese, f"{subject.chinese} {when.chinese}", 1)
    return finished(f"{en} {when.english}", f"{fr} {when.french}", zh)


def comparison(dice: Dice) -> Sentence:
    """Paul is taller than Marie. Anna is as clever as Tom."""
    words = {
        "tall": "taller",
        "strong": "stronger",
        "patient": "more patient",
        "busy": "busier",
        "clever": "cleverer",
        "kind": "kinder",
    }
    adjective = ADJECTIVES[dice.choose(sorted(words))]
    peers = (*MEN, FAMILY[3]) if adjective.english == "strong" else (*NAMES, FAMILY[3], FAMILY[5])
    one = dice.choose(peers)
    other = dice.choose([peer for peer in peers if peer != one])
    agreed = adjective.agreed(one.gender, False)
    if dice.once_in(3):
        return finished(
            f"{one.english} is as {adjective.english} as {other.english}",
            f"{one.french} est aussi {agreed} que {other.french}",
            f"{one.chinese} 和 {other.chinese} 一样 {adjective.chinese_predicate}",
        )
    return finished(
        f"{one.english} is {words[adjective.english]} than {other.english}",
        f"{one.french} est plus {agreed} que {other.french}",
        f"{one.chinese} 比 {other.chinese} {adjective.chinese_predicate}",
    )
