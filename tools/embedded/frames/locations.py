"""Where things are: there is, there are, on the table, near the station."""

from __future__ import annotations

from typing import NamedTuple

from tools.embedded import english, french
from tools.embedded.dice import Dice
from tools.embedded.nouns import NOUNS, Noun
from tools.embedded.people import HE, SHE, THEY, YOU, I
from tools.embedded.phrases import Thing
from tools.embedded.sentences import Sentence, finished


class Spot(NamedTuple):
    """A place, and the things one finds there; Chinese as after 在."""

    english: str
    french: str
    chinese: str
    things: tuple[str, ...]


_SPOTS = tuple(
    Spot(en, fr, zh, tuple(things.split(", ")))
    for en, fr, zh, things in (
        line.split("; ")
        for line in """
on the table; sur la table; 桌子 上; book, cup, bottle, apple, orange, letter, newspaper, key, lamp, notebook
on the chair; sur la chaise; 椅子 上; bag, coat, hat, newspaper, cat, umbrella
on the bed; sur le lit; 床 上; cat, book, shirt, dress, bag, magazine
under the table; sous la table; 桌子 下面; cat, dog, box, bag
under the bed; sous le lit; 床 下面; cat, box, suitcase
in the bag; dans le sac; 包 里; book, key, phone, wallet, bottle, notebook, umbrella, pencil
in the box; dans la boîte; 盒子 里; pencil, key, photo, letter, stamp, watch
in the fridge; dans le réfrigérateur; 冰箱 里; egg, bottle, tomato, apple, orange, cake
in the garden; dans le jardin; 花园 里; tree, flower, dog, cat, bird, bicycle, chair
in the kitchen; dans la cuisine; 厨房 里; table, chair, window, cup
in the room; dans la chambre; 房间 里; bed, table, chair, window, lamp, computer, sofa
in the classroom; dans la salle de classe; 教室 里; student, table, chair, window, computer
in front of the house; devant la maison; 房子 前面; car, tree, bicycle, dog, child
near the station; près de la gare; 火车站 附近; bank, hotel, restaurant, pharmacy, supermarket, museum, park
near the hotel; près de l'hôtel; 酒店 附近; bank, restaurant, bakery, park, pharmacy, museum, supermarket
near the school; près de l'école; 学校 附近; library, park, bakery, supermarket, hospital
""".strip().splitlines()
    )
)
_ALONE = {
    "table",
    "lamp",
    "watch",
    "cake",
    "bed",
    "sofa",
    "hospital",
    "station",
    "wallet",
    "phone",
    "park",
    "cat",
    "dog",
    "computer",
    "umbrella",
    "coat",
    "hat",
    "suitcase",
}

_ONLY_ONE = {
    "lamp",
    "watch",
    "cake",
    "wallet",
    "phone",
    "hospital",
    "station",
    "umbrella",
    "hat",
    "sofa",
    "library",
}


def there_is(dice: Dice) -> Sentence:
    """There are three books on the table. There isn't a bank near the station."""
    spot = dice.choose(_SPOTS)
    noun = NOUNS[dice.choose(spot.things)]
    manner = dice.throw(6)
    alone = noun.english in _ALONE or "near" in spot.english
    if manner < 2:
        thing = Thing(noun, "a" if alone else "bare")
    if manner == 0:
        return finished(
            f"there {'isn' if alone else 'aren'}'t {'' if alone else 'any'} {thing.english()} {spot.english}",
            f"il ne y a pas {thing.french(negated=True)} {spot.french}",
            f"{spot.chinese} 没有 {noun.chinese}",
        )
    if manner == 1:
        return finished(
            f"{'is there' if alone else 'are there any'} {thing.english()} {spot.english}",
            f"est-ce que il y a {thing.french()} {spot.french}",
            f"{spot.chinese} 有 {noun.chinese} 吗",
            mark="?",
        )
    if manner == 2 and noun.english not in _ALONE:
        return _how_many(noun, spot)
    thing = Thing(
        noun,
        dice.choose(
            ("a",) if noun.english in _ONLY_ONE else ("a", "2") if alone else ("a", "2", "3", "4", "5", "6")
        ),
    )
    return finished(
        f"there {'are' if thing.plural else 'is'} {thing.english()} {spot.english}",
        f"il y a {thing.french()} {spot.french}",
        f"{spot.chinese} 有 {thing.chinese()}",
    )


def _how_many(noun: Noun, spot: Spot) -> Sentence:
    return finished(
        f"how many {noun.english_plural} are there {spot.english}",
        f"combien de {noun.french_plural} y a-t-il {spot.french}",
        f"{spot.chinese} 有 几 {noun.measure} {noun.chinese}",
        mark="?",
    )


