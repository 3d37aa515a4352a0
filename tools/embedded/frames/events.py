"""What people gave, where they went, and what they have already done."""

from __future__ import annotations

from tools.embedded import chinese, english, french
from tools.embedded.clauses import Action, Clause
from tools.embedded.dice import Dice
from tools.embedded.frames.doing import past_time, somebody
from tools.embedded.nouns import NOUNS
from tools.embedded.people import ASKED_ABOUT, SPOKEN_OF, THIRD, Person
from tools.embedded.phrases import Fixed, Somebody, Thing
from tools.embedded.plausible import is_child, is_elder, sensible
from tools.embedded.senses import SENSES, Sense
from tools.embedded.sentences import Sentence, finished
from tools.embedded.verbs import english_verb, french_verb

_GIVING = (
    Sense("give", "offrir à", "送 了 {}", "d", "book, flower, watch, bag, camera, scarf, dictionary"),
    Sense("give", "donner à", "给 了 {}", "d", "pen, photo, ticket, key"),
    Sense("send", "envoyer à", "给 {} 寄 了", "d", "letter, gift, photo, book"),
    Sense("show", "montrer à", "给 {} 看 了", "d", "photo, letter, book"),
)

_FOR_ONE = ("watch", "bag", "scarf", "pen", "key")


def giving(dice: Dice) -> Sentence:
    """Paul gave Marie a book. My aunt sent me three letters last week."""
    subject = dice.choose(SPOKEN_OF)
    sense = dice.choose(_GIVING)
    noun = NOUNS[sense.nouns.split(", ")[dice.throw(len(sense.objects))]]
    whom = somebody(dice, subject)
    if (whom.english == "you" and subject.english != "I") or (whom.plural and noun.english in _FOR_ONE):
        return giving(dice)
    receiver = Somebody(whom)
    several = noun.english in ("photo", "letter", "ticket")
    thing = Thing(
        noun, "some" if noun.english == "flower" else dice.choose(("a", "2", "3") if several else ("a",))
    )
    verb, given = french_verb(sense.french.split()[0]), english_verb(sense.english)
    in_french = f"{receiver.clitic(indirect=True)} {french.present('avoir', subject)} {verb.participle}"
    when = past_time(dice, Action(sense, thing))
    return finished(
        f"{subject.english} {given.past} {receiver.english()} {thing.english()} {when.english}",
        f"{subject.french} {in_french} {thing.french()} {receiver.french(after='à')} {when.french}",
        f"{subject.chinese} {when.chinese} {sense.chinese.format(receiver.chinese())} {thing.chinese()}",
        units=frozenset({(sense.english, noun.english)}),
    )


_VEHICLES = (
    ("by bus", "en bus", "坐 公交车"),
    ("by metro", "en métro", "坐 地铁"),
    ("by taxi", "en taxi", "坐 出租车"),
    ("by car", "en voiture", "开车"),
    ("by bicycle", "à vélo", "骑 自行车"),
    ("on foot", "à pied", "走路"),
)
_LONG_VEHICLES = (("by train", "en train", "坐 火车"), ("by plane", "en avion", "坐 飞机"))
_NEAR = next(sense for sense in SENSES if sense.english == "go to" and not sense.long)
_FAR = next(sense for sense in SENSES if sense.english == "go to" and sense.long)
_DAILY = ("school", "the office", "the university", "the library")


def _trip(dice: Dice, subject: Person, *, far: bool, daily: bool) -> Action:
    sense = _FAR if far else _NEAR
    while True:
        doing = Action(sense, _destination(dice, sense))
        goal = doing.thing.key if doing.thing is not None else ""
        too_old = goal == "school" and is_elder(subject)
        if (goal in _DAILY or not daily) and sensible(subject, doing) and not too_old:
            return doing


def _destination(dice: Dice, sense: Sense) -> Fixed:
    place = dice.choose(sense.objects)
    assert isinstance(place, Fixed)
    return place


