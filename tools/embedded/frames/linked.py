"""Longer sentences, joined by because, but, and, if or that."""

from __future__ import annotations

from tools.embedded import chinese, english, french
from tools.embedded.adjectives import ADJECTIVES
from tools.embedded.clauses import WANT, Action, Clause
from tools.embedded.dice import Dice
from tools.embedded.frames.description import QUALITIES, described, thing_as_person
from tools.embedded.frames.doing import action, past_time
from tools.embedded.nouns import NOUNS
from tools.embedded.people import (
    COUPLES,
    FAMILY,
    GENTLEFOLK,
    HE,
    NAMES,
    SHE,
    SPOKEN_OF,
    THEY,
    THIRD,
    WE,
    I,
    Person,
)
from tools.embedded.phrases import Fixed, Thing
from tools.embedded.plausible import is_child, name_of, sensible, time_fits
from tools.embedded.senses import SENSES
from tools.embedded.sentences import Sentence, finished, unit
from tools.embedded.verbs import english_verb, french_verb

_REASONS = (("tired", "fatigué", "很 累"), ("busy", "occupé", "很 忙"), ("ill", "malade", "病 了"))
_WEATHER_REASONS = (
    ("it was raining", "il pleuvait", "下雨 了"),
    ("it was too cold", "il faisait trop froid", "天气 太 冷 了"),
    ("it was too hot", "il faisait trop chaud", "天气 太 热 了"),
    ("it was snowing", "il neigeait", "下雪 了"),
)
_OUTDOORS = (
    "go to the park",
    "go to the beach",
    "go to the zoo",
    "go to school",
    "go to the market",
    "play football",
    "play tennis",
    "play basketball",
    "play volleyball",
    "run",
    "swim",
    "take a walk",
    "ride",
    "do the shopping",
)
_TIRING = (
    "go to",
    "visit",
    "play",
    "do",
    "clean",
    "wash",
    "cook",
    "prepare",
    "work",
    "study",
    "swim",
    "dance",
    "run",
    "watch",
    "take a walk",
    "ride",
    "call",
    "write",
)


def because(dice: Dice) -> Sentence:
    """Marie didn't go to school because she was ill. We didn't swim because it was too cold."""
    subject = dice.choose(SPOKEN_OF)
    outdoors = dice.once_in(3)
    doing = action(dice, "d", subject, said=False)
    while name_of(doing) in ("go to the hospital", "write novel") or not (
        name_of(doing).startswith(_OUTDOORS) if outdoors else doing.sense.english in _TIRING
    ):
        doing = action(dice, "d", subject, said=False)
    told = Clause(subject, doing, "past", negative=True)
    again = subject.again
    if outdoors:
        wet = name_of(doing) in ("swim", "go to the beach")
        en, fr, zh = dice.choose(_WEATHER_REASONS[:2] if wet else _WEATHER_REASONS)
    else:
        en, fr, zh = dice.choose(_REASONS)
        agreed = (
            french.agree(fr, subject.gender, subject.plural)
            if fr != "malade"
            else fr + ("s" if subject.plural else "")
        )
        en, fr = (
            f"{again.english} {english.be(subject, past=True)} {en}",
            f"{again.french} {french.be(subject, past=True)} {agreed}",
        )
        zh = f"{again.chinese} {zh}"
    return finished(
        f"{english.clause(told).strip()} because {en}",
        f"{french.clause(told).strip()} parce que {fr}",
        f"{chinese.clause(told).strip()} ， 因为 {zh}",
        units=doing.units,
    )


_LIKED = tuple(sense for sense in SENSES if sense.english == "like" and len(sense.objects) > 2)


