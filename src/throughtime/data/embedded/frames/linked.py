"""Longer sentences: because, but, and, if, that; giving, travelling, and what has already been done."""

from __future__ import annotations

from throughtime.data.embedded import chinese, english, french
from throughtime.data.embedded.adjectives import ADJECTIVES
from throughtime.data.embedded.clauses import Action, Clause, Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames.actions import action, past_time, somebody
from throughtime.data.embedded.frames.description import QUALITIES, described, finished, thing_as_person
from throughtime.data.embedded.nouns import NOUNS
from throughtime.data.embedded.people import ASKED_ABOUT, FAMILY, GENTLEFOLK, HE, NAMES, SHE, SPOKEN_OF, THIRD, I, Person
from throughtime.data.embedded.phrases import Fixed, Somebody, Thing
from throughtime.data.embedded.senses import SENSES, Sense
from throughtime.data.embedded.verbs import english_verb, french_verb

_REASONS = (("tired", "fatigué", "很 累"), ("busy", "occupé", "很 忙"), ("ill", "malade", "病 了"))
_WEATHER_REASONS = (
    ("it was raining", "il pleuvait", "下雨 了"), ("it was too cold", "il faisait trop froid", "天气 太 冷 了"),
    ("it was too hot", "il faisait trop chaud", "天气 太 热 了"), ("it was snowing", "il neigeait", "下雪 了"),
)  # fmt: skip
_OUTDOORS = ("go to", "play", "run", "swim", "take a walk", "ride", "visit", "do the shopping")


def because(dice: Dice) -> Sentence:
    """Marie didn't go to school because she was ill. We didn't swim because it was too cold."""
    subject = dice.choose(SPOKEN_OF)
    outdoors = dice.once_in(3)
    doing = action(dice, "d", subject, said=False)
    while doing.sense.english in ("find", "win", "meet", "see") or (outdoors and doing.sense.english not in _OUTDOORS):
        doing = action(dice, "d", subject, said=False)
    told = Clause(subject, doing, "past", negative=True)
    again = subject.again
    if outdoors:
        en, fr, zh = dice.choose(_WEATHER_REASONS)
    else:
        en, fr, zh = dice.choose(_REASONS)
        agreed = french.agree(fr, subject.gender, subject.plural) if fr != "malade" else fr + ("s" if subject.plural else "")
        en, fr = f"{again.english} {english.be(subject, past=True)} {en}", f"{again.french} {french.be(subject, past=True)} {agreed}"
        zh = f"{again.chinese} {zh}"
    made = finished((
        f"{english.clause(told).strip()} because {en}",
        f"{french.clause(told).strip()} parce que {fr}",
        f"{chinese.clause(told).strip()} ， 因为 {zh}",
    ))  # fmt: skip
    return made._replace(units=doing.units)


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
    again = subject.again
    yes, no = Clause(subject, liked, "present"), Clause(again, disliked, "present", negative=True)
    if dice.once_in(3) and subject.english not in ("I", "we"):
        yes, no = Clause(subject, liked, "present", negative=True), Clause(again, disliked, "present")
    late = chinese.clause(no).replace(again.chinese, "", 1)
    made = finished((
        f"{english.clause(yes).strip()}, but {english.clause(no).strip()}",
        f"{french.clause(yes).strip()}, mais {french.clause(no).strip()}",
        f"{chinese.clause(yes)} ， 但是 {late}",
    ))  # fmt: skip
    return made._replace(units=liked.units | disliked.units)


def no_time(dice: Dice) -> Sentence:
    """Anna wants to read, but she doesn't have time."""
    from throughtime.data.embedded.clauses import WANT

    subject = dice.choose(SPOKEN_OF)
    doing = action(dice, "w", subject)
    while doing.sense.english in ("sell", "win", "buy", "eat", "drink", "open", "close", "turn on", "turn off", "order", "take"):
        doing = action(dice, "w", subject)
    wanted = Clause(subject, doing, "present", modal=WANT)
    again = subject.again
    made = finished((
        f"{english.clause(wanted).strip()}, but {again.english} {english.do(subject, negative=True)} have time",
        f"{french.clause(wanted).strip()}, mais {again.french} ne {french_verb('avoir').present[subject.person]} pas le temps",
        f"{chinese.clause(wanted)} ， 但是 {again.chinese} 没有 时间",
    ))  # fmt: skip
    return made._replace(units=doing.units)


