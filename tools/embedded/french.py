"""French sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.embedded.clauses import KNOW_HOW, LIKE, Action, Clause
from tools.embedded.people import Person
from tools.embedded.phrases import Somebody
from tools.embedded.verbs import FrenchVerb, french_verb

_VOWEL = r"(?=[aeiouâàéèêëîïôùûœ]|y\b|h(?!uit))"
_REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
_IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")


def finish(text: str, mark: str = ".") -> str:
    """A sentence with its elisions, contractions, capital and mark; a space stands before ? and !.

    >>> finish("est-ce que il ne aime pas le eau de le parc", "?")
    "Est-ce qu'il n'aime pas l'eau du parc ?"
    """
    text = join(text)
    return text[0].upper() + text[1:] + (mark if mark == "." else f" {mark}")


def join(text: str) -> str:
    """Elide and contract: je ai, à le, de les, si il."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\b([Ss])i (?=ils?\b)", r"\1'", text)
    text = re.sub(rf"\b(je|ne|me|te|se|le|la|de|que)_? {_VOWEL}", _elided, text, flags=re.IGNORECASE)
    for apart, together in (("de le", "du"), ("de les", "des"), ("à le", "au"), ("à les", "aux")):
        text = re.sub(rf"\b{apart} ", f"{together} ", text)
    return text.replace("_", "")


def _elided(found: re.Match[str]) -> str:
    return found[1][:-1] + "'"


def agree(participle: str, gender: str, plural: bool) -> str:
    """The participle with e for the feminine and s for the plural.

    >>> agree("allé", "f", True), agree("pris", "m", True)
    ('allées', 'pris')
    """
    form = participle + ("e" if gender == "f" else "")
    return form + ("s" if plural and not form.endswith("s") else "")


def be(person: Person, *, past: bool = False) -> str:
    """The form of être: present, or the imperfect of descriptions."""
    return "ét" + _IMPERFECT[person.person] if past else french_verb("être").present[person.person]


def present(infinitive: str, person: Person) -> str:
    """The present of a verb, as it goes with this subject.

    >>> from tools.embedded.people import WE
    >>> present("vouloir", WE)
    'voulons'
    """
    return french_verb(infinitive).present[person.person]


def short_question(asked: str, infinitive: str, person: Person) -> str:
    """Where does she live: est-ce que with a pronoun, but a noun follows the verb.

    >>> from tools.embedded.people import NAMES, YOU
    >>> short_question("où", "habiter", NAMES[0]), short_question("où", "habiter", YOU)
    ('où habite Paul', 'où est-ce que tu habites')
    """
    verb = present(infinitive, person)
    return (
        f"{asked} est-ce que {person.french} {verb}" if person.pronoun else f"{asked} {verb} {person.french}"
    )


@dataclass(frozen=True)
class _Words:
    """A verb phrase in two halves: `ne` and `pas` close round the first, clitics stand before either."""

    finite: str
    rest: str = ""
    infinitive: bool = False


def complement(action: Action, *, negative: bool = False) -> str:
    """The object with its preposition."""
    if action.thing is None:
        return ""
    return action.thing.french(negated=negative, after=action.sense.french_preposition)


def verb_and_tail(action: Action) -> tuple[FrenchVerb, str]:
    """The verb itself, and the words that belong to it: rendre + visite."""
    words = action.sense.french.split(" ")
    head = 2 if words[0] == "se" else 1
    tail = words[head:]
    if action.thing is not None and action.sense.french_preposition:
        tail = tail[:-1]
    return french_verb(" ".join(words[:head])), " ".join(tail)


def clitic(action: Action, subject: Person) -> str:
    """The pronoun before the verb, of the object or of a reflexive verb."""
    if verb_and_tail(action)[0].reflexive:
        return _REFLEXIVE[subject.person]
    if isinstance(action.thing, Somebody):
        return action.thing.clitic(indirect=action.sense.french_preposition == "à")
    return ""


def infinitive(action: Action, subject: Person) -> str:
    """The action after a verb that takes an infinitive: m'attendre, rendre visite à Paul."""
    verb, tail = verb_and_tail(action)
    return f"{clitic(action, subject)} {verb.infinitive} {tail} {complement(action)}".strip()


