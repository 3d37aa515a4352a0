"""What makes a sentence sensible: who does what, and at what time of the day."""

from __future__ import annotations

from typing import NamedTuple

from tools.embedded.adverbials import Adverbial
from tools.embedded.clauses import Action
from tools.embedded.people import FIRST, FIRST_PLURAL, POLITE, SECOND, Person

_CHILDREN = ("children", "little brother", "little sister")
_ELDERS = ("Mr ", "Mrs ", "mother", "father", "parents", "uncle", "aunt", "neighbour", "teacher")


def _phrases(text: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in text.split(","))


class _Unfit(NamedTuple):
    """What some people do not do."""

    whom: tuple[str, ...]
    verbs: frozenset[str]
    things: frozenset[str]


_UNFIT = (
    _Unfit(
        _CHILDREN,
        _phrases("sell, drive, work, work in, travel, order, invite, repair"),
        _phrases(
            "beer, wine, coffee, car, house, computer, bed, sofa, fridge, table, child, camera,"
            " cup of coffee, glass of wine, bottle of beer, bottle of wine, the news, the office, the bank,"
            " the university, garden, horse, novel, the newspaper, newspaper, wallet, passport,"
            " dictionary, a taxi, gift, suitcase"
        ),
    ),
    _Unfit(
        _ELDERS,
        _phrases("draw"),
        _phrases("homework, cartoon, history, mathematics, geography, biology, video games, school"),
    ),
    _Unfit(
        ("grandmother", "grandfather"),
        _phrases("run, ski, repair, work, work in, ride, dance"),
        _phrases("football, basketball, volleyball, tennis, the office, the university"),
    ),
    _Unfit(
        ("students", "friends"),
        _phrases("sell, draw"),
        _phrases("car, house, child, the office, garden, horse, dog, cat, fridge, sofa, table, bed"),
    ),
    _Unfit(("brother", "sister"), frozenset(), _phrases("brother, sister")),
    _Unfit(("parents", "Tom and", "Anna and"), _phrases("draw"), _phrases("child")),
)
_PERSONAL = _phrases(
    "hat, watch, wallet, passport, phone, pen, pencil, camera, bicycle, shirt, dress, skirt, coat, jacket,"
    " sweater, scarf, gloves, glasses, shoes, boots, umbrella, notebook, bag"
)
_ONE_BY_ONE = _phrases("look for, find, forget, sell, repair, buy, want, need")
_YOUNG_PLACES = {"at school"}
_DAYTIME_THINGS = _phrases(
    "school, the market, the bank, the hospital, the post office, the library, the museum, the office,"
    " the zoo, the university, museum, castle, classroom, stamp, the park, the beach, car"
)
_DAYTIME_VERBS = _phrases("buy, ski, ride")
_DAYTIME_PLACES = {"at school", "at the market", "at the library", "at the office", "at the museum"}
_HOURS = {
    "have dinner": "evening night",
    "breakfast": "morning",
    "lunch": "",
    "have lunch": "",
    "dinner": "evening night",
}
_MEALS = _phrases("rice, fish, meat, salad, vegetables, noodles, pizza, soup")
_TREATS = _phrases("cake, ice cream, chocolate, tomato, sandwich")
_GROCERIES = _phrases(
    "bread, milk, cheese, fish, meat, apple, orange, banana, pear, tomato, egg, vegetables, pencil,"
    " pen, notebook"
)
_SMALL = _phrases("eat, make, wash, rest, repair, open, close, write, read")
"""What nobody foresees a week before."""
_DAYS = _phrases("on Monday, on Saturday, on Sunday")
_FREE_DAYS = _phrases("on Saturday, on Sunday, next Saturday, this weekend")
_WEEKDAY_THINGS = _phrases("school, the office, the bank, the post office, the university")
_FORGOTTEN = _phrases("open, close, turn on, turn off, eat, drink, listen to")
"""What nobody remembers for days."""
_WEEKEND, _DAILY = _phrases("every weekend, on Sundays"), _phrases("every day, every morning")
_USUAL_TIMES = {
    "go to the bank": frozenset[str](),
    "go to the post office": frozenset[str](),
    "go to school": _DAILY,
    "go to the office": _DAILY,
    "go to the university": _DAILY,
    "go to the park": _WEEKEND | {"every day"},
    "go to the swimming pool": _WEEKEND | {"every day"},
    "go to the library": _phrases("every day, every weekend"),
    "go to": _WEEKEND,
    "take photo": _WEEKEND,
    "take": _DAILY,
    "buy bread": _WEEKEND | _DAILY,
    "buy milk": _WEEKEND | _DAILY,
    "buy": _WEEKEND,
    "do the shopping": _WEEKEND,
    "have": _phrases("every day, every morning, every evening, on Sundays"),
    "drink beer": _WEEKEND,
    "drink wine": _WEEKEND,
    "drink": _DAILY,
    "eat egg": _DAILY,
    "eat bread": _DAILY,
    "eat cake": _WEEKEND,
    "eat ice cream": _WEEKEND,
    "eat pizza": _WEEKEND,
    **{
        f"eat {food}": _phrases("every day, every evening, on Sundays") for food in sorted(_MEALS - {"pizza"})
    },
    "eat": _DAILY,
    "make coffee": _DAILY,
    "make tea": _DAILY,
    "make": _WEEKEND,
    "visit": _WEEKEND,
    "help": _WEEKEND | _phrases("every day, every evening"),
    "clean": _WEEKEND | {"every day"},
    "wash the dishes": _phrases("every day, every evening"),
    "wash": _WEEKEND,
    "write novel": frozenset[str](),
    "read novel": _phrases("every evening, every weekend"),
    "watch film": _WEEKEND | {"every evening"},
    "take a walk": _WEEKEND | _phrases("every day, every evening, every morning"),
}
"""How often one does what, where not everything goes; the first of these that begins an action counts."""