_SHOPPING = {
    "buy": ("bread", "milk", "cheese", "fish", "meat", "vegetables", "apple", "orange", "banana", "tomato", "egg", "flower"),
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
    told = Clause(subject, first, "past")
    return finished((
        f"{english.clause(told)} and {english.complement(second)} {when.english}",
        f"{french.clause(told)} et {french.complement(second)} {when.french}",
        f"{subject.chinese} {when.chinese} {sense.chinese.format('了')} {one.chinese} 和 {other.chinese}",
    ))._replace(units=first.units | second.units)  # fmt: skip


_RAINY = ("watch", "read", "play cards", "play chess", "listen to", "prepare", "clean")
_SUNNY = ("go to the park", "go to the beach", "go to the zoo", "play football", "play tennis", "play basketball", "take a walk",
          "ride a bike", "wash the clothes", "go to the market", "swim", "run")  # fmt: skip
_CONDITIONS = (
    ("if it rains", "si il pleut", "如果 {} 下雨", _RAINY), ("if it snows", "si il neige", "如果 {} 下雪", _RAINY),
    ("if the weather is nice", "si il fait beau", "如果 {} 天气 好", _SUNNY),
)  # fmt: skip


def condition(dice: Dice) -> Sentence:
    """If it rains tomorrow, we will watch a film."""
    subject = dice.choose(SPOKEN_OF)
    en, fr, zh, wanted = dice.choose(_CONDITIONS)
    doing = action(dice, "f", subject)
    while not _name_of(doing).startswith(wanted):
        doing = action(dice, dice.choose("fw"), subject)
    when = dice.choose((("tomorrow", "demain", "明天"), ("on Saturday", "samedi", "星期六"), ("on Sunday", "dimanche", "星期天")))
    told = Clause(subject, doing, "future")
    made = finished((
        f"{en} {when[0]}, {english.clause(told).strip()}",
        f"{fr} {when[1]}, {french.clause(told).strip()}",
        f"{zh.format(when[2])} ， {subject.chinese} 就 {chinese.verb_phrase(doing, bare=True)}",
    ))  # fmt: skip
    return made._replace(units=doing.units)


def _name_of(doing: Action) -> str:
    return f"{doing.sense.english} {doing.thing.key if doing.thing is not None else ''}"


_MADE = {
    "buy": ("acheter", "买", "book novel car bicycle bag coat dress shirt chair sofa watch computer phone shoes suitcase apple orange"),
    "read": ("lire", "看", "book novel story"),
    "write": ("écrire", "写", "book novel story"),
    "watch": ("regarder", "看", "film"),
    "make": ("faire", "做", "cake soup salad"),
    "choose": ("choisir", "选", "book film coat dress hotel restaurant"),
}
_NOT_OURS = {"expensive", "cheap"}


def relative(dice: Dice) -> Sentence:
    """The car that Paul bought is very fast."""
    subject = dice.choose(SPOKEN_OF)
    verb = dice.choose(("buy", "buy", "buy", "read", "write", "watch", "make"))
    infinitive, zh, nouns = _MADE[verb]
    noun = NOUNS[dice.choose(nouns.split())]
    thing = Thing(noun, "the")
    adjective = ADJECTIVES[dice.choose(QUALITIES[noun.english].split())]
    if verb != "buy" and adjective.english == "expensive":
        adjective = ADJECTIVES["interesting"]
    done = french.agree(french_verb(infinitive).participle, noun.gender, thing.french_plural)
    as_subject = Person(
        f"{thing.english()} that {subject.english} {english_verb(verb).past}",
        f"{thing.french()} que {subject.french} {french_verb('avoir').present[subject.person]} {done}",
        f"{subject.chinese} {zh} 的 {noun.chinese}",
        thing_as_person(thing).person, noun.gender,
    )  # fmt: skip
    degree = "very" if dice.once_in(3) and adjective.english not in ("delicious", "interesting") else ""
    parts = described(as_subject, adjective, plural=thing.french_plural, degree=degree)
    return finished(parts)._replace(units=frozenset({(verb, noun.english)}))


def opinion(dice: Dice) -> Sentence:
    """I think that this soup is too salty."""
    thinker = dice.choose((I, I, I, HE, SHE, *NAMES, *FAMILY[:10]))
    noun = NOUNS[dice.choose(sorted(QUALITIES))]
    adjective = ADJECTIVES[dice.choose(QUALITIES[noun.english].split())]
    thing = Thing(noun, dice.choose(("this", "that")) if noun.countable or noun.plural_only else "the")
    degree = dice.choose(("", "very"))
    if adjective.english in ("expensive", "difficult", "long", "hot", "cold", "salty", "sweet", "heavy", "big", "small", "dirty"):
        degree = dice.choose(("", "very", "too"))
    elif adjective.english in ("delicious", "interesting"):
        degree = ""
    en, fr, zh = described(thing_as_person(thing), adjective, plural=thing.french_plural, degree=degree)
    third = thinker.person == THIRD
    return finished((
        f"{thinker.english} {'thinks' if third else 'think'} that {en}",
        f"{thinker.french} pense que {fr}",
        f"{thinker.chinese} 觉得 {zh}",
    ))  # fmt: skip


_GIVING = (
    Sense("give", "donner à", "给 了 {} ", "d", "book, flower, pen, watch, bag, camera, key, dictionary, photo, apple, orange, ticket"),
    Sense("send", "envoyer à", "给 {} 寄 了", "d", "letter, gift, photo, book"),
    Sense("show", "montrer à", "给 {} 看 了", "d", "photo, letter, book, ticket, passport"),
)


def giving(dice: Dice) -> Sentence:
    """Paul gave Marie a book. My aunt sent me three letters last week."""
    subject = dice.choose(SPOKEN_OF)
    sense = dice.choose(_GIVING)
    noun = NOUNS[sense.nouns.split(", ")[dice.throw(len(sense.objects))]]
    receiver = Somebody(somebody(dice, subject))
    thing = Thing(noun, dice.choose(("a", "2", "3") if noun.english in ("flower", "photo", "letter", "apple", "orange", "ticket") else ("a",)))
    verb, given = french_verb(sense.french.split()[0]), english_verb(sense.english)
    when = past_time(dice, Action(sense, thing))
    made = finished((
        f"{subject.english} {given.past} {receiver.english()} {thing.english()} {when.english}",
        f"{subject.french} {receiver.clitic(indirect=True)} {french_verb('avoir').present[subject.person]} {verb.participle}"
        f" {thing.french()} {receiver.french(after='à')} {when.french}",
        f"{subject.chinese} {when.chinese} {sense.chinese.format(receiver.chinese())} {thing.chinese()}",
    ))  # fmt: skip
    return made._replace(units=frozenset({(sense.english, noun.english)}))


_VEHICLES = (
    ("by bus", "en bus", "坐 公交车"), ("by metro", "en métro", "坐 地铁"), ("by taxi", "en taxi", "坐 出租车"),
    ("by car", "en voiture", "开车"), ("by bicycle", "à vélo", "骑 自行车"), ("on foot", "à pied", "走路"),
)  # fmt: skip
_LONG_VEHICLES = (("by train", "en train", "坐 火车"), ("by plane", "en avion", "坐 飞机"))
_TRIPS = tuple(sense for sense in SENSES if sense.english == "go to")


def journey(dice: Dice) -> Sentence:
    """Marie goes to school by bus every day. We went to Beijing by train last year."""
    subject = dice.choose(SPOKEN_OF)
    far = dice.once_in(2)
    sense = _TRIPS[1] if far else _TRIPS[0]
    doing = Action(sense, dice.choose(sense.objects))  # type: ignore[arg-type]
    en, fr, zh = dice.choose(_LONG_VEHICLES if far else _VEHICLES)
    while zh == "开车" and any(child in subject.english for child in ("little", "children")):
        en, fr, zh = dice.choose(_VEHICLES)
    past = far or dice.once_in(2)
    usual = ("every day", "tous les jours", "每天")
    when = past_time(dice, doing) if past else usual
    told = Clause(subject, doing, "past" if past else "present")
    gone = chinese.done(doing) if past else chinese.verb_phrase(doing)
    made = finished((
        f"{english.clause(told)} {en} {when[0]}", f"{french.clause(told)} {fr} {when[1]}", f"{subject.chinese} {when[2]} {zh} {gone}",
    ))  # fmt: skip
    return made._replace(units=doing.units)


_ALREADY = (
    Sense("read", "lire", "看 过 {} 了", "d", "book, novel, letter, magazine", determiners="the"),
    Sense("watch", "regarder", "看 过 {} 了", "d", "film", determiners="the"),
    Sense("have", "prendre", "吃 过 {} 了", "d", fixed="breakfast=le petit déjeuner=早饭"),
    Sense("have lunch", "déjeuner", "吃 过 午饭 了", "d"),
    Sense("have dinner", "dîner", "吃 过 晚饭 了", "d"),
    Sense("clean", "nettoyer", "打扫 {} 了", "d", "kitchen, bathroom, room, house", determiners="the"),
    Sense("wash", "faire", "洗 {} 了", "d", fixed="the dishes=la vaisselle=碗"),
    Sense("close", "fermer", "关上 {} 了", "d", "window, door", determiners="the"),
    Sense("go home", "rentrer à la maison", "回 家 了", "d"),
    Sense("buy", "acheter", "买 {} 了", "d", "bread, milk, vegetables", determiners="bare"),
    Sense("leave", "partir", "走 了", "d"),
    Sense("arrive", "arriver", "到 了", "d"),
)


def already(dice: Dice) -> Sentence:
    """Marie has already read the book. Paul hasn't had breakfast yet."""
    subject = dice.choose(SPOKEN_OF)
    sense = dice.choose(_ALREADY)
    chosen = dice.choose(sense.objects) if sense.objects else None
    thing = chosen if chosen is None or isinstance(chosen, Fixed) else Thing(chosen, sense.determiners)
    doing = Action(sense, thing)
    told = Clause(subject, doing, "past")
    has = "has" if subject.person == THIRD else "have"
    participle = english_verb(sense.english).participle
    if dice.once_in(2):
        made = finished((
            f"{subject.english} {has} already {participle} {english.complement(doing)}",
            f"{subject.french} {french.verb_phrase(told, adverb='déjà')}",
            f"{subject.chinese} 已经 {chinese.verb_phrase(doing)}",
        ))  # fmt: skip
        return made._replace(units=doing.units)
    undone = chinese.verb_phrase(doing).removesuffix(" 了").replace(" 过", "")
    made = finished((
        f"{subject.english} {has}n't {participle} {english.complement(doing)} yet",
        f"{subject.french} {french.verb_phrase(told, denial='pas encore')}",
        f"{subject.chinese} 还 没 {undone}",
    ))  # fmt: skip
    return made._replace(units=doing.units)


def experience(dice: Dice) -> Sentence:
    """Have you ever been to Paris? I have never been to China."""
    place = dice.choose(_TRIPS[1].objects)
    doing = Action(_TRIPS[1], place)  # type: ignore[arg-type]
    asked = dice.once_in(2)
    subject = dice.choose(ASKED_ABOUT if asked else SPOKEN_OF)
    has = "has" if subject.person == THIRD else "have"
    told = Clause(subject, doing, "past")
    assert isinstance(place, Fixed)
    if asked:
        made = finished((
            f"{has} {subject.english} ever been to {place.english()}",
            f"est-ce que {subject.french} {french.verb_phrase(told, adverb='déjà')}",
            f"{subject.chinese} 去 过 {place.chinese()} 吗",
        ), question=True)  # fmt: skip
    else:
        made = finished((
            f"{subject.english} {has} never been to {place.english()}",
            f"{subject.french} {french.verb_phrase(told, denial='jamais')}",
            f"{subject.chinese} 从来 没 去 过 {place.chinese()}",
        ))  # fmt: skip
    return made._replace(units=doing.units)


def trades(dice: Dice) -> Sentence:
    """My father is a doctor and my mother is a teacher."""
    from throughtime.data.embedded.frames.description import JOBS

    pairs = ((FAMILY[1], FAMILY[0]), (FAMILY[3], FAMILY[5]), (FAMILY[8], FAMILY[9]), (GENTLEFOLK[0], GENTLEFOLK[1]),
             (GENTLEFOLK[2], GENTLEFOLK[3]), (HE, SHE))  # fmt: skip
    man, woman = dice.choose(pairs)
    his = dice.choose(JOBS)
    her = dice.choose([job for job in JOBS if job != his])
    return finished((
        f"{man.english} is {his[0]} and {woman.english} is {her[0]}",
        f"{man.french} est {his[1]} et {woman.french} est {her[2]}",
        f"{man.chinese} 是 {his[3]} ， {woman.chinese} 是 {her[3]}",
    ))  # fmt: skip