def clause(meaning: Clause) -> str:
    """The words of a clause, before elision."""
    never = meaning.frequency is not None and meaning.frequency.english == "never"
    adverb = meaning.frequency.french if meaning.frequency and not never else ""
    denial = "jamais" if never else "pas" if meaning.negative else ""
    predicate = verb_phrase(meaning, denial, adverb)
    place = meaning.place.french if meaning.place else ""
    time = meaning.time.french if meaning.time else ""
    asked = "est-ce que" if meaning.question else ""
    core = f"{asked} {meaning.subject.french} {predicate} {place}"
    return f"{time}, {core}" if meaning.time_first else f"{core} {time}"


def verb_phrase(meaning: Clause, denial: str = "", adverb: str = "") -> str:
    """Everything from `ne` to the object."""
    words = _not_obliged(meaning) if _needs_not(meaning) else _words(meaning)
    pronoun = clitic(meaning.action, meaning.subject)
    before_finite, before_rest = ("", pronoun) if words.infinitive else (pronoun, "")
    rest = words.rest.replace("{clitic}", before_rest)
    _, tail = verb_and_tail(meaning.action)
    ne = "ne" if denial else ""
    reaches = not _needs_not(meaning) and meaning.modal not in (LIKE, KNOW_HOW)  # il n'aime pas boire du vin
    thing = complement(meaning.action, negative=bool(denial) and reaches)
    return f"{ne} {before_finite} {words.finite} {denial} {adverb} {rest} {tail} {thing}"


def _needs_not(meaning: Clause) -> bool:
    return meaning.negative and meaning.modal is not None and meaning.modal.english == "have to"


def _not_obliged(meaning: Clause) -> _Words:
    """`Doesn't have to` is not `ne doit pas`, which forbids."""
    infinitive = verb_and_tail(meaning.action)[0].infinitive
    subject = meaning.subject
    return _Words(
        be(subject), f"{agree('obligé', subject.gender, subject.plural)} de {{clitic}} {infinitive}", True
    )


def _words(meaning: Clause) -> _Words:
    subject, tense = meaning.subject, meaning.tense
    verb, _ = verb_and_tail(meaning.action)
    person = subject.person
    to_do = f"{{clitic}} {verb.infinitive}"
    if meaning.modal is not None:
        return _Words(french_verb(meaning.modal.french).present[person], to_do, True)
    if tense == "ongoing":
        return _Words(be(subject), f"en train de {to_do}", True)
    if tense == "planned":
        return _Words(french_verb("aller").present[person], to_do, True)
    if tense == "future":
        return _Words(verb.future(person))
    if tense == "past":
        return _Words(french_verb("être" if verb.with_etre else "avoir").present[person], participle(meaning))
    return _Words(verb.present[person])


def participle(meaning: Clause) -> str:
    """Agreed with the subject after être, with a direct pronoun before avoir."""
    verb, _ = verb_and_tail(meaning.action)
    if verb.with_etre:
        return agree(verb.participle, meaning.subject.gender, meaning.subject.plural)
    thing = meaning.action.thing
    direct = not meaning.action.sense.french_preposition
    if direct and isinstance(thing, Somebody) and thing.person.pronoun:
        return agree(verb.participle, thing.person.gender, thing.person.plural)
    return verb.participle


def command(action: Action, person: int, *, negative: bool = False) -> str:
    """The imperative of tu, nous or vous.

    >>> from tools.embedded.senses import Sense
    >>> command(Action(Sense("sleep", "dormir", "睡觉", "i")), 1, negative=True).split()
    ['ne', 'dors', 'pas']
    """
    verb, tail = verb_and_tail(action)
    pronoun = (
        action.thing.clitic(action.sense.french_preposition == "à")
        if isinstance(action.thing, Somebody)
        else ""
    )
    if verb.reflexive:
        pronoun = _REFLEXIVE[person]
    form = verb.imperative(person)
    thing = complement(action, negative=negative)
    if negative:
        return f"ne {pronoun} {form} pas {tail} {thing}"
    stressed = {"me": "moi", "te": "toi"}.get(pronoun, pronoun)
    return f"{form}{'-' + stressed if stressed else ''} {tail} {thing}"