def but(dice: Dice) -> Sentence:
    """Paul likes tea, but he doesn't like coffee."""
    subject = dice.choose(SPOKEN_OF)
    sense = dice.choose(_LIKED)
    one = dice.choose(sense.objects)
    other = dice.choose([thing for thing in sense.objects if thing != one])
    assert not isinstance(one, Fixed)
    assert not isinstance(other, Fixed)
    liked, disliked = (Action(sense, Thing(noun, "all")) for noun in (one, other))
    if not (sensible(subject, liked) and sensible(subject, disliked)) or "soup" in (
        one.english,
        other.english,
    ):
        return but(dice)
    again = subject.again
    yes, no = Clause(subject, liked, "present"), Clause(again, disliked, "present", negative=True)
    if dice.once_in(3) and subject.english not in ("I", "we"):
        yes, no = Clause(subject, liked, "present", negative=True), Clause(again, disliked, "present")
    late = chinese.clause(no).replace(again.chinese, "", 1)
    return finished(
        f"{english.clause(yes).strip()}, but {english.clause(no).strip()}",
        f"{french.clause(yes).strip()}, mais {french.clause(no).strip()}",
        f"{chinese.clause(yes)} ， 但是 {late}",
        units=liked.units | disliked.units,
    )


_QUICK = (
    "sell",
    "win",
    "buy",
    "eat",
    "drink",
    "open",
    "close",
    "turn on",
    "turn off",
    "order",
    "take",
    "go home",
    "invite",
    "draw",
    "sing",
)

_NO_WISH = tuple(
    f"go to {place}"
    for place in ("school", "the office", "the university", "the hospital", "the station", "the airport")
)


def no_time(dice: Dice) -> Sentence:
    """Anna wants to read, but she doesn't have time."""
    subject = dice.choose(SPOKEN_OF)
    doing = action(dice, "w", subject)
    while doing.sense.english in _QUICK or name_of(doing) in _NO_WISH:
        doing = action(dice, "w", subject)
    wanted = Clause(subject, doing, "present", modal=WANT)
    again, don_t, ai = subject.again, english.do(subject, negative=True), french.present("avoir", subject)
    return finished(
        f"{english.clause(wanted).strip()}, but {again.english} {don_t} have time",
        f"{french.clause(wanted).strip()}, mais {again.french} ne {ai} pas le temps",
        f"{chinese.clause(wanted)} ， 但是 {again.chinese} 没有 时间",
        units=doing.units,
    )


_SHOPPING = {
    "buy": (
        "bread",
        "milk",
        "cheese",
        "fish",
        "meat",
        "vegetables",
        "apple",
        "orange",
        "banana",
        "tomato",
        "egg",
        "flower",
    ),
    "eat": ("bread", "cheese", "rice", "fish", "meat", "vegetables", "salad", "noodles"),
}


def both(dice: Dice) -> Sentence:
    """Yesterday, Tom bought bread and milk."""
    subject = dice.choose(SPOKEN_OF)
    verb = dice.choose(("buy", "buy", "eat"))
    sense = next(sense for sense in SENSES if sense.english == verb)
    one = NOUNS[dice.choose(_SHOPPING[verb])]
    other = NOUNS[dice.choose([noun for noun in _SHOPPING[verb] if noun != one.english])]
    first, second = Action(sense, Thing(one, "bare")), Action(sense, Thing(other, "bare"))
    when = past_time(dice, first)
    while not time_fits(second, when):
        when = past_time(dice, first)
    told = Clause(subject, first, "past")
    return finished(
        f"{english.clause(told)} and {english.complement(second)} {when.english}",
        f"{french.clause(told)} et {french.complement(second)} {when.french}",
        f"{subject.chinese} {when.chinese} {sense.chinese.format('了')} {one.chinese} 和 {other.chinese}",
        units=first.units | second.units,
    )


_RAINY = (
    "watch",
    "read book",
    "read novel",
    "read the newspaper",
    "play cards",
    "play chess",
    "play the",
    "listen to music",
    "clean",
    "do homework",
)
_SUNNY = (
    "go to the park",
    "go to the beach",
    "go to the zoo",
    "play football",
    "play tennis",
    "play basketball",
    "take a walk",
    "ride a bike",
    "wash the clothes",
    "go to the market",
    "swim",
    "run",
)
_CONDITIONS = (
    ("if it rains", "si il pleut", "如果 {} 下雨", _RAINY),
    ("if it snows", "si il neige", "如果 {} 下雪", _RAINY),
    ("if the weather is nice", "si il fait beau", "如果 {} 天气 好", _SUNNY),
)


