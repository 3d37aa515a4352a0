"""The kinds of sentence, and how many of each."""

from __future__ import annotations

from collections.abc import Callable

from throughtime.data.embedded.clauses import Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames import actions, description

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
}
"""Each kind of sentence: the function that makes one, and how many we want."""
