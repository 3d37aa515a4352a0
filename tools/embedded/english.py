"""English sentences."""

from __future__ import annotations

import re

from tools.embedded.clauses import Action, Clause
from tools.embedded.people import FIRST, THIRD, Person
from tools.embedded.verbs import EnglishVerb, english_verb


def finish(text: str, mark: str = ".") -> str:
    """A sentence with its capital, its full stop, and `an` where a vowel follows.

    >>> finish("I ate a  orange yesterday")
    'I ate an orange yesterday.'
    """
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\b([Aa]) (?=[aeio]|umbrella|uncle)", r"\1n ", text)
    return text[0].upper() + text[1:] + mark


def be(person: Person, *, past: bool = False, negative: bool = False) -> str:
    """The form of `to be`: am, is, are, was, were, and their contracted negations."""
    if past:
        form = "was" if person.person in (FIRST, THIRD) else "were"
    else:
        form = "am" if person.person == FIRST else "is" if person.person == THIRD else "are"
    if not negative:
        return form
    return "am not" if form == "am" else f"{form}n't"


def do(person: Person, *, negative: bool = False) -> str:
    """Do or does, don't or doesn't."""
    return ("does" if person.person == THIRD else "do") + ("n't" if negative else "")


def present(verb: EnglishVerb, person: Person) -> str:
    """The simple present: -s in the third person singular."""
    return verb.third if person.person == THIRD else verb.base


def complement(action: Action) -> str:
    """The object, if there is one."""
    return action.thing.english() if action.thing is not None else ""


def infinitive(action: Action) -> str:
    """The bare infinitive with its object: open the window."""
    return f"{action.sense.english} {complement(action)}".strip()


def clause(meaning: Clause) -> str:
    """The words of a clause, without capital or full stop."""
    place = meaning.place.english if meaning.place else ""
    time = meaning.time.english if meaning.time else ""
    if meaning.tense == "ongoing":
        time = "right now"
    core = f"{_verb_phrase(meaning)} {complement(meaning.action)} {place}"
    return f"{time}, {core}" if meaning.time_first else f"{core} {time}"


def _verb_phrase(meaning: Clause) -> str:
    auxiliary, rest = _auxiliary_and_rest(meaning)
    subject = meaning.subject.english
    adverb = meaning.frequency.english if meaning.frequency else ""
    if meaning.question:
        return f"{auxiliary} {subject} {adverb} {rest}"
    if meaning.negative:
        return f"{subject} {_denied(auxiliary)} {adverb} {rest}"
    kept = "" if auxiliary in ("do", "does", "did") else auxiliary
    return f"{subject} {kept} {adverb} {_plain(meaning, rest)}"


def _auxiliary_and_rest(meaning: Clause) -> tuple[str, str]:
    verb, subject = english_verb(meaning.action.sense.english), meaning.subject
    if meaning.modal is not None:
        if meaning.modal.auxiliary:
            return meaning.modal.english, verb.base
        return do(subject), f"{meaning.modal.english} {verb.base}"
    if meaning.tense in ("progressive", "ongoing"):
        return be(subject), verb.progressive
    if meaning.tense == "planned":
        return be(subject), f"going to {verb.base}"
    if meaning.tense == "future":
        return "will", verb.base
    return ("did" if meaning.tense == "past" else do(subject)), verb.base


def _denied(auxiliary: str) -> str:
    return {"am": "am not", "will": "won't", "can": "can't", "must": "mustn't"}.get(
        auxiliary, f"{auxiliary}n't"
    )


def _plain(meaning: Clause, rest: str) -> str:
    """Without do, the main verb carries tense and person itself."""
    verb = english_verb(meaning.action.sense.english)
    if meaning.modal is not None and not meaning.modal.auxiliary:
        return f"{present(english_verb(meaning.modal.english), meaning.subject)} {verb.base}"
    if meaning.modal is not None or meaning.tense not in ("past", "present"):
        return rest
    return verb.past if meaning.tense == "past" else present(verb, meaning.subject)