def name_of(action: Action) -> str:
    """The verb and its object, in a word or two: go to school."""
    return f"{action.sense.english} {action.thing.key if action.thing is not None else ''}".strip()


def sensible(subject: Person, action: Action) -> bool:
    """Whether this person might well do this: children drink no wine, grandmothers have no homework."""
    verb, thing = action.sense.english, action.thing.key if action.thing is not None else ""
    called = "Mr " if subject.person == POLITE else subject.english
    for unfit in _UNFIT:
        if any(word in called for word in unfit.whom) and (verb in unfit.verbs or thing in unfit.things):
            return False
    if subject.plural and verb in _ONE_BY_ONE and thing in _PERSONAL:
        return False
    if thing in ("dress", "skirt") and subject.gender == "m":
        return False
    if thing == "classroom" and subject.person not in (SECOND, POLITE):
        return any(word in subject.english for word in ("students", "children", "teacher"))
    if verb in ("cry", "laugh"):
        return subject.person not in (FIRST, FIRST_PLURAL)
    return verb != "love" or subject.pronoun or " " not in subject.english


def is_elder(subject: Person) -> bool:
    """Whether school is long past."""
    return any(elder in subject.english for elder in _ELDERS)


def is_child(subject: Person) -> bool:
    """Whether still to grow up."""
    return any(child in subject.english for child in _CHILDREN)


def place_fits(subject: Person, place: Adverbial) -> bool:
    """Whether one would meet this person there."""
    if is_child(subject):
        return place.english != "at the office"
    return not (is_elder(subject) and place.english in _YOUNG_PLACES)


def time_fits(action: Action, time: Adverbial, place: Adverbial | None = None) -> bool:
    """Whether this is done at such an hour: no breakfast at night, no beer in the morning."""
    verb, thing = action.sense.english, action.thing.key if action.thing is not None else ""
    if "summer" in time.english:
        return verb in ("visit", "go to", "travel", "learn")
    if time.english == "next Saturday" and (verb in _SMALL or thing in _GROCERIES):
        return False
    if verb == "wear":
        return time.english == "every day"
    at_school = place is not None and place.english == "at school"
    if time.english in _FREE_DAYS and (at_school or thing in _WEEKDAY_THINGS):
        return False
    if time.english == "this weekend" and (verb == "eat" or thing in ("the news", "television")):
        return False
    if (verb == "learn" or name_of(action) == "write novel") and "week" in time.english:
        return False
    if time.english in _DAYS and (verb in _FORGOTTEN or thing in ("coffee", "tea")):
        return False
    if time.english.startswith("every") or time.english == "on Sundays":
        doing = name_of(action)
        usual = next((times for name, times in _USUAL_TIMES.items() if doing.startswith(name)), None)
        if usual is not None and time.english not in usual:
            return False
    return _hour_fits(verb, thing, time, place)


def _hour_fits(verb: str, thing: str, time: Adverbial, place: Adverbial | None) -> bool:
    hour = next((part for part in ("morning", "afternoon", "evening", "night") if part in time.english), "")
    alcohol = any(drink in thing for drink in ("beer", "wine"))
    if alcohol and time.english in ("every day", "every evening"):
        return False
    if not hour:
        return True
    for meal in (verb, thing):
        if meal in _HOURS:
            return hour in _HOURS[meal].split()
    if hour == "morning" and thing in ("the cinema", "the theatre", "the restaurant", "wine", "beer"):
        return False
    dark = hour in ("evening", "night")
    if dark and (thing in _DAYTIME_THINGS or verb in _DAYTIME_VERBS):
        return False
    if dark and place is not None and place.english in _DAYTIME_PLACES:
        return False
    if verb in ("eat", "make", "order", "like") and (
        (thing in _MEALS and not dark) or (thing in _TREATS and hour == "morning")
    ):
        return False
    return not (hour == "morning" and alcohol)
