"""Questions that ask what, where, when, who, why and how many."""

from __future__ import annotations

from throughtime.data.embedded import chinese, english, french
from throughtime.data.embedded.clauses import Action, Clause, Sentence
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames.actions import action
from throughtime.data.embedded.frames.description import finished
from throughtime.data.embedded.nouns import NOUNS
from throughtime.data.embedded.people import ASKED_ABOUT, Person
from throughtime.data.embedded.phrases import Thing
from throughtime.data.embedded.senses import SENSES
from throughtime.data.embedded.verbs import english_verb, french_verb


_WHAT = (
    ("eat", "manger", "吃"), ("drink", "boire", "喝"), ("read", "lire", "看"), ("write", "écrire", "写"), ("buy", "acheter", "买"),
    ("watch", "regarder", "看"), ("draw", "dessiner", "画"), ("learn", "apprendre", "学"), ("listen to", "écouter", "听"),
    ("look for", "chercher", "找"), ("do", "faire", "做"), ("prepare", "préparer", "做"),
)  # fmt: skip


def what(dice: Dice) -> Sentence:
    """What is Paul reading? What did Marie buy yesterday? What do you want to eat?"""
    subject = dice.choose(ASKED_ABOUT)
    base, infinitive, zh = dice.choose(_WHAT)
    verb, verbe, person = english_verb(base), french_verb(infinitive), subject.person
    asked = f"que est-ce que {subject.french}"
    kind = dice.throw(3)
    if kind == 0:
        return finished((
            f"what {english.be(subject)} {subject.english} {verb.progressive.replace(' to', '')} {'to' if base == 'listen to' else ''}",
            f"{asked} {verbe.present[person]}",
            f"{subject.chinese} 在 {zh} 什么",
        ), question=True)  # fmt: skip
    if kind == 1 and base not in ("learn", "look for", "listen to"):
        when = dice.choose((("yesterday", "hier", "昨天"), ("last night", "hier soir", "昨天 晚上"), ("this morning", "ce matin", "今天 早上")))
        return finished((
            f"what did {subject.english} {verb.base} {when[0]}",
            f"{asked} {french_verb('avoir').present[person]} {verbe.participle} {when[1]}",
            f"{subject.chinese} {when[2]} {zh} 了 什么",
        ), question=True)  # fmt: skip
    if base == "look for":
        base, verb, verbe, zh = "buy", english_verb("buy"), french_verb("acheter"), "买"
    return finished((
        f"what {english.do(subject)} {subject.english} want to {verb.base}",
        f"{asked} {french_verb('vouloir').present[person]} {verbe.infinitive}",
        f"{subject.chinese} 想 {zh} 什么",
    ), question=True)  # fmt: skip


def where(dice: Dice) -> Sentence:
    """Where does Anna live? Where did you buy that bag? Where are they going?"""
    subject = dice.choose(ASKED_ABOUT)
    kind = dice.throw(6)
    asked = f"où est-ce que {subject.french}"
    do, p = english.do(subject), subject.person
    if kind == 0:
        return finished((f"where {do} {subject.english} live", f"{asked} {french_verb('habiter').present[p]}",
                         f"{subject.chinese} 住 在 哪里"), question=True)  # fmt: skip
    if kind == 1 and "little" not in subject.english and "child" not in subject.english:
        return finished((f"where {do} {subject.english} work", f"{asked} {french_verb('travailler').present[p]}",
                         f"{subject.chinese} 在 哪里 工作"), question=True)  # fmt: skip
    if kind == 2:
        return finished((f"where {english.be(subject)} {subject.english} going", f"{asked} {french_verb('aller').present[p]}",
                         f"{subject.chinese} 去 哪里"), question=True)  # fmt: skip
    noun = NOUNS[dice.choose(("bag", "coat", "dress", "shirt", "hat", "watch", "scarf", "lamp", "book", "bicycle", "phone", "umbrella"))]
    thing = Thing(noun, dice.choose(("this", "that")))
    verb, infinitive, zh = dice.choose((("buy", "acheter", "买"), ("find", "trouver", "找到")))
    made = finished((
        f"where did {subject.english} {verb} {thing.english()}",
        f"{asked} {french_verb('avoir').present[p]} {french_verb(infinitive).participle} {thing.french()}",
        f"{subject.chinese} 在 哪里 {zh} 的 {thing.chinese()}",
    ), question=True)  # fmt: skip
    return made._replace(units=frozenset({(verb, noun.english)}))


