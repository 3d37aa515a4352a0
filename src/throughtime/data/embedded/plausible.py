"""What makes a sentence sensible: who does what, and at what time of the day."""

from __future__ import annotations

from throughtime.data.embedded.adverbials import Adverbial
from throughtime.data.embedded.clauses import Action
from throughtime.data.embedded.people import Person

_CHILDREN = ("children", "little brother", "little sister")
_ELDERS = ("Mr ", "Mrs ", "mother", "father", "parents", "uncle", "aunt", "neighbour", "teacher")
_GROWN_UP_VERBS = {"sell", "drive", "work", "work in", "travel", "order", "invite", "repair"}
_GROWN_UP_THINGS = {
    "beer",
    "wine",
    "coffee",
    "car",
    "house",
    "computer",
    "bed",
    "sofa",
    "fridge",
    "table",
    "child",
    "camera",
    "cup of coffee",
    "glass of wine",
    "bottle of beer",
    "bottle of wine",
    "the news",
    "the office",
    "the bank",
    "the university",
    "garden",
    "horse",
    "novel",
    "the newspaper",
    "newspaper",
    "wallet",
    "passport",
}
_YOUNG_THINGS = {
    "homework",
    "cartoon",
    "history",
    "mathematics",
    "geography",
    "biology",
    "video games",
    "school",
}
_PERSONAL = {"hat", "watch", "wallet", "passport", "phone", "pen", "camera", "bicycle"}
_YOUNG_PLACES = {"at school"}
_DAYTIME_THINGS = {
    "school",
    "the market",
    "the bank",
    "the hospital",
    "the post office",
    "the library",
    "the museum",
    "the office",
    "the zoo",
    "the university",
    "museum",
    "castle",
    "classroom",
    "stamp",
    "the park",
    "the beach",
}
_DAYTIME_PLACES = {"at school", "at the market", "at the library", "at the office", "at the museum"}
_HOURS = {
    "have dinner": "evening night",
    "breakfast": "morning",
    "lunch": "",
    "have lunch": "",
    "dinner": "evening night",
}


def sensible(subject: Person, action: Action) -> bool:
    """Whether this person might well do this: children drink no wine, grandmothers have no homework."""
    verb, thing = action.sense.english, action.thing.key if action.thing is not None else ""
    if any(child in subject.english for child in _CHILDREN):
        return verb not in _GROWN_UP_VERBS and thing not in _GROWN_UP_THINGS
    if (
        subject.plural
        and verb in ("look for", "find", "lose", "forget", "sell", "repair")
        and thing in _PERSONAL
    ):
        return False
    if thing in ("dress", "skirt") and subject.gender == "m":
        return False
    if verb == "love" and not (subject.pronoun or " " not in subject.english):
        return False
    return not (is_elder(subject) and thing in _YOUNG_THINGS and verb != "go to")


def is_elder(subject: Person) -> bool:
    """Whether school is long past."""
    return any(elder in subject.english for elder in _ELDERS)


def place_fits(subject: Person, place: Adverbial) -> bool:
    """Whether one would meet this person there."""
    if any(child in subject.english for child in _CHILDREN):
        return place.english != "at the office"
    return not (is_elder(subject) and place.english in _YOUNG_PLACES)


def time_fits(action: Action, time: Adverbial, place: Adverbial | None = None) -> bool:
    """Whether this is done at such an hour: no breakfast at night, no beer in the morning."""
    thing = action.thing.key if action.thing is not None else ""
    if "summer" in time.english:
        return action.sense.english in ("visit", "go to", "travel", "learn")
    if action.sense.english == "wear":
        return time.english == "every day"
    if action.sense.english in ("open", "close", "turn on", "turn off") and time.english.startswith("on "):
        return False
    hour = next((part for part in ("morning", "afternoon", "evening", "night") if part in time.english), "")
    alcohol = any(drink in thing for drink in ("beer", "wine"))
    if alcohol and time.english in ("every day", "every evening"):
        return False
    if not hour:
        return True
    for meal in (action.sense.english, thing):
        if meal in _HOURS:
            return hour in _HOURS[meal].split()
    dark = hour in ("evening", "night")
    if dark and (thing in _DAYTIME_THINGS or (place is not None and place.english in _DAYTIME_PLACES)):
        return False
    return not (hour == "morning" and alcohol)
