"""At table and at the door: orders, offers, greetings and thanks."""

from __future__ import annotations

from tools.embedded.dice import Dice
from tools.embedded.frames.courtesy import RESPECTED, STRANGERS
from tools.embedded.nouns import NOUNS
from tools.embedded.people import NAMES
from tools.embedded.phrases import Thing
from tools.embedded.sentences import Sentence, finished, unit

_ORDERED = (
    "cup of tea",
    "cup of coffee",
    "glass of water",
    "glass of milk",
    "glass of wine",
    "bottle of water",
    "bottle of beer",
    "bottle of wine",
    "sandwich",
    "pizza",
    "ice cream",
    "ticket",
    "cake",
)


def order(dice: Dice) -> Sentence:
    """I would like two tickets, please."""
    noun = NOUNS[dice.choose(_ORDERED)]
    thing = Thing(noun, dice.choose(("a", "2", "3")))
    if dice.once_in(2):
        return finished(
            f"I would like {thing.english()}, please",
            f"je voudrais {thing.french()}, s'il vous plaît",
            f"我 想要 {thing.chinese()} ， 谢谢",
            ".",
            unit("would like", noun),
        )
    return finished(
        f"we would like {thing.english()}, please",
        f"nous voudrions {thing.french()}, s'il vous plaît",
        f"我们 想要 {thing.chinese()} ， 谢谢",
        ".",
        unit("would like", noun),
    )


_OFFERED = {
    "tea": "喝",
    "coffee": "喝",
    "water": "喝",
    "milk": "喝",
    "orange juice": "喝",
    "wine": "喝",
    "beer": "喝",
    "soup": "喝",
    "bread": "吃",
    "cheese": "吃",
    "fish": "吃",
    "salad": "吃",
    "chocolate": "吃",
    "rice": "吃",
    "vegetables": "吃",
    "noodles": "吃",
    "meat": "吃",
}


def offer(dice: Dice) -> Sentence:
    """Would you like some tea, madam? Do you want some bread, Paul?"""
    noun = NOUNS[dice.choose(sorted(_OFFERED))]
    thing = Thing(noun, "some")
    eaten = f"{_OFFERED[noun.english]} {noun.chinese}"
    if dice.once_in(2):
        whom = dice.choose(RESPECTED)
        return finished(
            f"would you like {thing.english()}, {whom.english}",
            f"voulez-vous {thing.french()}, {whom.french}",
            f"{whom.chinese} ， 您 要 {eaten} 吗",
            "?",
            unit("would like", noun),
        )
    whom = dice.choose(NAMES)
    return finished(
        f"do you want {thing.english()}, {whom.english}",
        f"tu veux {thing.french()}, {whom.french}",
        f"{whom.chinese} ， 你 要 {eaten} 吗",
        "?",
        unit("want", noun),
    )


_HANDED = (
    "salt",
    "sugar",
    "bread",
    "butter",
    "water",
    "cheese",
    "newspaper",
    "pen",
    "salad",
    "book",
    "dictionary",
    "bag",
)


def pass_me(dice: Dice) -> Sentence:
    """Could you pass me the salt, please? Paul, can you pass me the bread?"""
    noun = NOUNS[dice.choose(_HANDED)]
    thing = Thing(noun, dice.choose(("that", "the")) if noun.countable else "the")
    named = noun.chinese if not noun.countable else thing.chinese()
    kind = dice.throw(3)
    if kind == 0:
        return finished(
            f"could you pass me {thing.english()}, please",
            f"pourriez-vous me passer {thing.french()}, s'il vous plaît",
            f"请 您 把 {named} 递给 我 ， 好 吗",
            "?",
            unit("pass", noun),
        )
    if kind == 1:
        whom = dice.choose(NAMES)
        return finished(
            f"{whom.english}, can you pass me {thing.english()}",
            f"{whom.french}, est-ce que tu peux me passer {thing.french()}",
            f"{whom.chinese} ， 你 能 把 {named} 递给 我 吗",
            "?",
            unit("pass", noun),
        )
    whom = dice.choose(RESPECTED)
    return finished(
        f"could you pass me {thing.english()}, {whom.english}",
        f"pourriez-vous me passer {thing.french()}, {whom.french}",
        f"{whom.chinese} ， 您 能 把 {named} 递给 我 吗",
        "?",
        unit("pass", noun),
    )


_POLITE_PHRASES = tuple(line.split("; ") for line in """
good morning, {}.; bonjour, {}.; 早上 好
good evening, {}.; bonsoir, {}.; 晚上 好
goodbye, {}.; au revoir, {}.; 再见
thank you very much, {}.; merci beaucoup, {}.; 非常 感谢
thank you for your help, {}.; merci de votre aide, {}.; 谢谢 您 的 帮助
how are you, {}?; comment allez-vous, {} ?; 您 好 吗
please sit down, {}.; asseyez-vous, je vous prie, {}.; 请 坐
please come in, {}.; entrez, je vous prie, {}.; 请 进
welcome to Paris, {}!; bienvenue à Paris, {} !; 欢迎 来到 巴黎
welcome to Beijing, {}!; bienvenue à Pékin, {} !; 欢迎 来到 北京
could you speak slowly, {}?; pourriez-vous parler lentement, {} ?; 您 能 说 慢 一点 吗
could you help me, {}?; pourriez-vous m'aider, {} ?; 您 能 帮 我 吗
have a good trip, {}!; bon voyage, {} !; 祝 您 一路平安
""".strip().splitlines())  # fmt: skip
_FAMILIAR_PHRASES = tuple(line.split("; ") for line in """
hello, {}.; salut, {}.; 你好
good night, {}.; bonne nuit, {}.; 晚安
see you tomorrow, {}.; à demain, {}.; 明天 见
happy birthday, {}!; bon anniversaire, {} !; 生日 快乐
thank you for the gift, {}.; merci pour le cadeau, {}.; 谢谢 你 的 礼物
thank you for your letter, {}.; merci pour ta lettre, {}.; 谢谢 你 的 信
how are you, {}?; comment vas-tu, {} ?; 你 好 吗
where are you, {}?; où es-tu, {} ?; 你 在 哪里
what are you doing, {}?; que fais-tu, {} ?; 你 在 做 什么
I miss you, {}.; tu me manques, {}.; 我 想 你
are you ready, {}?; tu es prêt, {} ?; 你 准备 好 了 吗
come with me, {}!; viens avec moi, {} !; 跟 我 来
""".strip().splitlines())  # fmt: skip


def greeting(dice: Dice) -> Sentence:
    """Good morning, Mrs Martin. Happy birthday, Anna!"""
    polite = dice.once_in(2)
    whom = dice.choose((*RESPECTED, *STRANGERS) if polite else NAMES)
    en, fr, zh = dice.choose(_POLITE_PHRASES if polite else _FAMILIAR_PHRASES)
    if whom.gender == "f":
        fr = fr.replace("prêt", "prête")
    return finished(
        en[:-1].format(whom.english), fr.format(whom.french).rstrip(".?! "), f"{whom.chinese} ， {zh}", en[-1]
    )
