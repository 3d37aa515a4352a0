"""What an action is done to: a thing with its determiner, a set phrase, or a person."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from tools.embedded.adjectives import Adjective
from tools.embedded.nouns import Noun
from tools.embedded.numbers import CHINESE_COUNT, ENGLISH_NUMBER, FRENCH_NUMBER
from tools.embedded.people import (
    FIRST,
    POLITE,
    SECOND,
    THIRD,
    THIRD_PLURAL,
    Person,
    chinese_owner,
    english_owner,
    french_owner,
)
from tools.embedded.vowels import VOWELS


class Phrase(Protocol):
    """The object of a verb, in three languages."""

    @property
    def key(self) -> str:
        """The noun, for counting verb-object pairs."""
        ...

    @property
    def specific(self) -> bool:
        """Counted or pointed at, which in Chinese draws 了 to the verb."""
        ...

    def english(self) -> str:
        """As the object of an English verb."""
        ...

    def french(self, *, negated: bool = False, after: str = "") -> str:
        """As the object of a French verb, `after` a preposition that is rendered with it."""
        ...

    def chinese(self, *, bare: bool = False) -> str:
        """Spaced words; `bare` drops 一 and its measure word, as negations and questions do."""
        ...


@dataclass(frozen=True)
class Thing:
    """A noun with a determiner: a, any, bare, some, the, this, that, mine, a number as digits."""

    noun: Noun
    determiner: str
    adjective: Adjective | None = None
    owner: Person | None = None

    @property
    def key(self) -> str:
        """The noun's English singular."""
        return self.noun.english

    @property
    def plural(self) -> bool:
        """Whether the English phrase is plural."""
        several = self.determiner.isdigit() or (
            self.determiner in ("any", "bare", "some", "all") and self.noun.countable
        )
        return several or self.noun.plural_only

    @property
    def french_plural(self) -> bool:
        """Whether the French phrase is plural."""
        return self.plural or self.noun.french_plural_only

    @property
    def specific(self) -> bool:
        """Counted or pointed at."""
        return self.determiner not in ("bare", "all")

    def english(self) -> str:
        """An old car, three apples, bread, her keys."""
        noun = self.noun.english_plural if self.plural else self.noun.english
        words = [self._english_determiner(), self.adjective.english if self.adjective else "", noun]
        return " ".join(word for word in words if word)

    def _english_determiner(self) -> str:
        if self.owner is not None:
            return english_owner(self.owner)
        if self.determiner.isdigit():
            return ENGLISH_NUMBER[int(self.determiner)]
        if self.determiner in ("this", "that") and self.plural:
            return {"this": "these", "that": "those"}[self.determiner]
        return "" if self.determiner in ("bare", "all") else self.determiner

    def french(self, *, negated: bool = False, after: str = "") -> str:
        """With its article: une vieille voiture, trois pommes, du pain, ses clés."""
        noun = self.noun.french_plural if self.french_plural else self.noun.french
        named = self.adjective.around(noun, self.noun.gender, self.french_plural) if self.adjective else noun
        indefinite = self.determiner in ("a", "any", "bare", "some") and self.owner is None
        if (indefinite and negated and not after) or (after == "de" and self.determiner in ("bare", "some")):
            return f"de {named}"
        return f"{after} {self._french_determiner(named)} {named}".strip()

    def _french_determiner(self, following: str) -> str:
        feminine, plural = self.noun.gender == "f", self.french_plural
        if self.owner is not None:
            return french_owner(self.owner, following, self.noun.gender, plural)
        if self.determiner.isdigit():
            return FRENCH_NUMBER[int(self.determiner)]
        if self.determiner in ("this", "that"):
            return "ces" if plural else "cette" if feminine else "cet" if following[0] in VOWELS else "ce"
        if self.determiner in ("the", "all"):
            return "les" if plural else "la" if feminine else "le"
        if self.determiner == "a" and not plural:
            return "une" if feminine else "un"
        if plural:
            return "de" if self.adjective is not None and self.adjective.before else "des"
        return "de la" if feminine else "de le"

    def chinese(self, *, bare: bool = False) -> str:
        """With its measure word: 一 辆 旧 车, 三 个 苹果, 面包, 她 的 钥匙."""
        named = f"{self.adjective.chinese} {self.noun.chinese}" if self.adjective else self.noun.chinese
        if self.owner is not None:
            return f"{chinese_owner(self.owner)} 的 {named}"
        if self.determiner.isdigit():
            return f"{CHINESE_COUNT[int(self.determiner)]} {self.noun.measure} {named}"
        if self.determiner == "some":
            return f"一些 {named}"
        if self.determiner == "a" and not bare:
            return f"一 {self.noun.measure} {named}"
        pointing = {"this": "这", "that": "那", "the": "那"}.get(self.determiner)
        if pointing is None or (self.determiner == "the" and self.noun.familiar and self.adjective is None):
            return named
        return f"{pointing} {'些' if self.plural and not self.noun.paired else self.noun.measure} {named}"


@dataclass(frozen=True)
class Fixed:
    """A phrase whose articles never change: the piano, le piano, 钢琴."""

    english_text: str
    french_text: str
    chinese_text: str

    @property
    def key(self) -> str:
        """The English phrase."""
        return self.english_text

    @property
    def specific(self) -> bool:
        """Set phrases name activities, not things."""
        return False

    def english(self) -> str:
        """The phrase itself."""
        return self.english_text

    def french(self, *, negated: bool = False, after: str = "") -> str:
        """The phrase itself: `le` stays in a negation, `un` and `du` become `de`."""
        if negated and not after:
            return re.sub(r"^(une?|du|de la|des) ", "de ", self.french_text)
        return f"{after} {self.french_text}".strip()

    def chinese(self, *, bare: bool = False) -> str:
        """The phrase itself."""
        return self.chinese_text


_ENGLISH_OBJECT = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
_DIRECT = {FIRST: "me", SECOND: "te", POLITE: "vous", 3: "nous"}


@dataclass(frozen=True)
class Somebody:
    """A person as object; a pronoun stands before the French verb."""

    person: Person

    @property
    def key(self) -> str:
        """The name, or the relation: everybody's mother counts as one object."""
        return self.person.english.split(" ", 1)[-1]

    @property
    def specific(self) -> bool:
        """People are always particular people."""
        return True

    def english(self) -> str:
        """Him, Marie, my mother."""
        return _ENGLISH_OBJECT.get(self.person.english, self.person.english)

    def french(self, *, negated: bool = False, after: str = "") -> str:
        """Nothing for a pronoun, which is a clitic."""
        return "" if self.person.pronoun else f"{after} {self.person.french}".strip()

    def clitic(self, indirect: bool) -> str:
        """The pronoun before the verb; le_ and les_ never contract with de and à.

        >>> from tools.embedded.people import SHE
        >>> Somebody(SHE).clitic(indirect=True), Somebody(SHE).clitic(indirect=False)
        ('lui', 'la_')
        """
        if not self.person.pronoun:
            return ""
        if self.person.person == THIRD:
            return "lui" if indirect else "la_" if self.person.gender == "f" else "le_"
        if self.person.person == THIRD_PLURAL:
            return "leur" if indirect else "les_"
        return _DIRECT[self.person.person]

    def chinese(self, *, bare: bool = False) -> str:
        """The person."""
        return self.person.chinese
