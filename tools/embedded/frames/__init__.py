"""The kinds of sentence, and how many of each."""

from __future__ import annotations

from collections.abc import Callable

from tools.embedded.dice import Dice
from tools.embedded.frames import (
    actions,
    courtesy,
    description,
    events,
    linked,
    locations,
    measures,
    persons,
    questions,
    service,
)
from tools.embedded.sentences import Sentence

Frame = Callable[[Dice], Sentence]

FRAMES: dict[str, tuple[Frame, int]] = {
    "habit": (actions.habit, 600),
    "habit denied or asked": (actions.habit_denied_or_asked, 450),
    "progressive": (actions.progressive, 550),
    "ongoing": (actions.ongoing, 150),
    "past": (actions.past, 800),
    "past denied or asked": (actions.past_denied_or_asked, 600),
    "future": (actions.future, 600),
    "plan": (actions.plan, 250),
    "wish": (actions.wish, 500),
    "duty": (actions.duty, 300),
    "skill": (actions.skill, 200),
    "state": (actions.state, 800),
    "quality": (description.quality, 350),
    "colour": (description.colour, 200),
    "mood": (description.mood, 350),
    "past mood": (description.past_mood, 150),
    "comparison": (description.comparison, 200),
    "age": (measures.age, 120),
    "price": (measures.price, 150),
    "hour": (measures.hour, 66),
    "timetable": (measures.timetable, 200),
    "weather": (measures.weather, 150),
    "profession": (persons.profession, 200),
    "clothing": (persons.clothing, 200),
    "there is": (locations.there_is, 400),
    "whereabouts": (locations.whereabouts, 200),
    "pets": (locations.pets, 60),
    "directions": (locations.directions, 200),
    "what": (questions.what, 300),
    "where": (questions.where, 250),
    "when": (questions.when, 250),
    "who": (questions.who, 250),
    "how many": (measures.how_many, 300),
    "why": (questions.why, 300),
    "what time": (measures.which_time, 80),
    "polite question": (courtesy.polite_question, 450),
    "request": (courtesy.request, 200),
    "command": (courtesy.command, 200),
    "proposal": (courtesy.proposal, 120),
    "permission": (courtesy.permission, 150),
    "order": (service.order, 60),
    "offer": (service.offer, 120),
    "pass me": (service.pass_me, 120),
    "greeting": (service.greeting, 160),
    "because": (linked.because, 300),
    "but": (linked.but, 250),
    "no time": (linked.no_time, 200),
    "both": (linked.both, 250),
    "condition": (linked.condition, 300),
    "relative": (linked.relative, 250),
    "opinion": (linked.opinion, 250),
    "giving": (events.giving, 250),
    "journey": (events.journey, 250),
    "already": (events.already, 200),
    "experience": (events.experience, 150),
    "trades": (persons.trades, 100),
}
"""Each kind of sentence: the function that makes one, and how many we want."""