_JOURNEYS = (
    ("arrive", "arriver", "到"), ("leave", "partir", "走"), ("go home", "rentrer à la maison", "回 家"),
    ("go to Paris", "aller à Paris", "去 巴黎"), ("go to Beijing", "aller à Pékin", "去 北京"), ("go to France", "aller en France", "去 法国"),
    ("go to China", "aller en Chine", "去 中国"), ("go to Japan", "aller au Japon", "去 日本"), ("go to the market", "aller au marché", "去 市场"),
    ("go to the bank", "aller à la banque", "去 银行"), ("go to the hospital", "aller à l'hôpital", "去 医院"),
    ("go to the zoo", "aller au zoo", "去 动物园"), ("go to the library", "aller à la bibliothèque", "去 图书馆"),
)  # fmt: skip


def when(dice: Dice) -> Sentence:
    """When will they arrive? When did Marie go to Beijing?"""
    subject = dice.choose(ASKED_ABOUT)
    base, phrase, zh = dice.choose(_JOURNEYS)
    infinitive, _, rest = phrase.partition(" ")
    verbe, p = french_verb(infinitive), subject.person
    units = frozenset({("go to", base.removeprefix("go to "))}) if base.startswith("go to") else frozenset()
    asked = f"quand est-ce que {subject.french}"
    if dice.once_in(2):
        made = finished((f"when will {subject.english} {base}", f"{asked} {verbe.future(p)} {rest}",
                         f"{subject.chinese} 什么 时候 {zh}"), question=True)  # fmt: skip
    else:
        gone = french.agree(verbe.participle, subject.gender, subject.plural)
        first, _, place = zh.partition(" ")
        made = finished((f"when did {subject.english} {base}", f"{asked} {french.be(subject)} {gone} {rest}",
                         f"{subject.chinese} 是 什么 时候 {first} {place} 的"), question=True)  # fmt: skip
    return made._replace(units=units)


_WHO = Person("who", "qui", "谁")
_SOMEBODY_DID = tuple(
    sense for sense in SENSES if "d" in sense.uses and sense.objects and sense.english in
    ("open", "close", "turn on", "turn off", "clean", "wash", "win", "prepare", "make", "buy", "eat", "drink", "repair")
)  # fmt: skip


def who(dice: Dice) -> Sentence:
    """Who opened the window? Who wants to play chess? Who speaks French?"""
    kind = dice.throw(3)
    if kind == 0:
        language = dice.choose(("French=français=法语", "English=anglais=英语", "Chinese=chinois=中文", "Spanish=espagnol=西班牙语",
                                "Japanese=japonais=日语", "German=allemand=德语")).split("=")  # fmt: skip
        made = finished((f"who speaks {language[0]}", f"qui parle {language[1]}", f"谁 会 说 {language[2]}"), question=True)
        return made._replace(units=frozenset({("speak", language[0])}))
    if kind == 1:
        doing = action(dice, "w", _WHO)
        while doing.sense.english not in ("play", "visit", "watch", "drink", "eat", "take", "go to", "read", "help", "swim", "dance", "sing"):
            doing = action(dice, "w", _WHO)
        return finished((
            f"who wants to {doing.sense.english} {english.complement(doing)}",
            f"qui veut {_infinitive(doing)}",
            f"谁 想 {chinese.verb_phrase(doing, bare=True)}",
        ), question=True)._replace(units=doing.units)  # fmt: skip
    sense = dice.choose(_SOMEBODY_DID)
    chosen = dice.choose(sense.objects)
    thing = Thing(chosen, "the") if not hasattr(chosen, "english_text") else chosen
    doing = Action(sense, thing)
    said = Clause(_WHO, doing, "past")
    zh = sense.chinese.split(" ", 1)
    named = thing.noun.chinese if isinstance(thing, Thing) and not thing.noun.countable else thing.chinese()
    return finished((english.clause(said), french.clause(said), f"谁 {zh[0]} 了 {named}"), question=True)._replace(units=doing.units)


def _infinitive(doing: Action) -> str:
    verb, tail = french.verb_and_tail(doing)
    return f"{french.clitic(doing, _WHO)} {verb.infinitive} {tail} {french.complement(doing)}"


_COUNTED = {
    "buy": ("acheter", "买", "apple orange banana egg tomato book ticket stamp notebook pen pear"),
    "eat": ("manger", "吃", "apple banana orange egg sandwich cake pear"),
    "read": ("lire", "看", "book novel magazine letter"),
    "write": ("écrire", "写", "letter email poem"),
    "draw": ("dessiner", "画", "cat dog tree flower bird"),
}


