"""Polite forms and familiar ones: requests, commands, offers, orders, greetings."""

from __future__ import annotations

from dataclasses import replace

from throughtime.data.embedded import adverbials, chinese, english, french
from throughtime.data.embedded.clauses import LIKE, WANT, Action, Clause, Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames.actions import action, past_time, time
from throughtime.data.embedded.nouns import NOUNS
from throughtime.data.embedded.people import FAMILY, FIRST_PLURAL, GENTLEFOLK, NAMES, POLITE, POLITE_YOU, SECOND, YOU, I, Person
from throughtime.data.embedded.phrases import Somebody, Thing

_STRANGERS = (Person("sir", "monsieur", "先生"), Person("madam", "madame", "女士", gender="f"), Person("doctor", "docteur", "医生"))
_RESPECTED = _STRANGERS[:2] * 2 + GENTLEFOLK


def finished(en: str, fr: str, zh: str, mark: str, action_done: Action | None = None) -> Sentence:
    """Three unfinished sentences with one mark."""
    full = {".": "。", "?": "？", "!": "！"}[mark]
    units = action_done.units if action_done is not None else frozenset()
    return Sentence(english.finish(en, mark), french.finish(fr, mark), chinese.finish(zh, full), units)


def _addressed(whom: Person, en: str, fr: str, zh: str) -> tuple[str, str, str]:
    """Names come first; sir and madam come last, but first in Chinese."""
    if whom in _STRANGERS:
        return f"{en}, {whom.english}", f"{fr}, {whom.french}", f"{whom.chinese} ， {zh}"
    return f"{whom.english}, {en}", f"{whom.french}, {fr}", f"{whom.chinese} ， {zh}"


def polite_question(dice: Dice) -> Sentence:
    """Do you speak French, sir? Mrs Martin, did you go to the market this morning?"""
    whom = dice.choose(_RESPECTED)
    subject = replace(POLITE_YOU, gender=whom.gender)
    use = dice.choose("hdwtt")
    doing = action(dice, use, subject, said=False)
    if use == "h" and not doing.sense.intransitive and dice.once_in(2):
        meaning = Clause(subject, doing, "present", question=True, time=time(dice, adverbials.EVERY, doing))
    elif use == "h":
        meaning = Clause(subject, doing, "present", question=True, modal=LIKE)
    elif use == "d":
        meaning = Clause(subject, doing, "past", question=True, time=past_time(dice, doing))
    else:
        meaning = Clause(subject, doing, "present", question=True, modal=WANT if use == "w" else None)
    spoken = _addressed(whom, english.clause(meaning).strip(), french.clause(meaning).strip(), chinese.clause(meaning))
    return finished(*spoken, "?", doing)


def _task(dice: Dice, asked: Person) -> Action:
    """Something one may ask for."""
    doing = action(dice, "i", asked)
    if isinstance(doing.thing, Somebody):
        if doing.sense.english == "wait for":
            return Action(doing.sense, Somebody(dice.choose((I, I, *NAMES))))
        return Action(doing.sense, Somebody(dice.choose((I, *NAMES, *FAMILY[:10]))))
    return doing


def _infinitive(doing: Action, subject: Person) -> str:
    verb, tail = french.verb_and_tail(doing)
    return f"{french.clitic(doing, subject)} {verb.infinitive} {tail} {french.complement(doing)}"


def request(dice: Dice) -> Sentence:
    """Could you open the window, please? Please wait for me."""
    doing = _task(dice, POLITE_YOU)
    asked = f"{doing.sense.english} {english.complement(doing)}".strip()
    kind = dice.throw(3)
    if kind == 0:
        return finished(
            f"could you {asked}, please", f"pourriez-vous {_infinitive(doing, POLITE_YOU).strip()}, s'il vous plaît",
            f"请 您 {chinese.verb_phrase(doing)} ， 好 吗", "?", doing,
        )  # fmt: skip
    ordered = french.command(doing, POLITE).strip()
    if kind == 1:
        return finished(f"please {asked}", f"{ordered}, s'il vous plaît", f"请 {chinese.verb_phrase(doing)}", ".", doing)
    whom = dice.choose(_RESPECTED)
    spoken = (f"please {asked}, {whom.english}", f"{ordered}, s'il vous plaît, {whom.french}",
              f"{whom.chinese} ， 请 您 {chinese.verb_phrase(doing)}")  # fmt: skip
    return finished(*spoken, ".", doing)


def command(dice: Dice) -> Sentence:
    """Paul, open the window! Anna, don't turn off the light!"""
    whom = dice.choose(NAMES)
    doing = _task(dice, YOU)
    if isinstance(doing.thing, Somebody) and doing.thing.person == whom:
        doing = Action(doing.sense, Somebody(I))
    asked = f"{doing.sense.english} {english.complement(doing)}"
    if dice.once_in(3) and doing.sense.english not in ("clean", "wash"):
        forbidden = french.command(doing, SECOND, negative=True)
        spoken = _addressed(whom, f"don't {asked}", forbidden, f"别 {chinese.verb_phrase(doing)}")
        return finished(*spoken, "!", doing)
    ordered = french.command(doing, SECOND)
    return finished(*_addressed(whom, asked, ordered, chinese.verb_phrase(doing)), "!", doing)


_TOGETHER = ("eat", "drink", "watch", "listen to", "play", "visit", "go to", "take", "take a walk", "dance", "sing", "go home",
             "rest", "buy", "have lunch", "have dinner", "prepare", "help", "call")  # fmt: skip
_US = Person("we", "nous", "我们", FIRST_PLURAL, pronoun=True)


