"""Drawing what somebody does: a sensible verb and object, with whom, where and when."""

from __future__ import annotations

from collections.abc import Sequence

from tools.embedded import adverbials
from tools.embedded.adjectives import ADJECTIVES, colours_of
from tools.embedded.adverbials import PLACES, Adverbial
from tools.embedded.clauses import Action
from tools.embedded.dice import Dice
from tools.embedded.nouns import Noun
from tools.embedded.people import (
    COUPLES,
    FAMILY,
    FIRST,
    FIRST_PLURAL,
    GENTLEFOLK,
    NAMES,
    POLITE,
    PRONOUNS,
    RELATIVES,
    SECOND,
    YOUR_FAMILY,
    Person,
    relative,
)
from tools.embedded.phrases import Fixed, Phrase, Somebody, Thing
from tools.embedded.plausible import is_elder, place_fits, sensible, time_fits
from tools.embedded.senses import SENSES, Sense

_BY_USE = {
    use: tuple(sense for sense in SENSES for _ in range(1 + len(sense.objects) // 3) if use in sense.uses)
    for use in "hpdfwmsit"
}
_DETERMINERS = {
    "h": ("a", "bare", "the", "mine"),
    "p": ("a", "the", "mine"),
    "d": ("a", "some", "the", "number", "mine"),
    "f": ("a", "the", "mine"),
    "w": ("a", "the", "mine"),
    "m": ("bare", "some", "the", "mine"),
    "t": ("a", "bare", "number", "all"),
    "i": ("the", "mine"),
}
_QUALITIES = {
    "house": ("big", "small", "new", "beautiful", "white"),
    "garden": ("big", "small", "beautiful"),
    "cat": ("black", "white", "big", "small"),
    "dog": ("black", "white", "big", "small"),
    "horse": ("black", "white", "big", "small"),
    "book": ("new", "interesting"),
    "computer": ("new",),
    "camera": ("new", "small", "black"),
    "phone": ("new", "black", "white"),
    "television": ("new", "big"),
    "fridge": ("new", "big", "white"),
    "bed": ("new", "big"),
    "table": ("new", "big", "white"),
    "chair": ("new", "white", "black"),
    "sofa": ("new", "big", "white", "grey", "blue"),
    "watch": ("new", "beautiful"),
    "lamp": ("new", "small", "white"),
    "glasses": ("new", "black"),
    "umbrella": ("new", "big", "small", "black", "red", "blue"),
}
TRIFLES = ("eat", "drink", "have", "have lunch", "have dinner", "make", "order", "listen to")
_SAME = ({FIRST, FIRST_PLURAL}, {SECOND, POLITE})
"""Persons that overlap: we see neither me nor us."""


def action(dice: Dice, use: str, subject: Person, *, said: bool = True) -> Action:
    """Something this person may do; `said` is False for denials and questions, which count nothing."""
    while True:
        sense = dice.choose(_BY_USE[use])
        if not said and not sense.deniable:
            continue
        doing = Action(sense, thing(dice, sense, use, subject, said=said))
        if sensible(subject, doing):
            return doing


def thing(dice: Dice, sense: Sense, use: str, subject: Person, *, said: bool) -> Phrase | None:
    """An object for this sense."""
    if sense.intransitive:
        return None
    if sense.people:
        return Somebody(somebody(dice, subject, sense.english, said=said))
    chosen = dice.choose(sense.objects)
    return chosen if isinstance(chosen, Fixed) else _determined(dice, sense, chosen, use, subject, said)


def somebody(dice: Dice, subject: Person, verb: str = "", *, said: bool = True) -> Person:
    """A name, somebody's relative or a pronoun, but never the subject again.

    One does not ask whether somebody met oneself.
    """
    kind = 3 if verb == "love" else dice.throw(5)
    if kind < 2:
        return dice.choose([name for name in NAMES if name.english not in subject.english])
    if kind == 2:
        others = [
            p
            for p in PRONOUNS
            if p.person != subject.person
            and {p.person, subject.person} not in _SAME
            and (said or verb not in ("meet", "see", "visit") or p.person not in (FIRST, FIRST_PLURAL))
        ]
        return dice.choose(others)
    return _relative(dice, subject, verb)


def _relative(dice: Dice, subject: Person, verb: str) -> Person:
    """One's own family, as a rule; but one knows and meets other people's."""
    stranger = subject.english not in ("I", "we", "you") and subject not in FAMILY + YOUR_FAMILY
    if verb in ("know", "meet"):
        return dice.choose(FAMILY[:-2] if stranger else GENTLEFOLK)
    if subject in (*COUPLES, FAMILY[-1], YOUR_FAMILY[-1]) or "students" in subject.english:
        return dice.choose([name for name in NAMES if name.english not in subject.english])
    for family in (FAMILY, YOUR_FAMILY):
        if subject in family:  # parents, then their four children, then grandparents, uncle and aunt
            younger = family[6:10] if family.index(subject) < 6 or subject == family[10] else family[:6]
            return dice.choose(younger)
    return relative(subject, dice.choose(RELATIVES[:6] if is_elder(subject) else RELATIVES))


def _determined(dice: Dice, sense: Sense, noun: Noun, use: str, subject: Person, said: bool) -> Thing:
    wanted = [word for word in sense.determiners.split() if word in _DETERMINERS[use]]
    if use == "h" and "bare" in wanted:
        wanted = ["bare"]
    if not noun.countable:
        unfit = ("a", "number") if noun.plural_only else ("a", "number", "the")
        wanted = [word for word in wanted if word not in unfit]
    if not said:
        wanted = [word for word in wanted if word not in ("number", "some")]
    if sense.english == "buy" and use in "fw":
        wanted = [word for word in wanted if word != "the"]
    fallback = "a" if noun.countable and use != "h" and "a" in sense.determiners.split() else "bare"
    if sense.determiners == "number":
        fallback = "any"
    determiner = dice.choose(wanted or [fallback])
    each = sense.english in ("eat", "wear") and noun.english not in ("pizza", "cake")
    if determiner == "a" and subject.plural and (each or noun.english in ("stamp", "ticket")):
        determiner = "bare"  # two people do not share a banana
    if determiner == "number":
        determiner = dice.choose(sense.numbers.split())
    owner = subject if determiner == "mine" else None
    quality = None
    if sense.adjectives and determiner in ("a", "bare") and said and dice.once_in(2):
        quality = ADJECTIVES[dice.choose(_QUALITIES.get(noun.english, (*colours_of(noun), "new")))]
    return Thing(noun, determiner, quality, owner)


def place(dice: Dice, doing: Action, subject: Person) -> Adverbial | None:
    """Half the time, where it happens; of meals, always."""
    if not doing.sense.places or (dice.once_in(2) and not doing.sense.english.startswith("have")):
        return None
    fitting = [PLACES[name] for name in doing.sense.places.split() if place_fits(subject, PLACES[name])]
    return dice.choose(fitting) if fitting else None


def time(dice: Dice, times: Sequence[Adverbial], doing: Action, where: Adverbial | None = None) -> Adverbial:
    """When it happens: an hour that fits it."""
    return dice.choose([when for when in times if time_fits(doing, when, where)])


def usual_time(dice: Dice, doing: Action) -> Adverbial | None:
    """Every day or every weekend; None for what is done now and then."""
    fitting = [when for when in adverbials.EVERY if time_fits(doing, when)]
    return dice.choose(fitting) if fitting else None


def past_time(dice: Dice, doing: Action, where: Adverbial | None = None) -> Adverbial:
    """Yesterday, or last year for things that take long."""
    return time(dice, adverbials.PAST_LONG if doing.sense.long else adverbials.PAST, doing, where)


def undone_time(dice: Dice, doing: Action) -> Adverbial:
    """When something may not have happened: of small things, not days ago."""
    times = [when for when in adverbials.PAST_LONG if when.english != "two years ago"]
    if not doing.sense.long:
        small = doing.sense.english in TRIFLES
        times = [when for when in adverbials.PAST if not (small and when.english.startswith("on "))]
    return time(dice, times, doing)


def future_time(dice: Dice, doing: Action) -> Adverbial:
    """Tomorrow, or next year for things that take long."""
    return time(dice, adverbials.FUTURE_LONG if doing.sense.long else adverbials.FUTURE, doing)
