"""The adjectives, with their French agreement and their Chinese attributive and predicative forms."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.embedded.nouns import Noun
from tools.embedded.vowels import VOWELS

# English; French masculine, feminine[, masculine plural[, before a vowel]]; Chinese attribute; predicate
# "<" after the English: stands before the French noun.
_TABLE = """
red; rouge, rouge; 红色 的; 红色
blue; bleu, bleue; 蓝色 的; 蓝色
white; blanc, blanche; 白色 的; 白色
black; noir, noire; 黑色 的; 黑色
green; vert, verte; 绿色 的; 绿色
yellow; jaune, jaune; 黄色 的; 黄色
grey; gris, grise; 灰色 的; 灰色
new <; nouveau, nouvelle, nouveaux, nouvel; 新; 新
big <; grand, grande; 大; 大
small <; petit, petite; 小; 小
beautiful <; beau, belle, beaux, bel; 漂亮 的; 漂亮
expensive; cher, chère; 贵 的; 贵
interesting; intéressant, intéressante; 有意思 的; 有意思
boring; ennuyeux, ennuyeuse; 无聊 的; 无聊
difficult; difficile, difficile; 难 的; 难
easy; facile, facile; 简单 的; 简单
long; long, longue; 长 的; 长
hot; chaud, chaude; 热 的; 热
cold; froid, froide; 凉 的; 凉
delicious; délicieux, délicieuse; 好吃 的; 好吃
sweet; sucré, sucrée; 甜 的; 甜
salty; salé, salée; 咸 的; 咸
fresh; frais, fraîche; 新鲜 的; 新鲜
clean; propre, propre; 干净 的; 干净
dirty; sale, sale; 脏 的; 脏
heavy; lourd, lourde; 重 的; 重
comfortable; confortable, confortable; 舒服 的; 舒服
quiet; calme, calme; 安静 的; 安静
fast; rapide, rapide; 快 的; 快
tired; fatigué, fatiguée; 累 的; 累
happy; heureux, heureuse; 高兴 的; 高兴
sad; triste, triste; 难过 的; 难过
busy; occupé, occupée; 忙 的; 忙
tall; grand, grande; 高 的; 高
kind; gentil, gentille; 友善 的; 友善
clever; intelligent, intelligente; 聪明 的; 聪明
strong; fort, forte; 强壮 的; 强壮
patient; patient, patiente; 有耐心 的; 有耐心
nervous; nerveux, nerveuse; 紧张 的; 紧张
"""
COLOURS = ("red", "blue", "white", "black", "green", "yellow", "grey")


@dataclass(frozen=True)
class Adjective:
    """A quality; `before` says that the French one stands before its noun."""

    english: str
    masculine: str
    feminine: str
    masculine_plural: str
    before_vowel: str
    chinese: str
    chinese_predicate: str
    before: bool

    def agreed(self, gender: str, plural: bool) -> str:
        """The French form for a gender and number.

        >>> ADJECTIVES["white"].agreed("f", True)
        'blanches'
        """
        if gender == "f":
            return self.feminine + ("s" if plural else "")
        return self.masculine_plural if plural else self.masculine

    def around(self, noun: str, gender: str, plural: bool) -> str:
        """The French noun with this adjective before or after it.

        >>> ADJECTIVES["new"].around("ordinateur", "m", False), ADJECTIVES["red"].around("robes", "f", True)
        ('nouvel ordinateur', 'robes rouges')
        """
        if not self.before:
            return f"{noun} {self.agreed(gender, plural)}"
        if gender == "m" and not plural and re.match(f"[{VOWELS}]", noun):
            return f"{self.before_vowel} {noun}"
        return f"{self.agreed(gender, plural)} {noun}"


def colours_of(noun: Noun) -> tuple[str, ...]:
    """The colours a thing may have; who wears a green hat in China has an unfaithful wife."""
    return tuple(colour for colour in COLOURS if (noun.english, colour) != ("hat", "green"))


def _adjective(line: str) -> Adjective:
    english, french, chinese, predicate = line.split("; ")
    masculine, feminine, *irregular = french.split(", ")
    plural = irregular[0] if irregular else masculine + ("" if masculine[-1] in "sx" else "s")
    vowel = irregular[1] if len(irregular) > 1 else masculine
    name = english.removesuffix(" <")
    return Adjective(name, masculine, feminine, plural, vowel, chinese, predicate, english.endswith("<"))


ADJECTIVES: dict[str, Adjective] = {
    word.english: word for word in map(_adjective, _TABLE.strip().splitlines())
}