def condition(dice: Dice) -> Sentence:
    """If it rains tomorrow, we will watch a film."""
    subject = dice.choose(SPOKEN_OF)
    en, fr, zh, wanted = dice.choose(_CONDITIONS)
    doing = action(dice, "f", subject)
    while not name_of(doing).startswith(wanted) or name_of(doing) == "clean classroom":
        doing = action(dice, dice.choose("fw"), subject)
    when = dice.choose(
        (
            ("tomorrow", "demain", "明天"),
            ("on Saturday", "samedi", "星期六"),
            ("on Sunday", "dimanche", "星期天"),
        )
    )
    told = Clause(subject, doing, "future")
    done = chinese.verb_phrase(doing, bare=True)
    if wanted is _SUNNY and not done.startswith(("去", "洗")):
        done = f"去 {done}"
    return finished(
        f"{en} {when[0]}, {english.clause(told).strip()}",
        f"{fr} {when[1]}, {french.clause(told).strip()}",
        f"{zh.format(when[2])} ， {subject.chinese} 就 {done}",
        units=doing.units,
    )


_MADE = {
    "buy": (
        "acheter",
        "买",
        "book novel car bicycle bag coat dress chair sofa watch computer phone shoes suitcase apple",
    ),
    "read": ("lire", "看", "book novel"),
    "write": ("écrire", "写", "book novel story"),
    "watch": ("regarder", "看", "film"),
    "make": ("faire", "做", "cake soup salad"),
}


def relative(dice: Dice) -> Sentence:
    """The car that Paul bought is very fast."""
    subject = dice.choose(
        (I, HE, SHE, WE, THEY, *NAMES, *COUPLES, *GENTLEFOLK, *FAMILY[:2], FAMILY[3], *FAMILY[5:10])
    )
    verb = dice.choose(("buy", "buy", "buy", "read", "write", "watch", "make"))
    infinitive, zh, nouns = _MADE[verb]
    noun = NOUNS[dice.choose(nouns.split())]
    thing = Thing(noun, "the")
    odd = ("dirty", "clean") if verb == "buy" else ("expensive",)
    adjective = ADJECTIVES[dice.choose([word for word in QUALITIES[noun.english].split() if word not in odd])]
    done = french.agree(french_verb(infinitive).participle, noun.gender, thing.french_plural)
    as_subject = Person(
        f"{thing.english()} that {subject.english} {english_verb(verb).past}",
        f"{thing.french()} que {subject.french} {french.present('avoir', subject)} {done}",
        f"{subject.chinese} {zh} 的 {noun.chinese}",
        thing_as_person(thing).person,
        noun.gender,
    )
    degree = "very" if dice.once_in(3) and adjective.english not in ("delicious", "interesting") else ""
    parts = described(as_subject, adjective, plural=thing.french_plural, degree=degree)
    return finished(*parts, units=unit(verb, noun))


def opinion(dice: Dice) -> Sentence:
    """I think this bag is too heavy."""
    thinker = dice.choose((I, I, I, HE, SHE, *NAMES, *FAMILY[:10]))
    noun = NOUNS[dice.choose(sorted(QUALITIES))]
    if noun.english == "coffee" and is_child(thinker):
        noun = NOUNS["cake"]
    adjective = ADJECTIVES[dice.choose(QUALITIES[noun.english].split())]
    thing = Thing(noun, dice.choose(("this", "that")) if noun.countable or noun.plural_only else "the")
    degree = dice.choose(("", "very"))
    if adjective.english in (
        "expensive",
        "difficult",
        "long",
        "hot",
        "cold",
        "salty",
        "sweet",
        "heavy",
        "big",
        "small",
        "dirty",
    ):
        degree = dice.choose(("", "very", "too"))
    elif adjective.english in ("delicious", "interesting"):
        degree = ""
    en, fr, zh = described(thing_as_person(thing), adjective, plural=thing.french_plural, degree=degree)
    third = thinker.person == THIRD
    return finished(
        f"{thinker.english} {'thinks' if third else 'think'} {en}",
        f"{thinker.french} trouve que {fr}",
        f"{thinker.chinese} 觉得 {zh}",
    )
