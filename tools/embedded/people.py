"""The people that sentences speak of, and what belongs to whom."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tools.embedded.vowels import VOWELS

FIRST, SECOND, THIRD, FIRST_PLURAL, POLITE, THIRD_PLURAL = range(6)
"""Grammatical persons in the order of a French conjugation; POLITE is `vous` to one person."""


@dataclass(frozen=True)
class Person:
    """Somebody who can be subject or object; Chinese is written with spaces between words."""

    english: str
    french: str
    chinese: str
    person: int = THIRD
    gender: str = "m"
    pronoun: bool = False

    @property
    def plural(self) -> bool:
        """Whether more than one (the polite `vous` is one)."""
        return self.person in (FIRST_PLURAL, THIRD_PLURAL)

    @property
    def again(self) -> Person:
        """The pronoun that takes this person up again: Marie, then she."""
        if self.pronoun:
            return self
        return next(
            p for p in (HE, SHE, THEY, THEY_WOMEN) if (p.person, p.gender) == (self.person, self.gender)
        )


I = Person("I", "je", "我", FIRST, pronoun=True)  # noqa: E741
YOU = Person("you", "tu", "你", SECOND, pronoun=True)
HE = Person("he", "il", "他", pronoun=True)
SHE = Person("she", "elle", "她", gender="f", pronoun=True)
WE = Person("we", "nous", "我们", FIRST_PLURAL, pronoun=True)
THEY = Person("they", "ils", "他们", THIRD_PLURAL, pronoun=True)
THEY_WOMEN = Person("they", "elles", "她们", THIRD_PLURAL, "f", pronoun=True)
POLITE_YOU = Person("you", "vous", "您", POLITE, pronoun=True)
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)

MEN = tuple(
    Person(name, name, chinese)
    for name, chinese in [
        ("Paul", "保罗"),
        ("Tom", "汤姆"),
        ("Lucas", "卢卡斯"),
        ("Hugo", "雨果"),
        ("David", "大卫"),
        ("Daniel", "丹尼尔"),
    ]
)
WOMEN = tuple(
    Person(name, name, chinese, gender="f")
    for name, chinese in [
        ("Marie", "玛丽"),
        ("Anna", "安娜"),
        ("Julie", "朱莉"),
        ("Emma", "艾玛"),
        ("Alice", "爱丽丝"),
        ("Sophie", "苏菲"),
    ]
)
NAMES = MEN + WOMEN
COUPLES = (
    Person("Paul and Marie", "Paul et Marie", "保罗 和 玛丽", THIRD_PLURAL),
    Person("Tom and Lucas", "Tom et Lucas", "汤姆 和 卢卡斯", THIRD_PLURAL),
    Person("Anna and Julie", "Anna et Julie", "安娜 和 朱莉", THIRD_PLURAL, "f"),
    Person("Alice and David", "Alice et David", "爱丽丝 和 大卫", THIRD_PLURAL),
)
GENTLEFOLK = (
    Person("Mr Martin", "monsieur Martin", "马丁 先生"),
    Person("Mrs Martin", "madame Martin", "马丁 太太", gender="f"),
    Person("Mr Bernard", "monsieur Bernard", "贝尔纳 先生"),
    Person("Mrs Bernard", "madame Bernard", "贝尔纳 太太", gender="f"),
)
OTHERS = (
    Person("the teacher", "le professeur", "老师"),
    Person("the children", "les enfants", "孩子们", THIRD_PLURAL),
    Person("the students", "les étudiants", "学生们", THIRD_PLURAL),
    Person("our neighbour", "notre voisin", "我们 的 邻居"),
)
RELATIVES = (
    Person("mother", "mère", "妈妈", gender="f"),
    Person("father", "père", "爸爸"),
    Person("little brother", "petit frère", "弟弟"),
    Person("big brother", "grand frère", "哥哥"),
    Person("little sister", "petite sœur", "妹妹", gender="f"),
    Person("big sister", "grande sœur", "姐姐", gender="f"),
    Person("grandmother", "grand-mère", "奶奶", gender="f"),
    Person("grandfather", "grand-père", "爷爷"),
    Person("uncle", "oncle", "叔叔"),
    Person("aunt", "tante", "阿姨", gender="f"),
    Person("parents", "parents", "父母", THIRD_PLURAL),
    Person("friends", "amis", "朋友们", THIRD_PLURAL),
)

_ENGLISH_OWNER = ("my", "your", "his", "our", "your", "their")
_FRENCH_OWNER = {
    FIRST: ("mon", "ma", "mes"),
    SECOND: ("ton", "ta", "tes"),
    THIRD: ("son", "sa", "ses"),
    FIRST_PLURAL: ("notre", "notre", "nos"),
    POLITE: ("votre", "votre", "vos"),
    THIRD_PLURAL: ("leur", "leur", "leurs"),
}


def english_owner(owner: Person) -> str:
    """My, your, his, her, our, their."""
    return "her" if (owner.person, owner.gender) == (THIRD, "f") else _ENGLISH_OWNER[owner.person]


def french_owner(owner: Person, noun: str, gender: str, plural: bool) -> str:
    """The possessive that agrees with the thing owned, not with the owner.

    >>> french_owner(I, "voiture", "f", False), french_owner(I, "écharpe", "f", False)
    ('ma', 'mon')
    """
    masculine, feminine, many = _FRENCH_OWNER[owner.person]
    if plural:
        return many
    return feminine if gender == "f" and noun[0] not in VOWELS else masculine


def chinese_owner(owner: Person) -> str:
    """我, 你, 他, 她, 我们, 他们: the pronoun without 的."""
    return owner.again.chinese


def relative(owner: Person, kin: Person) -> Person:
    """Somebody's mother, brother, friends.

    >>> relative(SHE, RELATIVES[1]).french
    'son père'
    """
    particle = " 的" if kin.english == "friends" or owner.plural else ""
    return replace(
        kin,
        english=f"{english_owner(owner)} {kin.english}",
        french=f"{french_owner(owner, kin.french, kin.gender, kin.plural)} {kin.french}",
        chinese=f"{chinese_owner(owner)}{particle} {kin.chinese}",
    )


FAMILY = tuple(relative(I, kin) for kin in RELATIVES)
YOUR_FAMILY = tuple(relative(YOU, kin) for kin in RELATIVES)
SPOKEN_OF = (I, HE, SHE, WE, THEY) * 2 + NAMES + COUPLES + GENTLEFOLK + OTHERS + FAMILY
"""Of whom one states things; one does not tell people what they themselves are doing."""
ASKED_ABOUT = (YOU,) * 10 + (HE, SHE, THEY) + NAMES + COUPLES + GENTLEFOLK[:2] + OTHERS + YOUR_FAMILY
"""Of whom one asks things; one does not ask others what oneself is doing."""
