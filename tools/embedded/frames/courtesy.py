"""Polite forms and familiar ones: requests, commands, offers, orders, greetings."""

from __future__ import annotations

from dataclasses import replace

from tools.embedded import chinese, english, french
from tools.embedded.clauses import LIKE, WANT, Action, Clause
from tools.embedded.dice import Dice
from tools.embedded.frames.doing import action, past_time, usual_time
from tools.embedded.people import (
    FAMILY,
    FIRST_PLURAL,
    GENTLEFOLK,
    NAMES,
    POLITE,
    POLITE_YOU,
    SECOND,
    WE,
    YOU,
    I,
    Person,
)
from tools.embedded.phrases import Somebody
from tools.embedded.sentences import Sentence, finished

STRANGERS = (
    Person("sir", "monsieur", "先生"),
    Person("madam", "madame", "女士", gender="f"),
    Person("doctor", "docteur", "医生"),
)
RESPECTED = STRANGERS[:2] * 2 + GENTLEFOLK


def _addressed(whom: Person, en: str, fr: str, zh: str) -> tuple[str, str, str]:
    """Names come first; sir and madam come last, but first in Chinese."""
    if whom in STRANGERS:
        return f"{en}, {whom.english}", f"{fr}, {whom.french}", f"{whom.chinese} ， {zh}"
    return f"{whom.english}, {en}", f"{whom.french}, {fr}", f"{whom.chinese} ， {zh}"


_UNASKED = {
    "w": "wash, clean, do, sell, win, sleep, repair, draw, tell, write, wait for, prepare, make, run",
    "h": "have, have lunch, have dinner, buy, wash, clean, do the shopping, rest, prepare, make, work, go to,"
    " help, visit, call, take",
    "d": "eat, drink, make, open, close, turn on, turn off, listen to, tell, sing, draw,"
    " have, have lunch, have dinner",
    "t": "",
}
"""What one does not ask strangers: whether they want to, like to or did."""


def polite_question(dice: Dice) -> Sentence:
    """Do you speak French, sir? Mrs Martin, did you go to the market this morning?"""
    whom = dice.choose(RESPECTED)
    subject = replace(POLITE_YOU, gender=whom.gender)
    use = dice.choose("hdwtt")
    doing = action(dice, use, subject, said=False)
    while doing.sense.english in _UNASKED[use].split(", ") or (use == "w" and is_dull(doing)):
        doing = action(dice, use, subject, said=False)
    when = usual_time(dice, doing) if use == "h" and not doing.sense.intransitive else None
    if when is not None and dice.once_in(2):
        meaning = Clause(subject, doing, "present", question=True, time=when)
    elif use == "h":
        meaning = Clause(subject, doing, "present", question=True, modal=LIKE)
    elif use == "d":
        meaning = Clause(subject, doing, "past", question=True, time=past_time(dice, doing))
    else:
        meaning = Clause(subject, doing, "present", question=True, modal=WANT if use == "w" else None)
    spoken = _addressed(
        whom, english.clause(meaning).strip(), french.clause(meaning).strip(), chinese.clause(meaning)
    )
    return finished(*spoken, "?", doing.units)


def _task(dice: Dice, asked: Person) -> Action:
    """Something one may ask for."""
    doing = action(dice, "i", asked)
    if isinstance(doing.thing, Somebody):
        if doing.sense.english == "wait for":
            return Action(doing.sense, Somebody(dice.choose((I, I, *NAMES))))
        return Action(doing.sense, Somebody(dice.choose((I, *NAMES, *FAMILY[:10]))))
    return doing


