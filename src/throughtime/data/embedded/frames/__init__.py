"""The kinds of sentence, and how many of each."""

from __future__ import annotations

from collections.abc import Callable

from throughtime.data.embedded.clauses import Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames import actions, courtesy, description, linked, locations, questions

Frame = Callable[[Dice], Sentence]

FRAMES: dict[str, tuple[Frame, int]] = {
    "habit": (actions.habit, 800),
    "habit denied or asked": (actions.habit_denied_or_asked, 600),
    "progressive": (actions.progressive, 800),
    "ongoing": (actions.ongoing, 200),
    "past": (actions.past, 1200),
    "past denied or asked": (actions.past_denied_or_asked, 900),
    "future": (actions.future, 900),
    "plan": (actions.plan, 400),
    "wish": (actions.wish, 800),
    "duty": (actions.duty, 500),
    "skill": (actions.skill, 250),
    "state": (actions.state, 1200),
    "quality": (description.quality, 500),
    "colour": (description.colour, 250),
    "mood": (description.mood, 500),
    "past mood": (description.past_mood, 150),
    "comparison": (description.comparison, 200),
    "age": (description.age, 120),
    "price": (description.price, 150),
    "hour": (description.hour, 66),
    "timetable": (description.timetable, 200),
    "weather": (description.weather, 150),
    "profession": (description.profession, 300),
    "clothing": (description.clothing, 300),
    "there is": (locations.there_is, 500),
    "whereabouts": (locations.whereabouts, 200),
    "pets": (locations.pets, 60),
    "directions": (locations.directions, 300),
    "what": (questions.what, 300),
    "where": (questions.where, 250),
    "when": (questions.when, 250),
    "who": (questions.who, 250),
    "how many": (questions.how_many, 300),
    "why": (questions.why, 300),
    "what time": (questions.which_time, 80),
    "polite question": (courtesy.polite_question, 600),
    "request": (courtesy.request, 200),
    "command": (courtesy.command, 200),
    "proposal": (courtesy.proposal, 120),
    "permission": (courtesy.permission, 150),
    "order": (courtesy.order, 60),
    "offer": (courtesy.offer, 120),
    "pass me": (courtesy.pass_me, 120),
    "greeting": (courtesy.greeting, 160),
    "because": (linked.because, 400),
    "but": (linked.but, 300),
    "no time": (linked.no_time, 200),
    "both": (linked.both, 250),
    "condition": (linked.condition, 300),
    "relative": (linked.relative, 300),
    "opinion": (linked.opinion, 300),
    "giving": (linked.giving, 300),
    "journey": (linked.journey, 300),
    "already": (linked.already, 300),
    "experience": (linked.experience, 200),
    "trades": (linked.trades, 100),
}
"""Each kind of sentence: the function that makes one, and how many we want."""
