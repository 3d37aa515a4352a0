"""What people are, and what they wear."""

from __future__ import annotations

from tools.embedded import english, french
from tools.embedded.adjectives import ADJECTIVES, colours_of
from tools.embedded.dice import Dice
from tools.embedded.nouns import NOUNS
from tools.embedded.people import (
    ASKED_ABOUT,
    FAMILY,
    GENTLEFOLK,
    HE,
    MEN,
    NAMES,
    SHE,
    WOMEN,
    YOUR_FAMILY,
    I,
)
from tools.embedded.phrases import Thing
from tools.embedded.plausible import is_elder
from tools.embedded.sentences import Sentence, finished, unit

JOBS = (
    ("a doctor", "médecin", "médecin", "医生"),
    ("a teacher", "professeur", "professeure", "老师"),
    ("a student", "étudiant", "étudiante", "学生"),
    ("an engineer", "ingénieur", "ingénieure", "工程师"),
    ("a lawyer", "avocat", "avocate", "律师"),
    ("a nurse", "infirmier", "infirmière", "护士"),
    ("a cook", "cuisinier", "cuisinière", "厨师"),
    ("a singer", "chanteur", "chanteuse", "歌手"),
    ("a journalist", "journaliste", "journaliste", "记者"),
    ("a musician", "musicien", "musicienne", "音乐家"),
    ("a baker", "boulanger", "boulangère", "面包师"),
    ("a writer", "écrivain", "écrivaine", "作家"),
)


def profession(dice: Dice) -> Sentence:
    """My father is a doctor. Is Marie an engineer?"""
    manner = dice.throw(4)
    grown = (HE, SHE, *NAMES, *FAMILY[:2], FAMILY[3], FAMILY[5], *FAMILY[8:10], *GENTLEFOLK)
    asked = (
        HE,
        SHE,
        *NAMES,
        *YOUR_FAMILY[:2],
        YOUR_FAMILY[3],
        YOUR_FAMILY[5],
        *YOUR_FAMILY[8:10],
        *ASKED_ABOUT[:6],
    )
    subject = dice.choose(asked if manner == 1 else (I, *grown))
    job = dice.choose([job for job in JOBS if job[0] != "a student" or not is_elder(subject)])
    negative, question = manner == 0, manner == 1
    be = english.be(subject, negative=negative)
    verb = french.be(subject)
    return finished(
        f"{be} {subject.english} {job[0]}" if question else f"{subject.english} {be} {job[0]}",
        f"{'est-ce que' if question else ''} {subject.french} {f'ne {verb} pas' if negative else verb}"
        f" {job[2] if subject.gender == 'f' else job[1]}",
        f"{subject.chinese} {'不' if negative else ''} 是 {job[3]} {'吗' if question else ''}",
        mark="?" if question else ".",
    )


_WORN = {
    "穿": ("shirt", "coat", "jacket", "sweater", "dress", "skirt", "shoes", "boots"),
    "戴": ("hat", "scarf", "gloves"),
}


def clothing(dice: Dice) -> Sentence:
    """Anna is wearing a red dress. Paul isn't wearing a hat."""
    verb = dice.choose(("穿", "穿", "戴"))
    noun = NOUNS[dice.choose(_WORN[verb])]
    who = (
        (*WOMEN, SHE, FAMILY[0], FAMILY[4])
        if noun.english in ("dress", "skirt")
        else (*NAMES, *MEN, HE, SHE, *FAMILY[:6])
    )
    subject = dice.choose(who)
    negative = noun.english in ("hat", "coat", "scarf", "gloves", "jacket") and dice.once_in(3)
    thing = Thing(
        noun,
        "a" if noun.countable else "bare",
        None if negative else ADJECTIVES[dice.choose(colours_of(noun))],
    )
    wears = f"没 {verb} {thing.chinese(bare=True)}" if negative else f"{verb} 着 {thing.chinese()}"
    return finished(
        f"{subject.english} {english.be(subject, negative=negative)} wearing {thing.english()}",
        f"{subject.french} {'ne porte pas' if negative else 'porte'} {thing.french(negated=negative)}",
        f"{subject.chinese} {wears}",
        units=unit("wear", noun),
    )


def trades(dice: Dice) -> Sentence:
    """My father is a doctor and my mother is a teacher."""
    pairs = (
        (FAMILY[1], FAMILY[0]),
        (FAMILY[3], FAMILY[5]),
        (FAMILY[8], FAMILY[9]),
        (GENTLEFOLK[0], GENTLEFOLK[1]),
        (GENTLEFOLK[2], GENTLEFOLK[3]),
        (HE, SHE),
    )
    man, woman = dice.choose(pairs)
    jobs = JOBS if man == FAMILY[3] else [job for job in JOBS if job[0] != "a student"]
    his = dice.choose(jobs)
    her = dice.choose([job for job in jobs if job != his])
    return finished(
        f"{man.english} is {his[0]} and {woman.english} is {her[0]}",
        f"{man.french} est {his[1]} et {woman.french} est {her[2]}",
        f"{man.chinese} 是 {his[3]} ， {woman.chinese} 是 {her[3]}",
    )
