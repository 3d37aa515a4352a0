"""People doing things: habits, what goes on, what happened, what will, wishes, duties and skills."""

from __future__ import annotations

from collections.abc import Sequence

from throughtime.data.embedded import adverbials
from throughtime.data.embedded.adjectives import ADJECTIVES, colours_of
from throughtime.data.embedded.adverbials import PLACES, Adverbial
from throughtime.data.embedded.clauses import HAVE, KNOW_HOW, LIKE, MUST, WANT, Action, Clause
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.nouns import Noun
from throughtime.data.embedded.people import (
    ASKED_ABOUT,
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
    SPOKEN_OF,
    YOU,
    YOUR_FAMILY,
    Person,
    relative,
)
from throughtime.data.embedded.phrases import Fixed, Phrase, Somebody, Thing
from throughtime.data.embedded.plausible import place_fits, sensible, time_fits
from throughtime.data.embedded.senses import SENSES, Sense
from throughtime.data.embedded.sentences import Sentence, spoken

_BY_USE = {
    use: tuple(sense for sense in SENSES for _ in range(1 + len(sense.objects) // 3) if use in sense.uses)
    for use in "hpdfwmsit"
}
_DETERMINERS = {
    "h": ("bare", "the", "mine"),
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
    "gift": ("beautiful", "big", "small"),
}
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
        return Somebody(somebody(dice, subject, sense.english))
    chosen = dice.choose(sense.objects)
    return chosen if isinstance(chosen, Fixed) else _determined(dice, sense, chosen, use, subject, said)


def somebody(dice: Dice, subject: Person, verb: str = "") -> Person:
    """A name, somebody's relative or a pronoun, but never the subject again."""
    kind = 3 if verb == "love" else dice.throw(5)
    if kind < 2:
        return dice.choose([name for name in NAMES if name.english not in subject.english])
    if kind == 2:
        others = [
            p for p in PRONOUNS if p.person != subject.person and {p.person, subject.person} not in _SAME
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
    return relative(subject, dice.choose(RELATIVES))


def _determined(dice: Dice, sense: Sense, noun: Noun, use: str, subject: Person, said: bool) -> Thing:
    wanted = [word for word in sense.determiners.split() if word in _DETERMINERS[use]]
    if use == "h" and "bare" in wanted:
        wanted = ["bare"]
    if not noun.countable:
        unfit = ("a", "number") if noun.plural_only else ("a", "number", "the")
        wanted = [word for word in wanted if word not in unfit]
    if not said:
        wanted = [word for word in wanted if word not in ("number", "some")]
    fallback = "a" if noun.countable and use != "h" and "a" in sense.determiners.split() else "bare"
    determiner = dice.choose(wanted or [fallback])
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
    where = PLACES[dice.choose(doing.sense.places.split())]
    return where if place_fits(subject, where) else None


def time(dice: Dice, times: Sequence[Adverbial], doing: Action, where: Adverbial | None = None) -> Adverbial:
    """When it happens: an hour that fits it."""
    return dice.choose([when for when in times if time_fits(doing, when, where)])


def past_time(dice: Dice, doing: Action, where: Adverbial | None = None) -> Adverbial:
    """Yesterday, or last year for things that take long."""
    return time(dice, adverbials.PAST_LONG if doing.sense.long else adverbials.PAST, doing, where)


def future_time(dice: Dice, doing: Action) -> Adverbial:
    """Tomorrow, or next year for things that take long."""
    return time(dice, adverbials.FUTURE_LONG if doing.sense.long else adverbials.FUTURE, doing)


def habit(dice: Dice) -> Sentence:
    """Paul eats bread every day. Marie never drinks coffee."""
    subject = dice.choose(SPOKEN_OF)
    doing = action(dice, "h", subject)
    if dice.once_in(2):
        return spoken(Clause(subject, doing, "present", time=time(dice, adverbials.EVERY, doing)))
    often = dice.choose((*adverbials.OFTEN, adverbials.NEVER))
    return spoken(Clause(subject, doing, "present", frequency=often, place=place(dice, doing, subject)))


def habit_denied_or_asked(dice: Dice) -> Sentence:
    """Tom doesn't eat meat. Do you drink coffee every morning?"""
    asked = dice.once_in(2)
    subject = dice.choose(ASKED_ABOUT if asked else SPOKEN_OF)
    doing = action(dice, "h", subject, said=False)
    when = time(dice, adverbials.EVERY, doing) if asked and dice.once_in(2) else None
    return spoken(Clause(subject, doing, "present", not asked, asked, time=when))


def progressive(dice: Dice) -> Sentence:
    """Marie is reading a book. Is Paul sleeping?"""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "p", subject, said=manner > 1)
    where = place(dice, doing, subject) if manner > 1 else None
    return spoken(Clause(subject, doing, "progressive", manner == 0, manner == 1, place=where))


def ongoing(dice: Dice) -> Sentence:
    """Marie is reading a book right now."""
    subject = dice.choose(SPOKEN_OF)
    return spoken(Clause(subject, action(dice, "p", subject), "ongoing"))


def past(dice: Dice) -> Sentence:
    """Yesterday, Paul bought three apples."""
    subject = dice.choose(SPOKEN_OF)
    doing = action(dice, "d", subject)
    where = place(dice, doing, subject)
    when = past_time(dice, doing, where)
    return spoken(Clause(subject, doing, "past", time=when, time_first=dice.once_in(3), place=where))


def past_denied_or_asked(dice: Dice) -> Sentence:
    """Emma didn't buy a car. Did you call your mother last night?"""
    asked = dice.once_in(2)
    subject = dice.choose(ASKED_ABOUT if asked else SPOKEN_OF)
    doing = action(dice, "d", subject, said=False)
    return spoken(Clause(subject, doing, "past", not asked, asked, time=past_time(dice, doing)))


def future(dice: Dice) -> Sentence:
    """We will visit Rome next year. Tom won't go to school tomorrow."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "f", subject, said=manner > 1)
    first = manner > 1 and dice.once_in(3)
    when = future_time(dice, doing)
    return spoken(Clause(subject, doing, "future", manner == 0, manner == 1, time=when, time_first=first))


_TRIFLES = ("eat", "drink", "have", "have lunch", "make", "order", "listen to")


def plan(dice: Dice) -> Sentence:
    """My parents are going to sell their house."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "f", subject, said=manner > 1)
    while doing.sense.english in _TRIFLES:
        doing = action(dice, "f", subject, said=manner > 1)
    when = future_time(dice, doing)
    return spoken(Clause(subject, doing, "planned", manner == 0, manner == 1, time=when))


def wish(dice: Dice) -> Sentence:
    """Anna wants to learn Chinese. Does Tom like to swim?"""
    modal = dice.choose((WANT, WANT, LIKE))
    manner = dice.throw(3)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "h" if modal is LIKE else "w", subject, said=manner > 1)
    while modal is LIKE and doing.sense.english.startswith("have"):
        doing = action(dice, "h", subject, said=manner > 1)
    today = modal is WANT and not doing.sense.long and dice.once_in(2)
    when = time(dice, adverbials.NOW, doing) if today else None
    return spoken(Clause(subject, doing, "present", manner == 0, manner == 1, modal, time=when))


_PLEASURES = (
    "the beach",
    "the zoo",
    "the cinema",
    "the restaurant",
    "the museum",
    "the park",
    "the theatre",
    "the swimming pool",
)


def duty(dice: Dice) -> Sentence:
    """I have to call my mother. You must rest. Paul doesn't have to work today."""
    modal = dice.choose((MUST, HAVE))
    subject = dice.choose((*SPOKEN_OF, YOU, YOU, YOU))
    negative = modal is HAVE and dice.once_in(2)
    doing = action(dice, "m", subject, said=not negative)
    while doing.thing is not None and doing.thing.key in _PLEASURES:
        doing = action(dice, "m", subject, said=not negative)
    when = None if doing.sense.long or dice.once_in(2) else time(dice, adverbials.NOW, doing)
    return spoken(Clause(subject, doing, "present", negative, modal=modal, time=when))


def skill(dice: Dice) -> Sentence:
    """Lucas can play the piano. Can you swim?"""
    manner = dice.throw(3)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "s", subject, said=manner > 1)
    return spoken(Clause(subject, doing, "present", manner == 0, manner == 1, KNOW_HOW))


def state(dice: Dice) -> Sentence:
    """I have two brothers. Marie likes cats. Do you speak French?"""
    manner = dice.throw(3)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "t", subject, said=manner > 1)
    return spoken(Clause(subject, doing, "present", manner == 0, manner == 1))
