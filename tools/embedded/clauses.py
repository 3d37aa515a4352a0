"""The meaning of a clause, before any language has put it into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tools.embedded.adverbials import Adverbial
from tools.embedded.people import Person
from tools.embedded.phrases import Phrase
from tools.embedded.senses import Sense

Unit = tuple[str, str]
"""A verb and its object: what is held out of training."""


@dataclass(frozen=True)
class Action:
    """A verb with its object, if it takes one."""

    sense: Sense
    thing: Phrase | None = None

    @property
    def units(self) -> frozenset[Unit]:
        """The verb-object pair, or nothing."""
        return frozenset({(self.sense.english, self.thing.key)}) if self.thing is not None else frozenset()


class Modal(NamedTuple):
    """A verb that takes an infinitive; `auxiliary` says that the English one needs no do."""

    english: str
    french: str
    chinese: str
    chinese_negative: str
    auxiliary: bool = False


WANT = Modal("want to", "vouloir", "想", "不 想")
LIKE = Modal("like to", "aimer", "喜欢", "不 喜欢")
MUST = Modal("must", "devoir", "必须", "不能", auxiliary=True)
HAVE = Modal("have to", "devoir", "得", "不用")
KNOW_HOW = Modal("can", "savoir", "会", "不 会", auxiliary=True)


@dataclass(frozen=True)
class Clause:
    """Who does what, when, how often and where; said, denied or asked.

    `tense` is one of present, progressive, ongoing (right now), past, future, planned.
    """

    subject: Person
    action: Action
    tense: str
    negative: bool = False
    question: bool = False
    modal: Modal | None = None
    frequency: Adverbial | None = None
    time: Adverbial | None = None
    time_first: bool = False
    place: Adverbial | None = None

    @property
    def habitual(self) -> bool:
        """Whether this is what somebody does again and again."""
        if self.modal is not None:
            return self.modal == LIKE
        return self.tense == "present" and (self.frequency is not None or self.time is not None)
