"""Questions that ask what, where, when, who, why and how many."""

from __future__ import annotations

from tools.embedded import chinese, english, french
from tools.embedded.clauses import Action, Clause
from tools.embedded.dice import Dice
from tools.embedded.frames.courtesy import is_dull
from tools.embedded.frames.doing import action
from tools.embedded.nouns import NOUNS
from tools.embedded.people import ASKED_ABOUT, Person
from tools.embedded.phrases import Fixed, Thing
from tools.embedded.plausible import name_of
from tools.embedded.senses import SENSES
from tools.embedded.sentences import Sentence, finished, unit
from tools.embedded.verbs import english_verb, french_verb

_WHAT = (
    ("eat", "manger", "吃"),
    ("drink", "boire", "喝"),
    ("read", "lire", "看"),
    ("write", "écrire", "写"),
    ("buy", "acheter", "买"),
    ("watch", "regarder", "看"),
    ("draw", "dessiner", "画"),
    ("learn", "apprendre", "学"),
    ("listen to", "écouter", "听"),
    ("look for", "chercher", "找"),
    ("do", "faire", "做"),
    ("prepare", "préparer", "准备"),
)


def what(dice: Dice) -> Sentence:
    """What is Paul reading? What did Marie buy yesterday? What do you want to eat?"""
    subject = dice.choose(ASKED_ABOUT)
    base, infinitive, zh = dice.choose(_WHAT)
    verb, verbe, person = english_verb(base), french_verb(infinitive), subject.person
    asked = f"que est-ce que {subject.french}"
    kind = dice.throw(3)
    if kind == 0:
        return finished(
            f"what {english.be(subject)} {subject.english} {verb.progressive}",
            f"{asked} {verbe.present[person]}",
            f"{subject.chinese} 在 {zh} 什么",
            mark="?",
        )
    if kind == 1 and base not in ("learn", "look for", "listen to"):
        when = dice.choose(
            (
                ("yesterday", "hier", "昨天"),
                ("last night", "hier soir", "昨天 晚上"),
                ("this morning", "ce matin", "今天 早上"),
            )
        )
        return finished(
            f"what did {subject.english} {verb.base} {when[0]}",
            f"{asked} {french.present('avoir', subject)} {verbe.participle} {when[1]}",
            f"{subject.chinese} {when[2]} {zh} 了 什么",
            mark="?",
        )
    if base == "look for":
        base, verb, verbe, zh = "buy", english_verb("buy"), french_verb("acheter"), "买"
    return finished(
        f"what {english.do(subject)} {subject.english} want to {verb.base}",
        f"{asked} {french.present('vouloir', subject)} {verbe.infinitive}",
        f"{subject.chinese} 想 {zh} 什么",
        mark="?",
    )


def where(dice: Dice) -> Sentence:
    """Where does Anna live? Where did you buy that bag? Where are they going?"""
    subject = dice.choose(ASKED_ABOUT)
    kind = dice.throw(6)
    asked = f"où est-ce que {subject.french}"
    do = english.do(subject)
    if kind == 0:
        return finished(
            f"where {do} {subject.english} live",
            french.short_question("où", "habiter", subject),
            f"{subject.chinese} 住 在 哪里",
            mark="?",
        )
    if kind == 1 and not any(word in subject.english for word in ("little", "child", "grand", "student")):
        return finished(
            f"where {do} {subject.english} work",
            french.short_question("où", "travailler", subject),
            f"{subject.chinese} 在 哪里 工作",
            mark="?",
        )
    if kind == 2:
        return finished(
            f"where {english.be(subject)} {subject.english} going",
            french.short_question("où", "aller", subject),
            f"{subject.chinese} 要 去 哪里",
            mark="?",
        )
    noun = NOUNS[
        dice.choose(
            (
                "bag",
                "coat",
                "dress",
                "shirt",
                "hat",
                "watch",
                "scarf",
                "lamp",
                "book",
                "bicycle",
                "phone",
                "umbrella",
            )
        )
    ]
    if noun.english == "dress" and subject.gender == "m":
        noun = NOUNS["coat"]
    thing = Thing(noun, dice.choose(("this", "that")))
    verb, infinitive, zh = dice.choose((("buy", "acheter", "买"), ("find", "trouver", "找到")))
    return finished(
        f"where did {subject.english} {verb} {thing.english()}",
        f"{asked} {french.present('avoir', subject)} {french_verb(infinitive).participle} {thing.french()}",
        f"{subject.chinese} 在 哪里 {zh} 的 {thing.chinese()}",
        mark="?",
        units=unit(verb, noun),
    )


_JOURNEYS = (
    ("arrive", "arriver", "到"),
    ("leave", "partir", "走"),
    ("go home", "rentrer à la maison", "回 家"),
    ("go to Paris", "aller à Paris", "去 巴黎"),
    ("go to Beijing", "aller à Pékin", "去 北京"),
    ("go to France", "aller en France", "去 法国"),
    ("go to China", "aller en Chine", "去 中国"),
    ("go to Japan", "aller au Japon", "去 日本"),
    ("go to the market", "aller au marché", "去 市场"),
    ("go to the bank", "aller à la banque", "去 银行"),
    ("go to the hospital", "aller à l'hôpital", "去 医院"),
    ("go to the zoo", "aller au zoo", "去 动物园"),
    ("go to the library", "aller à la bibliothèque", "去 图书馆"),
)