def _vehicles(subject: Person, doing: Action) -> tuple[tuple[str, str, str], ...]:
    """What one might take there: no train goes to Japan, and children drive no car."""
    place = doing.thing.key if doing.thing is not None else ""
    if doing.sense.long:
        return _LONG_VEHICLES[1:] if place in ("Japan", "Canada", "China") else _LONG_VEHICLES
    if is_child(subject):
        return _VEHICLES[:2] + _VEHICLES[4:]
    return _VEHICLES


def journey(dice: Dice) -> Sentence:
    """Marie goes to school by bus every day. We went to Beijing by train last year."""
    subject = dice.choose(SPOKEN_OF)
    far = dice.once_in(2)
    past = far or dice.once_in(2)
    doing = _trip(dice, subject, far=far, daily=not past)
    vehicles = _vehicles(subject, doing)
    en, fr, zh = dice.choose(vehicles if past else [way for way in vehicles if way[0] != "by taxi"])
    usual = ("every day", "tous les jours", "每天")
    when = past_time(dice, doing) if past else usual
    told = Clause(subject, doing, "past" if past else "present")
    gone = chinese.done(doing) if past else chinese.verb_phrase(doing)
    return finished(
        f"{english.clause(told)} {en} {when[0]}",
        f"{french.clause(told)} {fr} {when[1]}",
        f"{subject.chinese} {when[2]} {zh} {gone}",
        units=doing.units,
    )


_ALREADY = (
    Sense("read", "lire", "看 过 {} 了", "d", "book, novel, letter, magazine", determiners="the"),
    Sense("see", "voir", "看 过 {} 了", "d", "film", determiners="the"),
    Sense("have", "prendre", "吃 过 {} 了", "d", fixed="breakfast=le petit déjeuner=早饭"),
    Sense("have lunch", "déjeuner", "吃 过 午饭 了", "d"),
    Sense("have dinner", "dîner", "吃 过 晚饭 了", "d"),
    Sense(
        "clean",
        "nettoyer",
        "打扫 {}",
        "d",
        "kitchen, bathroom, room, house",
        determiners="the",
        done="把 {} 打扫 干净 了",
    ),
    Sense("wash", "faire", "洗 {}", "d", fixed="the dishes=la vaisselle=碗", done="把 {} 洗 了"),
    Sense("close", "fermer", "关 {}", "d", "window, door", determiners="the", done="把 {} 关上 了"),
    Sense("go home", "rentrer à la maison", "回 家 了", "d"),
    Sense("buy", "acheter", "买 {}", "d", "bread, milk, vegetables", determiners="bare", done="买 好 {} 了"),
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
        return finished(
            f"{subject.english} {has} already {participle} {english.complement(doing)}",
            f"{subject.french} {french.verb_phrase(told, adverb='déjà')}",
            f"{subject.chinese} 已经 {chinese.done(doing) if sense.done else chinese.verb_phrase(doing)}",
            units=doing.units,
        )
    undone = chinese.verb_phrase(doing).removesuffix(" 了").replace(" 过", "")
    return finished(
        f"{subject.english} {has}n't {participle} {english.complement(doing)} yet",
        f"{subject.french} {french.verb_phrase(told, denial='pas encore')}",
        f"{subject.chinese} 还 没 {undone}",
        units=doing.units,
    )


def experience(dice: Dice) -> Sentence:
    """Have you ever been to Paris? I have never been to China."""
    place = _destination(dice, _FAR)
    doing = Action(_FAR, place)
    asked = dice.once_in(2)
    subject = dice.choose(ASKED_ABOUT if asked else SPOKEN_OF)
    has = "has" if subject.person == THIRD else "have"
    told = Clause(subject, doing, "past")
    if asked:
        return finished(
            f"{has} {subject.english} ever been to {place.english()}",
            f"est-ce que {subject.french} {french.verb_phrase(told, adverb='déjà')}",
            f"{subject.chinese} 去 过 {place.chinese()} 吗",
            mark="?",
            units=doing.units,
        )
    return finished(
        f"{subject.english} {has} never been to {place.english()}",
        f"{subject.french} {french.verb_phrase(told, denial='jamais')}",
        f"{subject.chinese} 从来 没 去 过 {place.chinese()}",
        units=doing.units,
    )