_CARRIED = (
    "key",
    "phone",
    "wallet",
    "umbrella",
    "bag",
    "watch",
    "pen",
    "hat",
    "passport",
    "book",
    "coat",
    "glasses",
)
_HOLDERS = {
    "on the table": "key phone wallet watch pen hat passport book glasses",
    "on the chair": "bag hat coat umbrella",
    "on the bed": "phone bag hat book coat glasses",
    "under the bed": "umbrella book bag",
    "in the bag": "key phone wallet passport book glasses umbrella pen watch",
    "in the kitchen": "key phone glasses bag umbrella",
    "in the room": "phone bag coat umbrella passport hat",
}


def whereabouts(dice: Dice) -> Sentence:
    """My glasses are on the table. Where is your passport? The cat is under the bed."""
    noun = NOUNS[dice.choose(_CARRIED)]
    if dice.once_in(3):
        thing = Thing(noun, "mine", owner=dice.choose((I, YOU, HE, SHE)))
        verb, etre = ("are", "sont") if thing.plural else ("is", "est")
        return finished(
            f"where {verb} {thing.english()}",
            f"où {etre} {thing.french()}",
            f"{thing.chinese()} 在 哪里",
            mark="?",
        )
    spot = dice.choose([spot for spot in _SPOTS if noun.english in _HOLDERS.get(spot.english, "").split()])
    thing = Thing(noun, "mine", owner=dice.choose((I, YOU, HE, SHE)))
    return _located(dice, thing, spot)


def pets(dice: Dice) -> Sentence:
    """Our cat is in the garden."""
    spot = dice.choose([spot for spot in _SPOTS if "cat" in spot.things or "dog" in spot.things])
    noun = NOUNS[dice.choose([pet for pet in ("cat", "dog") if pet in spot.things])]
    thing = dice.choose((Thing(noun, "mine", owner=dice.choose((I, YOU, HE, SHE, THEY))), Thing(noun, "the")))
    return _located(dice, thing, spot)


def _located(dice: Dice, thing: Thing, spot: Spot) -> Sentence:
    person = THEY if thing.plural else HE
    manner = dice.throw(5)
    be = english.be(person, negative=manner == 0)
    asked, etre = "est-ce que" if manner == 1 else "", french.be(person)
    etre = f"ne {etre} pas" if manner == 0 else etre
    named = thing.noun.chinese if thing.determiner == "the" else thing.chinese()
    return finished(
        f"{be} {thing.english()} {spot.english}" if manner == 1 else f"{thing.english()} {be} {spot.english}",
        f"{asked} {thing.french()} {etre} {spot.french}",
        f"{named} {'不' if manner == 0 else ''} 在 {spot.chinese} {'吗' if manner == 1 else ''}",
        mark="?" if manner == 1 else ".",
    )


_BUILDINGS = (
    ("the station", "la gare", "火车站"),
    ("the post office", "la poste", "邮局"),
    ("the bank", "la banque", "银行"),
    ("the hospital", "l'hôpital", "医院"),
    ("the pharmacy", "la pharmacie", "药店"),
    ("the museum", "le musée", "博物馆"),
    ("the airport", "l'aéroport", "机场"),
    ("the library", "la bibliothèque", "图书馆"),
    ("the hotel", "l'hôtel", "酒店"),
    ("the supermarket", "le supermarché", "超市"),
    ("the theatre", "le théâtre", "剧院"),
    ("the market", "le marché", "市场"),
    ("the university", "l'université", "大学"),
    ("the swimming pool", "la piscine", "游泳池"),
    ("the zoo", "le zoo", "动物园"),
    ("the cinema", "le cinéma", "电影院"),
    ("the bakery", "la boulangerie", "面包店"),
    ("the school", "l'école", "学校"),
)
_RELATIONS = (
    ("near", "près de", "{1} 在 {0} 附近"),
    ("behind", "derrière", "{1} 在 {0} 后面"),
    ("opposite", "en face de", "{1} 在 {0} 对面"),
    ("next to", "à côté de", "{1} 在 {0} 旁边"),
    ("far from", "loin de", "{1} 离 {0} 很 远"),
)


def directions(dice: Dice) -> Sentence:
    """Excuse me, where is the station? The bank is opposite the museum."""
    one = dice.choose(_BUILDINGS)
    if dice.once_in(5):
        polite = dice.once_in(2)
        return finished(
            f"{'excuse me, ' if polite else ''}where is {one[0]}",
            f"{'excusez-moi, ' if polite else ''}où est {one[1]}",
            f"{'请问 ， ' if polite else ''}{one[2]} 在 哪里",
            mark="?",
        )
    other = dice.choose([place for place in _BUILDINGS if place != one])
    relation = dice.choose(_RELATIONS)
    return finished(
        f"{one[0]} is {relation[0]} {other[0]}",
        f"{one[1]} est {relation[1]} {other[1]}",
        relation[2].format(other[2], one[2]),
    )