def request(dice: Dice) -> Sentence:
    """Could you open the window, please? Please wait for me."""
    doing = _task(dice, POLITE_YOU)
    asked = english.infinitive(doing)
    kind = dice.throw(2 if doing.sense.english in ("clean", "wash") else 3)
    if kind == 0:
        return finished(
            f"could you {asked}, please",
            f"pourriez-vous {french.infinitive(doing, POLITE_YOU)}, s'il vous plaît",
            f"请 您 {chinese.asked(doing)} ， 好 吗",
            "?",
            doing.units,
        )
    ordered = french.command(doing, POLITE).strip()
    if kind == 1:
        return finished(
            f"please {asked}",
            f"{ordered}, s'il vous plaît",
            f"请 {chinese.asked(doing)}",
            ".",
            doing.units,
        )
    whom = dice.choose(RESPECTED)
    spoken = (
        f"please {asked}, {whom.english}",
        f"{ordered}, s'il vous plaît, {whom.french}",
        f"{whom.chinese} ， 请 您 {chinese.asked(doing)}",
    )
    return finished(*spoken, ".", doing.units)


def command(dice: Dice) -> Sentence:
    """Paul, open the window! Anna, don't turn off the light!"""
    whom = dice.choose(NAMES)
    doing = _task(dice, YOU)
    if isinstance(doing.thing, Somebody) and doing.thing.person == whom:
        doing = Action(doing.sense, Somebody(I))
    asked = english.infinitive(doing)
    if dice.once_in(3) and doing.sense.english not in ("clean", "wash"):
        forbidden = french.command(doing, SECOND, negative=True)
        spoken = _addressed(whom, f"don't {asked}", forbidden, f"别 {chinese.verb_phrase(doing)}")
        return finished(*spoken, "!", doing.units)
    ordered = french.command(doing, SECOND)
    return finished(*_addressed(whom, asked, ordered, chinese.asked(doing)), "!", doing.units)


_TOGETHER = (
    "eat",
    "drink",
    "watch",
    "listen to",
    "play",
    "visit",
    "go to",
    "take",
    "take a walk",
    "dance",
    "sing",
    "go home",
    "rest",
    "have lunch",
    "have dinner",
    "prepare",
    "help",
    "call",
)
DULL = (
    "apple, banana, orange, pear, tomato, egg, bread, cheese, meat, vegetables, milk, water, school,"
    " glass of water, glass of milk, bottle of water, the hospital, the post office, the bank, the station,"
    " the airport, the office, the university, the newspaper, the plane"
).split(", ")
"""What nobody proposes, nor asks leave for."""


def proposal(dice: Dice) -> Sentence:
    """Let's play football! Let's go to the cinema tonight!"""
    doing = action(dice, "w", WE)
    while doing.sense.english not in _TOGETHER or is_dull(doing) or _about_us(doing):
        doing = action(dice, "w", WE)
    return finished(
        f"let's {english.infinitive(doing)}",
        french.command(doing, FIRST_PLURAL),
        f"我们 {chinese.verb_phrase(doing, bare=True)} 吧",
        "!",
        doing.units,
    )


def is_dull(doing: Action) -> bool:
    """Whether nobody would propose this."""
    return doing.thing is not None and doing.thing.key in DULL


def _about_us(doing: Action) -> bool:
    whom = doing.thing.person.english if isinstance(doing.thing, Somebody) else ""
    return whom in ("I", "you", "we") or whom.startswith("our ")


_PERMITTED = (
    "open",
    "close",
    "turn on",
    "turn off",
    "call",
    "play",
    "watch",
    "read",
    "listen to",
    "swim",
    "go home",
    "ride",
    "help",
    "visit",
    "go to",
)


def permission(dice: Dice) -> Sentence:
    """Can I open the window, please?"""
    doing = action(dice, dice.choose("iw"), I, said=False)
    while doing.sense.english not in _PERMITTED or doing.sense.long or is_dull(doing) or _about_us(doing):
        doing = action(dice, dice.choose("iw"), I, said=False)
    asked = f"can I {english.infinitive(doing)}".strip()
    en_fr = f"est-ce que je peux {french.infinitive(doing, I)}"
    spoken = f"我 可以 {chinese.verb_phrase(doing, bare=True)} 吗"
    if dice.once_in(2):
        return finished(
            f"{asked}, please", f"{en_fr}, s'il vous plaît", f"请问 ， {spoken}", "?", doing.units
        )
    return finished(asked, en_fr, spoken, "?", doing.units)
