"""Chinese sentences, built as words with spaces between them."""

from __future__ import annotations

from tools.embedded.clauses import Action, Clause
from tools.embedded.phrases import Thing


def finish(text: str, mark: str = "。") -> str:
    """A sentence as spaced words; `unspaced` makes it ordinary Chinese.

    >>> finish("我  喜欢 茶")
    '我 喜欢 茶 。'
    """
    return " ".join(f"{text} {mark}".split())


def unspaced(text: str) -> str:
    """The sentence as it is written."""
    return text.replace(" ", "")


def clause(meaning: Clause) -> str:
    """Subject, time, how often or whether, place, verb and object; a time in front stays there."""
    time = meaning.time.chinese if meaning.time else ""
    subject = meaning.subject.chinese
    opening = f"{time} {subject}" if meaning.time_first else f"{subject} {time}"
    return f"{opening} {_predicate(meaning)} {'吗' if meaning.question else ''}"


def _predicate(meaning: Clause) -> str:
    place = f"在 {meaning.place.chinese}" if meaning.place else ""
    often = meaning.frequency.chinese if meaning.frequency else ""
    if meaning.modal is not None:
        modal = meaning.modal.chinese_negative if meaning.negative else meaning.modal.chinese
        return f"{often} {modal} {place} {plain(meaning)}"
    if meaning.tense == "past":
        return f"{often} {_past(meaning, place)}"
    if meaning.tense in ("progressive", "ongoing"):
        return _progressive(meaning, place)
    particle = {"future": "会", "planned": "打算"}.get(meaning.tense, "")
    denial = _denial(meaning) if meaning.negative else ""
    return f"{often} {denial} {particle} {place} {plain(meaning)}"


def _denial(meaning: Clause) -> str:
    return "没" if meaning.action.sense.chinese.startswith("有") else "不"


def _progressive(meaning: Clause, place: str) -> str:
    """在, which one place shares; 正在 where English says `right now`."""
    if meaning.negative:
        return f"没 {place or '在'} {plain(meaning)}"
    if meaning.tense == "ongoing":
        return f"正在 {meaning.place.chinese if meaning.place else ''} {plain(meaning)}"
    return f"{place or '在'} {plain(meaning)}"


def _past(meaning: Clause, place: str) -> str:
    """没 denies; a question ends in 了吗; 了 follows the verb where the object is a particular one."""
    if meaning.negative:
        return f"没 {place} {plain(meaning)}"
    if meaning.question and "把" not in meaning.action.sense.done:
        return f"{place} {plain(meaning)} 了"
    return f"{place} {done(meaning.action)}"


def plain(meaning: Clause) -> str:
    """Verb and object without aspect; habits and what goes on have loose objects, as denials do."""
    loose = meaning.question or meaning.habitual or meaning.tense in ("progressive", "ongoing")
    kept = meaning.action.sense.counted and meaning.tense != "past"
    return verb_phrase(meaning.action, bare=meaning.negative or (loose and not kept))


def verb_phrase(action: Action, *, bare: bool = False) -> str:
    """Verb and object as the sense puts them together.

    >>> from tools.embedded.senses import Sense
    >>> verb_phrase(Action(Sense("swim", "nager", "游泳", "h")))
    '游泳'
    """
    return action.sense.chinese.format(_object(action, bare))


def asked(action: Action) -> str:
    """What somebody is asked to do: 等 我 一下."""
    return (action.sense.asked or action.sense.chinese).format(_object(action, bare=False))


def done(action: Action) -> str:
    """The completed action: 看 了 那 本 书, 踢 足球 了, 把 车 卖 了."""
    if action.sense.done:
        return action.sense.done.format(_object(action, bare=False))
    if action.thing is None or not action.thing.specific:
        return f"{verb_phrase(action)} 了"
    verb, rest = action.sense.chinese.split(" ", 1)
    return f"{verb} 了 {rest}".format(_object(action, bare=False))


def _object(action: Action, bare: bool) -> str:
    if isinstance(action.thing, Thing) and action.sense.drops_owner:
        return action.thing.noun.chinese
    return action.thing.chinese(bare=bare) if action.thing is not None else ""