def when(dice: Dice) -> Sentence:
    """When will they arrive? When did Marie go to Beijing?"""
    subject = dice.choose(ASKED_ABOUT)
    base, phrase, zh = dice.choose(_JOURNEYS)
    infinitive, _, rest = phrase.partition(" ")
    verbe, p = french_verb(infinitive), subject.person
    units = frozenset({("go to", base.removeprefix("go to "))}) if base.startswith("go to") else frozenset()
    asked = f"quand est-ce que {subject.french}"
    if dice.once_in(2):
        return finished(
            f"when will {subject.english} {base}",
            f"{asked} {verbe.future(p)} {rest}",
            f"{subject.chinese} 什么 时候 {zh}",
            mark="?",
            units=units,
        )
    gone = french.agree(verbe.participle, subject.gender, subject.plural)
    first, _, place = zh.partition(" ")
    return finished(
        f"when did {subject.english} {base}",
        f"{asked} {french.be(subject)} {gone} {rest}",
        f"{subject.chinese} 是 什么 时候 {first} {place} 的",
        mark="?",
        units=units,
    )


_WHO = Person("who", "qui", "谁")
_SOMEBODY_DID = tuple(
    sense
    for sense in SENSES
    if "d" in sense.uses
    and sense.objects
    and sense.english
    in (
        "open",
        "close",
        "turn on",
        "turn off",
        "clean",
        "wash",
        "win",
        "prepare",
        "make",
        "buy",
        "eat",
        "drink",
        "repair",
    )
)

_PRODUCE = tuple(
    NOUNS[name] for name in ("apple", "orange", "banana", "pear", "tomato", "egg", "flower", "stamp")
)
"""Of which one buys several."""


def who(dice: Dice) -> Sentence:
    """Who opened the window? Who wants to play chess? Who speaks French?"""
    kind = dice.throw(3)
    if kind == 0:
        language = dice.choose(
            (
                "French=français=法语",
                "English=anglais=英语",
                "Chinese=chinois=中文",
                "Spanish=espagnol=西班牙语",
                "Japanese=japonais=日语",
                "German=allemand=德语",
            )
        ).split("=")
        return finished(
            f"who speaks {language[0]}",
            f"qui parle {language[1]}",
            f"谁 会 说 {language[2]}",
            mark="?",
            units=frozenset({("speak", language[0])}),
        )
    if kind == 1:
        doing = action(dice, "w", _WHO)
        while is_dull(doing) or doing.sense.english not in (
            "play",
            "watch",
            "drink",
            "eat",
            "take",
            "go to",
            "read",
            "swim",
            "dance",
            "sing",
        ):
            doing = action(dice, "w", _WHO)
        return finished(
            f"who wants to {english.infinitive(doing)}",
            f"qui veut {french.infinitive(doing, _WHO)}",
            f"谁 想 {chinese.verb_phrase(doing, bare=True)}",
            mark="?",
            units=doing.units,
        )
    sense = dice.choose(_SOMEBODY_DID)
    chosen = dice.choose([noun for noun in sense.objects if sense.english != "buy" or noun not in _PRODUCE])
    thing = chosen if isinstance(chosen, Fixed) else Thing(chosen, "the")
    doing = Action(sense, thing)
    said = Clause(_WHO, doing, "past")
    done = sense.done or f"{sense.chinese.split(' ', 1)[0]} 了 {{}}"
    named = thing.noun.chinese if isinstance(thing, Thing) and not thing.noun.countable else thing.chinese()
    return finished(
        english.clause(said), french.clause(said), f"谁 {done.format(named)}", mark="?", units=doing.units
    )


_MATTER_OF_COURSE = (
    "eat",
    "drink",
    "have",
    "have lunch",
    "have dinner",
    "make",
    "order",
    "listen to",
    "sleep",
    "rest",
    "do",
    "wash",
    "win",
)
"""What one wants without a reason."""


def why(dice: Dice) -> Sentence:
    """Why is she crying? Why didn't you call your mother?"""
    subject = dice.choose(ASKED_ABOUT)
    kind = dice.throw(4)
    if kind == 0:
        feeling = dice.choose(
            (
                ("{be} {s} crying", "pleurer", "在 哭"),
                ("{be} {s} laughing", "rire", "在 笑"),
            )
        )
        return finished(
            f"why {feeling[0].format(be=english.be(subject), s=subject.english)}",
            f"pourquoi est-ce que {subject.french} {french_verb(feeling[1]).present[subject.person]}",
            f"{subject.chinese} 为什么 {feeling[2]}",
            mark="?",
        )
    if kind == 1:
        doing = action(dice, "w", subject, said=False)
        while doing.sense.english in _MATTER_OF_COURSE or is_dull(doing):
            doing = action(dice, "w", subject, said=False)
        return finished(
            f"why {english.do(subject)} {subject.english} want to {english.infinitive(doing)}",
            f"pourquoi est-ce que {subject.french} {french.present('vouloir', subject)}"
            f" {french.infinitive(doing, subject)}",
            f"{subject.chinese} 为什么 想 {chinese.verb_phrase(doing, bare=True)}",
            mark="?",
            units=doing.units,
        )
    doing = action(dice, "d", subject, said=False)
    while doing.sense.english in ("find", "see", "meet") or name_of(doing) == "write novel":
        doing = action(dice, "d", subject, said=False)
    told = Clause(subject, doing, "past", negative=True)
    asked = english.clause(Clause(subject, doing, "past", question=True)).replace("did", "didn't", 1)
    zh = chinese.clause(told).replace(subject.chinese, f"{subject.chinese} 为什么", 1)
    return finished(
        f"why {asked}", f"pourquoi est-ce que {french.clause(told)}", zh, mark="?", units=doing.units
    )