def how_many(dice: Dice) -> Sentence:
    """How many apples did you buy? How many brothers does Tom have?"""
    subject = dice.choose(ASKED_ABOUT)
    p = subject.person
    if dice.once_in(3):
        noun = NOUNS[dice.choose(("brother", "sister", "cat", "dog", "child", "bicycle"))]
        if noun.english == "child" and any(word in subject.english for word in ("child", "student", "little", "parents")):
            noun = NOUNS["cat"]
        made = finished((
            f"how many {noun.english_plural} {english.do(subject)} {subject.english} have",
            f"combien de {noun.french_plural} est-ce que {subject.french} {french_verb('avoir').present[p]}",
            f"{subject.chinese} 有 几 {noun.measure} {noun.chinese}",
        ), question=True)  # fmt: skip
        return made._replace(units=frozenset({("have", noun.english)}))
    base = dice.choose(sorted(_COUNTED))
    infinitive, zh, things = _COUNTED[base]
    noun = NOUNS[dice.choose(things.split())]
    bought = french.agree(french_verb(infinitive).participle, noun.gender, True)
    made = finished((
        f"how many {noun.english_plural} did {subject.english} {base}",
        f"combien de {noun.french_plural} est-ce que {subject.french} {french_verb('avoir').present[p]} {bought}",
        f"{subject.chinese} {zh} 了 几 {noun.measure} {noun.chinese}",
    ), question=True)  # fmt: skip
    return made._replace(units=frozenset({(base, noun.english)}))


def why(dice: Dice) -> Sentence:
    """Why is she crying? Why didn't you call your mother?"""
    subject = dice.choose(ASKED_ABOUT)
    kind = dice.throw(4)
    if kind == 0:
        feeling = dice.choose((
            ("{be} {s} crying", "pleurer", "在 哭"), ("{be} {s} laughing", "rire", "在 笑"),
        ))  # fmt: skip
        return finished((
            f"why {feeling[0].format(be=english.be(subject), s=subject.english)}",
            f"pourquoi est-ce que {subject.french} {french_verb(feeling[1]).present[subject.person]}",
            f"{subject.chinese} 为什么 {feeling[2]}",
        ), question=True)  # fmt: skip
    if kind == 1:
        doing = action(dice, "w", subject, said=False)
        want, person = french_verb("vouloir").present, subject.person
        verb, tail = french.verb_and_tail(doing)
        return finished((
            f"why {english.do(subject)} {subject.english} want to {doing.sense.english} {english.complement(doing)}",
            f"pourquoi est-ce que {subject.french} {want[person]} {french.clitic(doing, subject)} {verb.infinitive} {tail}"
            f" {french.complement(doing)}",
            f"{subject.chinese} 为什么 想 {chinese.verb_phrase(doing, bare=True)}",
        ), question=True)._replace(units=doing.units)  # fmt: skip
    doing = action(dice, "d", subject, said=False)
    told = Clause(subject, doing, "past", negative=True)
    asked = english.clause(Clause(subject, doing, "past", question=True)).replace("did", "didn't", 1)
    zh = chinese.clause(told).replace(subject.chinese, f"{subject.chinese} 为什么", 1)
    made = finished((f"why {asked}", f"pourquoi est-ce que {french.clause(told)}", zh), question=True)
    return made._replace(units=doing.units)


def which_time(dice: Dice) -> Sentence:
    """What time does the train leave? What time do you get up?"""
    if dice.once_in(3):
        thing = dice.choose((
            ("does the train leave", "part le train", "火车 几点 出发"), ("does the plane leave", "part l'avion", "飞机 几点 起飞"),
            ("does the bus leave", "part le bus", "公交车 几点 出发"), ("does the museum open", "ouvre le musée", "博物馆 几点 开门"),
            ("does the shop open", "ouvre le magasin", "商店 几点 开门"), ("does the film start", "commence le film", "电影 几点 开始"),
            ("does the match start", "commence le match", "比赛 几点 开始"), ("is it", "est-il", "现在 几点"),
            ("does the library close", "ferme la bibliothèque", "图书馆 几点 关门"), ("does the class start", "commence le cours", "几点 上课"),
        ))  # fmt: skip
        return finished((f"what time {thing[0]}", f"à quelle heure {thing[1]}" if thing[0] != "is it" else "quelle heure est-il",
                         thing[2]), question=True)  # fmt: skip
    subject = dice.choose(ASKED_ABOUT)
    own = ("me", "te", "se", "nous", "vous", "se")[subject.person]
    base, infinitive, zh = dice.choose((("get up", "se lever", "起床"), ("go to bed", "se coucher", "睡觉"),
                                        ("have lunch", "déjeuner", "吃 午饭"), ("have dinner", "dîner", "吃 晚饭")))  # fmt: skip
    verbe = french_verb(infinitive)
    return finished((
        f"what time {english.do(subject)} {subject.english} {base}",
        f"à quelle heure est-ce que {subject.french} {own if verbe.reflexive else ''} {verbe.present[subject.person]}",
        f"{subject.chinese} 几点 {zh}",
    ), question=True)  # fmt: skip


