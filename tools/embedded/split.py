"""The division into train, valid and test: no sentence twice, and some verb-object pairs only in test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tools.embedded.clauses import Unit
from tools.embedded.dice import digest
from tools.embedded.sentences import Sentence

SPLITS = ("train", "valid", "test")
_HELD_OUT = 10  # one verb-object pair in so many
_OFTEN = 3  # a pair that is held out occurs at least so often, or test would hardly show it
_VALID, _TEST = 4, 2  # per cent of the other sentences


def english_words(text: str) -> list[str]:
    """Lower-case words; an apostrophe or hyphen inside is part of the word."""
    return re.findall(r"[a-z]+(?:['-][a-z]+)*", text.lower())


def french_words(text: str) -> list[str]:
    """Lower-case words; an elided word keeps its apostrophe.

    >>> french_words("Est-ce qu'il a l'heure ?")
    ['est-ce', "qu'", 'il', 'a', "l'", 'heure']
    """
    return re.findall(r"aujourd'hui|[^\W\d]+(?:-[^\W\d]+)*'?", text.lower())


def held_out(sentences: Sequence[Sentence]) -> frozenset[Unit]:
    """One verb-object pair in ten, chosen so that its verb and its object still occur in others."""
    counts = Counter(unit for sentence in sentences for unit in sentence.units)
    verbs = Counter(verb for verb, _ in counts)
    things = Counter(thing for _, thing in counts)
    chosen: set[Unit] = set()
    for unit in sorted(counts, key=lambda unit: digest("|".join(unit))):
        if len(chosen) * _HELD_OUT >= len(counts):
            break
        verb, thing = unit
        if verbs[verb] > 3 and things[thing] > 1 and counts[unit] >= _OFTEN:
            chosen.add(unit)
            verbs[verb] -= 1
            things[thing] -= 1
    return frozenset(chosen)


def divide(sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    """Sentences that are equal in any of the languages stay together; the hash of their group says where."""
    held = held_out(sentences)
    parts: dict[str, list[Sentence]] = {split: [] for split in SPLITS}
    for group in _groups(sentences):
        if any(sentence.units & held for sentence in group):
            split = "test"
        else:
            mark = digest(min(sentence.english for sentence in group)) % 100
            split = "valid" if mark < _VALID else "test" if mark < _VALID + _TEST else "train"
        parts[split].extend(group)
    return _shuffled(_without_strangers(parts))


def _groups(sentences: Sequence[Sentence]) -> list[list[Sentence]]:
    """Sentences chained by an equal English, French or Chinese side."""
    group_of: dict[tuple[int, str], list[Sentence]] = {}
    groups: dict[int, list[Sentence]] = {}
    for sentence in sentences:
        sides = list(enumerate(sentence[:3]))
        merged = [sentence]
        for side in sides:
            known = group_of.get(side)
            if known is not None and known is not merged:
                groups.pop(id(known), None)
                for member in known:
                    merged.append(member)
                    for other in enumerate(member[:3]):
                        group_of[other] = merged
        for side in sides:
            group_of[side] = merged
        groups[id(merged)] = merged
    return list(groups.values())


def _without_strangers(parts: dict[str, list[Sentence]]) -> dict[str, list[Sentence]]:
    """Valid and test keep only sentences whose every word occurs in train."""
    known = {word for sentence in parts["train"] for word in _all_words(sentence)}
    return {split: [s for s in part if known.issuperset(_all_words(s))] for split, part in parts.items()}


def _all_words(sentence: Sentence) -> list[str]:
    return english_words(sentence.english) + french_words(sentence.french) + sentence.chinese.split()


def _shuffled(parts: dict[str, list[Sentence]]) -> dict[str, list[Sentence]]:
    return {split: sorted(part, key=lambda s: digest(s.english)) for split, part in parts.items()}
