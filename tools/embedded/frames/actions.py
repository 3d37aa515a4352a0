"""People doing things: habits, what goes on, what happened, what will, wishes, duties and skills."""

from __future__ import annotations

from tools.embedded import adverbials
from tools.embedded.adverbials import PLACES
from tools.embedded.clauses import HAVE, KNOW_HOW, LIKE, MUST, WANT, Clause
from tools.embedded.dice import Dice
from tools.embedded.frames.doing import (
    TRIFLES,
    action,
    future_time,
    past_time,
    place,
    time,
    undone_time,
    usual_time,
)
from tools.embedded.people import (
    ASKED_ABOUT,
    SPOKEN_OF,
    YOU,
)
from tools.embedded.plausible import name_of
from tools.embedded.sentences import Sentence, spoken


def habit(dice: Dice) -> Sentence:
    """Paul eats bread every day. Marie never drinks coffee."""
    subject = dice.choose(SPOKEN_OF)
    doing = action(dice, "h", subject)
    where = place(dice, doing, subject)
    when = usual_time(dice, doing) if dice.once_in(2) else None
    if when is not None:
        meal = doing.sense.english.startswith("have")
        return spoken(Clause(subject, doing, "present", time=when, place=where if meal else None))
    often = dice.choose((*adverbials.OFTEN, adverbials.NEVER))
    if where == PLACES["kitchen"] and doing.sense.english != "eat":
        where = None  # where else
    return spoken(Clause(subject, doing, "present", frequency=often, place=where))


_TASTES = (
    "eat",
    "drink",
    "read",
    "write",
    "watch",
    "listen to",
    "play",
    "wear",
    "swim",
    "dance",
    "sing",
    "cook",
    "ride",
)
"""What one does or does not do, even without saying when."""


def habit_denied_or_asked(dice: Dice) -> Sentence:
    """Tom doesn't eat meat. Do you drink coffee every morning?"""
    asked = dice.once_in(2)
    subject = dice.choose(ASKED_ABOUT if asked else SPOKEN_OF)
    doing = action(dice, "h", subject, said=False)
    when = usual_time(dice, doing) if asked else None
    while when is None and doing.sense.english not in _TASTES:
        doing = action(dice, "h", subject, said=False)
        when = usual_time(dice, doing) if asked else None
    if doing.sense.english in _TASTES and not doing.sense.intransitive and dice.once_in(2):
        when = None
    where = place(dice, doing, subject) if doing.sense.english.startswith("have") else None
    return spoken(Clause(subject, doing, "present", not asked, asked, time=when, place=where))


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
    return spoken(Clause(subject, doing, "past", not asked, asked, time=undone_time(dice, doing)))


def future(dice: Dice) -> Sentence:
    """We will visit Rome next year. Tom won't go to school tomorrow."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "f", subject, said=manner > 1)
    first = manner > 1 and dice.once_in(3)
    when = future_time(dice, doing)
    where = place(dice, doing, subject) if doing.sense.english.startswith("have") else None
    return spoken(
        Clause(subject, doing, "future", manner == 0, manner == 1, time=when, time_first=first, place=where)
    )


_UNPLANNED = (*TRIFLES, "go to", "go home", "work")
"""What is too small to plan, and what sounds odd after `going to`."""


def plan(dice: Dice) -> Sentence:
    """My parents are going to sell their house."""
    manner = dice.throw(4)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "f", subject, said=manner > 1)
    while doing.sense.english in _UNPLANNED:
        doing = action(dice, "f", subject, said=manner > 1)
    when = future_time(dice, doing)
    return spoken(Clause(subject, doing, "planned", manner == 0, manner == 1, time=when))


_NO_LIKING = ("have", "buy", "order", "wash", "rest", "do the")


def wish(dice: Dice) -> Sentence:
    """Anna wants to learn Chinese. Does Tom like to swim?"""
    modal = dice.choose((WANT, WANT, LIKE))
    manner = dice.throw(3)
    subject = dice.choose(ASKED_ABOUT if manner == 1 else SPOKEN_OF)
    doing = action(dice, "h" if modal is LIKE else "w", subject, said=manner > 1)
    odd = _NO_LIKING if modal is LIKE else ("win",) if manner == 0 else ()
    while doing.sense.english.startswith(odd) or (modal is LIKE and name_of(doing) == "wear glasses"):
        doing = action(dice, "h" if modal is LIKE else "w", subject, said=manner > 1)
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