def proposal(dice: Dice) -> Sentence:
    """Let's play football! Let's go to the cinema tonight!"""
    doing = action(dice, "w", _US)
    while doing.sense.english not in _TOGETHER or (doing.sense.people and _about_you(doing)):
        doing = action(dice, "w", _US)
    return finished(
        f"let's {doing.sense.english} {english.complement(doing)}",
        french.command(doing, FIRST_PLURAL),
        f"我们 {chinese.verb_phrase(doing, bare=True)} 吧",
        "!", doing,
    )  # fmt: skip


def _about_you(doing: Action) -> bool:
    return isinstance(doing.thing, Somebody) and doing.thing.person.english in ("I", "you", "we")


def permission(dice: Dice) -> Sentence:
    """Can I open the window, please?"""
    doing = _task(dice, POLITE_YOU)
    if dice.once_in(2):
        doing = action(dice, "w", I, said=False)
    while doing.sense.people and isinstance(doing.thing, Somebody) and doing.thing.person in (I, YOU):
        doing = action(dice, "w", I, said=False)
    asked = f"can I {doing.sense.english} {english.complement(doing)}".strip()
    en_fr = f"est-ce que je peux {_infinitive(doing, I).strip()}"
    spoken = f"我 可以 {chinese.verb_phrase(doing, bare=True)} 吗"
    if dice.once_in(2):
        return finished(f"{asked}, please", f"{en_fr}, s'il vous plaît", f"请问 ， {spoken}", "?", doing)
    return finished(asked, en_fr, spoken, "?", doing)


_ORDERED = ("cup of tea", "cup of coffee", "glass of water", "glass of milk", "glass of wine", "bottle of water", "bottle of beer",
            "bottle of wine", "sandwich", "pizza", "ice cream", "ticket", "cake")  # fmt: skip


def order(dice: Dice) -> Sentence:
    """I would like two tickets, please."""
    noun = NOUNS[dice.choose(_ORDERED)]
    thing = Thing(noun, dice.choose(("a", "2", "3")))
    if dice.once_in(2):
        return finished(f"I would like {thing.english()}, please", f"je voudrais {thing.french()}, s'il vous plaît",
                        f"我 想要 {thing.chinese()} ， 谢谢", ".")  # fmt: skip
    return finished(f"we would like {thing.english()}, please", f"nous voudrions {thing.french()}, s'il vous plaît",
                    f"我们 想要 {thing.chinese()} ， 谢谢", ".")  # fmt: skip


_OFFERED = {"tea": "喝", "coffee": "喝", "water": "喝", "milk": "喝", "orange juice": "喝", "wine": "喝", "beer": "喝", "soup": "喝",
            "bread": "吃", "cheese": "吃", "fish": "吃", "salad": "吃", "chocolate": "吃", "rice": "吃", "vegetables": "吃",
            "noodles": "吃", "meat": "吃"}  # fmt: skip


def offer(dice: Dice) -> Sentence:
    """Would you like some tea, madam? Do you want some bread, Paul?"""
    noun = NOUNS[dice.choose(sorted(_OFFERED))]
    thing = Thing(noun, "some")
    eaten = f"{_OFFERED[noun.english]} {noun.chinese}"
    if dice.once_in(2):
        whom = dice.choose(_RESPECTED)
        return finished(f"would you like {thing.english()}, {whom.english}", f"voulez-vous {thing.french()}, {whom.french}",
                        f"{whom.chinese} ， 您 要 {eaten} 吗", "?")  # fmt: skip
    whom = dice.choose(NAMES)
    return finished(f"do you want {thing.english()}, {whom.english}", f"tu veux {thing.french()}, {whom.french}",
                    f"{whom.chinese} ， 你 要 {eaten} 吗", "?")  # fmt: skip


_HANDED = ("salt", "sugar", "bread", "butter", "water", "cheese", "newspaper", "pen", "salad", "book", "dictionary", "bag")


def pass_me(dice: Dice) -> Sentence:
    """Could you pass me the salt, please? Paul, can you pass me the bread?"""
    noun = NOUNS[dice.choose(_HANDED)]
    thing = Thing(noun, dice.choose(("this", "that", "the")) if noun.countable else "the")
    named = noun.chinese if not noun.countable else thing.chinese()
    kind = dice.throw(3)
    if kind == 0:
        return finished(f"could you pass me {thing.english()}, please", f"pourriez-vous me passer {thing.french()}, s'il vous plaît",
                        f"请 您 把 {named} 递给 我 ， 好 吗", "?")  # fmt: skip
    if kind == 1:
        whom = dice.choose(NAMES)
        return finished(f"{whom.english}, can you pass me {thing.english()}",
                        f"{whom.french}, est-ce que tu peux me passer {thing.french()}",
                        f"{whom.chinese} ， 你 能 把 {named} 递给 我 吗", "?")  # fmt: skip
    whom = dice.choose(_RESPECTED)
    return finished(f"could you pass me {thing.english()}, {whom.english}", f"pourriez-vous me passer {thing.french()}, {whom.french}",
                    f"{whom.chinese} ， 您 能 把 {named} 递给 我 吗", "?")  # fmt: skip


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
    whom = dice.choose((*_RESPECTED, *_STRANGERS) if polite else NAMES)
    en, fr, zh = dice.choose(_POLITE_PHRASES if polite else _FAMILIAR_PHRASES)
    if whom.gender == "f":
        fr = fr.replace("prêt", "prête")
    return finished(en[:-1].format(whom.english), fr.format(whom.french).rstrip(".?! "), f"{whom.chinese} ， {zh}", en[-1])
