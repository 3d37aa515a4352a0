"""What can be done to what: every verb with the objects that make sense, in three languages."""
# ruff: noqa: E501 (a table, in which a Chinese character counts as two)

from __future__ import annotations

from dataclasses import dataclass, field

from tools.embedded.nouns import NOUNS, Noun
from tools.embedded.phrases import Fixed


@dataclass(frozen=True)
class Sense:
    """One meaning of a verb with its objects.

    `french` is an infinitive with what follows it (`rendre visite à`); `chinese` has {} where the object goes,
    and `done` is its form with 了 where the rule does not give it. `uses` are letters: (h)abit, (p)rogressive,
    (d)one, (f)uture, (w)ish, (m)ust, (s)kill, (i)mperative, (t)rue now. Things that are `long` happen in weeks,
    not hours; what is not `deniable` is neither denied nor asked; what `drops_owner` needs no 他的 in Chinese;
    `asked` is the Chinese of a request; what is `counted` keeps its 一 where others lose it: 在 看 书, 在 画 一 只 猫.
    """

    english: str
    french: str
    chinese: str
    uses: str
    nouns: str = ""
    fixed: str = ""
    people: bool = False
    determiners: str = "a bare some the number"
    done: str = ""
    asked: str = ""
    long: bool = False
    deniable: bool = True
    drops_owner: bool = False
    places: str = ""
    numbers: str = "2 3 4"
    adjectives: bool = False
    counted: bool = False
    objects: tuple[Noun | Fixed, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Look the objects up."""
        named = tuple(NOUNS[name] for name in self.nouns.split(", ") if name)
        phrases = tuple(Fixed(*phrase.split("=")) for phrase in self.fixed.split("; ") if phrase)
        object.__setattr__(self, "objects", named + phrases)

    @property
    def intransitive(self) -> bool:
        """Whether it takes no object at all."""
        return not self.objects and not self.people

    @property
    def french_preposition(self) -> str:
        """À or de, which goes with the object and may contract with its article."""
        last = self.french.rsplit(" ", 1)[-1]
        return last if last in ("à", "de") else ""


SENSES = (
    Sense("eat", "manger", "吃 {}", "hpdw",
          "apple, banana, orange, pear, tomato, egg, sandwich, bread, cheese, chocolate",
          places="home kitchen garden", determiners="a bare some number", numbers="2 3"),
    Sense("eat", "manger", "吃 {}", "hpdfw", "rice, fish, meat, salad, vegetables, noodles",
          places="home restaurant kitchen garden", determiners="bare some"),
    Sense("eat", "manger", "吃 {}", "pdw", "pizza, cake, ice cream", determiners="a number", numbers="2",
          places="home restaurant garden"),
    Sense("eat", "manger", "吃 {}", "h", places="home restaurant",
          fixed="pizza=de la pizza=披萨; cake=du gâteau=蛋糕; ice cream=de la glace=冰淇淋"),
    Sense("eat", "manger", "喝 {}", "hpdw", "soup", places="home restaurant", determiners="bare some"),
    Sense("drink", "boire", "喝 {}", "hpdw", "tea, coffee, beer, wine",
          places="home restaurant garden", determiners="bare some"),
    Sense("drink", "boire", "喝 {}", "hpdw", "milk, orange juice", places="home garden", determiners="bare some"),
    Sense("drink", "boire", "喝 {}", "hpdw", "water", determiners="bare some", deniable=False),
    Sense("drink", "boire", "喝 {}", "pdw",
          "cup of tea, cup of coffee, glass of water, glass of milk, glass of wine, bottle of water, bottle of beer",
          determiners="a number", deniable=False, numbers="2 3", counted=True),
    Sense("read", "lire", "看 {}", "hpdfw", "book, magazine, novel",
          places="home library garden park", determiners="a bare the"),
    Sense("read", "lire", "看 {}", "pd", "letter", determiners="a the number", places="home garden", numbers="2 3"),
    Sense("read", "lire", "读 {}", "pdw", "story", determiners="a the", places="home school"),
    Sense("read", "lire", "看 {}", "hpdw", fixed="the newspaper=le journal=报纸", places="home library garden"),
    Sense("write", "écrire", "写 {}", "hpdfw", "letter, poem, email", determiners="a bare number",
          places="home", numbers="2 3"),
    Sense("write", "écrire", "写 {}", "hpdfw", "story", determiners="a bare", places="home"),
    Sense("write", "écrire", "写 {}", "hpdw", "novel", determiners="a bare", long=True),
    Sense("watch", "regarder", "看 {}", "hpdfw", "film, cartoon", places="home", determiners="a bare the number", numbers="2"),
    Sense("watch", "regarder", "看 {}", "hpdfw",
          fixed="television=la télévision=电视; the news=les informations=新闻", places="home"),
    Sense("watch", "regarder", "看 {}", "pdfw", fixed="the match=le match=比赛", places="home"),
    Sense("listen to", "écouter", "听 {}", "hpdw", "music", determiners="bare", places="home garden"),
    Sense("listen to", "écouter", "听 {}", "hpdw", fixed="the radio=la radio=收音机", places="home kitchen"),
    Sense("listen to", "écouter", "听 {}", "pdw", "song", determiners="a the number"),
    Sense("sing", "chanter", "唱 {}", "pdfw", "song", determiners="a number", places="school", numbers="2 3"),
    Sense("buy", "acheter", "买 {}", "hdfwpm",
          "bread, milk, cheese, fish, meat, apple, orange, banana, pear, tomato, egg, flower, vegetables",
          places="market supermarket", determiners="bare some number", numbers="3 4 5 6 8 10"),
    Sense("buy", "acheter", "买 {}", "dfw",
          "newspaper, book, magazine, ticket, stamp, gift, pen, pencil, notebook, dictionary, cake, chocolate",
          determiners="a some number the"),
    Sense("buy", "acheter", "买 {}", "dfw",
          "shirt, dress, skirt, coat, jacket, sweater, hat, scarf, bag, suitcase, umbrella, watch, lamp, shoes,"
          " boots, gloves, glasses",
          determiners="a the bare", adjectives=True),
    Sense("buy", "acheter", "买 {}", "dfw",
          "car, bicycle, house, computer, phone, table, sofa, bed, camera, fridge, television, chair",
          determiners="a", long=True, adjectives=True),
    Sense("sell", "vendre", "卖 {}", "dfw", "car, house, bicycle, computer, camera, phone",
          determiners="mine", done="把 {} 卖 了", long=True),
    Sense("wear", "porter", "穿 {}", "h", "dress, skirt, jacket, sweater, shirt, boots", determiners="a", deniable=False),
    Sense("wear", "porter", "戴 {}", "h", "hat, glasses, gloves, scarf", determiners="a"),
    Sense("visit", "visiter", "参观 {}", "dfw", "museum, castle", determiners="the"),
    Sense("visit", "visiter", "游览 {}", "dfw", long=True, done="游览 了 {}",
          fixed="Paris=Paris=巴黎; London=Londres=伦敦; Beijing=Pékin=北京; Rome=Rome=罗马; Shanghai=Shanghai=上海"),
    Sense("visit", "rendre visite à", "去 看 {}", "hdfwm", people=True, done="去 看 了 {}"),
    Sense("call", "téléphoner à", "给 {} 打 电话", "hdfwim", people=True, done="给 {} 打 了 电话", asked="给 {} 打 个 电话"),
    Sense("help", "aider", "帮 {}", "hdfwm", people=True),
    Sense("wait for", "attendre", "等 {}", "pwim", people=True, places="station home", asked="等 {} 一下"),
    Sense("wait for", "attendre", "等 {}", "p",
          fixed="the bus=le bus=公交车; the train=le train=火车; a taxi=un taxi=出租车", deniable=False),
    Sense("see", "voir", "看见 {}", "d", people=True),
    Sense("meet", "rencontrer", "遇见 {}", "d", people=True, places="station market library park"),
    Sense("invite", "inviter", "邀请 {}", "dfw", people=True),
    Sense("know", "connaître", "认识 {}", "t", people=True),
    Sense("love", "aimer", "爱 {}", "t", people=True, deniable=False),
    Sense("look for", "chercher", "找 {}", "p",
          "key, phone, wallet, glasses, passport, umbrella, bag, watch, pen, hat", determiners="mine"),
    Sense("look for", "chercher", "找 {}", "p", people=True),
    Sense("find", "trouver", "找到 {}", "d",
          "key, phone, wallet, glasses, passport, umbrella, bag, watch, pen, hat", determiners="mine"),
    Sense("lose", "perdre", "丢 {}", "d", "key, phone, wallet, glasses, passport, umbrella, watch, bag",
          determiners="mine", done="把 {} 弄丢 了", deniable=False, drops_owner=True),
    Sense("forget", "oublier", "忘 带 {}", "d", "key, phone, wallet, glasses, passport, umbrella, hat, homework",
          determiners="mine", done="忘 了 带 {}", deniable=False, drops_owner=True),
    Sense("learn", "apprendre", "学 {}", "pfwm", long=True,
          fixed="French=le français=法语; English=l'anglais=英语; Chinese=le chinois=中文; Spanish=l'espagnol=西班牙语;"
                " Japanese=le japonais=日语; German=l'allemand=德语"),
    Sense("study", "étudier", "学 {}", "hpdwm", places="school library",
          fixed="history=l'histoire=历史; mathematics=les mathématiques=数学; geography=la géographie=地理;"
                " biology=la biologie=生物"),
    Sense("speak", "parler", "会 说 {}", "t",
          fixed="French=français=法语; English=anglais=英语; Chinese=chinois=中文; Spanish=espagnol=西班牙语;"
                " Japanese=japonais=日语; German=allemand=德语"),
    Sense("play", "jouer à", "踢 {}", "hpdfws", fixed="football=le football=足球", places="park school"),
    Sense("play", "jouer à", "打 {}", "hpdfws", places="park school",
          fixed="basketball=le basket=篮球; tennis=le tennis=网球; volleyball=le volley=排球; table tennis=le ping-pong=乒乓球"),
    Sense("play", "jouer à", "打 {}", "hpdfws", fixed="cards=les cartes=牌", places="home"),
    Sense("play", "jouer à", "下 {}", "hpdfws", fixed="chess=les échecs=国际象棋", places="home park"),
    Sense("play", "jouer à", "玩 {}", "hpdfw", fixed="video games=les jeux vidéo=电子游戏", places="home"),
    Sense("play", "jouer de", "弹 {}", "hpdfws", fixed="the piano=le piano=钢琴; the guitar=la guitare=吉他",
          places="home school"),
    Sense("play", "jouer de", "拉 {}", "hpdfws", fixed="the violin=le violon=小提琴", places="home school"),
    Sense("play", "jouer de", "吹 {}", "hpdfws", fixed="the flute=la flûte=长笛", places="home school"),
    Sense("have", "prendre", "吃 {}", "hdfw", fixed="breakfast=le petit déjeuner=早饭", places="home"),
    Sense("have lunch", "déjeuner", "吃 午饭", "hdfw", places="home restaurant school"),
    Sense("have dinner", "dîner", "吃 晚饭", "hdfw", places="home restaurant"),
    Sense("prepare", "préparer", "做 {}", "hpdfwm", places="home kitchen",
          fixed="breakfast=le petit déjeuner=早饭; lunch=le déjeuner=午饭; dinner=le dîner=晚饭"),
    Sense("make", "faire", "做 {}", "hpdfw", "cake, soup, sandwich, pizza, salad", determiners="a bare",
          places="home kitchen"),
    Sense("make", "faire", "煮 {}", "hpdw", "coffee", determiners="bare", places="kitchen"),
    Sense("make", "faire", "泡 {}", "hpdw", "tea", determiners="bare", places="kitchen"),
    Sense("order", "commander", "点 {}", "dw", "soup, salad, fish, coffee, tea, beer, noodles",
          determiners="bare", places="restaurant", done="点 了 {}"),
    Sense("order", "commander", "点 {}", "dw", "pizza", determiners="a", places="restaurant"),
    Sense("clean", "nettoyer", "打扫 {}", "hpdfwim", "kitchen, bathroom, room, house, classroom", determiners="the",
          asked="打扫 一下 {}"),
    Sense("wash", "laver", "洗 {}", "pdfwm", "car", determiners="mine", drops_owner=True),
    Sense("wash", "laver", "洗 {}", "hpdfm", "clothes", determiners="the"),
    Sense("wash", "faire", "洗 {}", "hpdfim", fixed="the dishes=la vaisselle=碗", places="kitchen", asked="洗 一下 {}"),
    Sense("do", "faire", "做 {}", "hpdfwm", "homework", determiners="mine", drops_owner=True,
          places="home library"),
    Sense("repair", "réparer", "修 {}", "dfwpm", "car, bicycle, computer, phone, camera, watch", determiners="mine the",
          done="修好 了 {}"),
    Sense("open", "ouvrir", "开 {}", "di", "window, door", determiners="the", done="打开 了 {}", asked="打开 {}"),
    Sense("open", "ouvrir", "打开 {}", "di", "box, suitcase, letter", determiners="the"),
    Sense("close", "fermer", "关 {}", "di", "window, door", determiners="the", done="关上 了 {}", asked="把 {} 关上"),
    Sense("close", "fermer", "关上 {}", "di", "suitcase", determiners="the"),
    Sense("turn on", "allumer", "开 {}", "di", "light, television, radio, computer", determiners="the",
          done="打开 了 {}", asked="打开 {}"),
    Sense("turn off", "éteindre", "关 {}", "di", "light, television, radio, computer", determiners="the",
          done="关 了 {}", asked="把 {} 关掉"),
    Sense("take", "prendre", "坐 {}", "hfwm",
          fixed="the bus=le bus=公交车; the train=le train=火车; the metro=le métro=地铁; a taxi=un taxi=出租车"),
    Sense("take", "prendre", "坐 {}", "fwm", fixed="the plane=l'avion=飞机"),
    Sense("ride", "faire", "骑 {}", "hpdws", fixed="a bike=du vélo=自行车", places="park"),
    Sense("drive", "conduire", "开车", "sw"),
    Sense("take", "prendre", "拍 {}", "hpdfw", "photo", determiners="bare number", numbers="3 4 5 10",
          places="park museum garden"),
    Sense("tell", "raconter", "讲 {}", "pdw", "story", determiners="a"),
    Sense("draw", "dessiner", "画 {}", "pdw", "cat, dog, horse, house, tree, flower, bird", determiners="a number",
          counted=True),
    Sense("win", "gagner", "赢 {}", "dw", fixed="the match=le match=比赛", done="赢 了 {}"),
    Sense("have", "avoir", "有 {}", "t", "cat, dog, car, bicycle, computer, garden, house, camera, horse, umbrella",
          determiners="a", adjectives=True),
    Sense("have", "avoir", "有 {}", "t", "brother, sister, child, cat, dog", determiners="number", numbers="2 3 4"),
    Sense("have", "avoir", "有 {}", "t", "money", determiners="bare"),
    Sense("have", "avoir", "有 {}", "t", fixed="time=le temps=时间"),
    Sense("need", "avoir besoin de", "需要 {}", "t",
          "pen, umbrella, passport, suitcase, dictionary, lamp, coat, computer, notebook", determiners="a"),
    Sense("need", "avoir besoin de", "需要 {}", "t", "money, help", determiners="bare"),
    Sense("want", "vouloir", "想要 {}", "t",
          "bicycle, dog, cat, phone, camera, watch, coat, dress, bag, computer", determiners="a",
          adjectives=True, counted=True),
    Sense("like", "aimer", "喜欢 吃 {}", "t",
          "apple, banana, orange, pear, tomato, egg, sandwich, cake, rice, fish, meat, cheese, chocolate, salad,"
          " vegetables, noodles", determiners="all"),
    Sense("like", "aimer", "喜欢 吃 {}", "t", fixed="pizza=la pizza=披萨; ice cream=la glace=冰淇淋"),
    Sense("like", "aimer", "喜欢 喝 {}", "t", "tea, coffee, milk, orange juice, beer, wine, soup", determiners="all"),
    Sense("like", "aimer", "喜欢 {}", "t", "cat, dog, horse, bird", determiners="all"),
    Sense("like", "aimer", "喜欢 {}", "t", "flower", determiners="all"),
    Sense("like", "aimer", "喜欢 看 {}", "t", "film, cartoon, novel", determiners="all"),
    Sense("like", "aimer", "喜欢 看 {}", "t", "book", determiners="all"),
    Sense("like", "aimer", "喜欢 听 {}", "t", "music", determiners="all"),
    Sense("go to", "aller à", "去 {}", "hdfwm", done="去 了 {}",
          fixed="school=l'école=学校; the market=le marché=市场; the bank=la banque=银行; the post office=la poste=邮局;"
                " the library=la bibliothèque=图书馆; the cinema=le cinéma=电影院; the restaurant=le restaurant=餐厅;"
                " the park=le parc=公园; the office=le bureau=办公室; the supermarket=le supermarché=超市;"
                " the beach=la plage=海边; the swimming pool=la piscine=游泳池; the university=l'université=大学"),
    Sense("go to", "aller à", "去 {}", "dfwm", done="去 了 {}",
          fixed="the hospital=l'hôpital=医院; the station=la gare=火车站; the museum=le musée=博物馆; the airport=l'aéroport=机场;"
                " the theatre=le théâtre=剧院; the zoo=le zoo=动物园"),
    Sense("go to", "aller", "去 {}", "dfw", long=True, done="去 了 {}",
          fixed="France=en France=法国; China=en Chine=中国; Japan=au Japon=日本; England=en Angleterre=英国;"
                " Italy=en Italie=意大利; Spain=en Espagne=西班牙; Canada=au Canada=加拿大; Paris=à Paris=巴黎;"
                " Beijing=à Pékin=北京; London=à Londres=伦敦"),
    Sense("live in", "habiter", "住 在 {}", "t",
          fixed="Paris=à Paris=巴黎; London=à Londres=伦敦; Beijing=à Pékin=北京; Shanghai=à Shanghai=上海; Rome=à Rome=罗马;"
                " France=en France=法国; China=en Chine=中国; Japan=au Japon=日本; Canada=au Canada=加拿大;"
                " Italy=en Italie=意大利"),
    Sense("work in", "travailler", "在 {} 工作", "t",
          fixed="a bank=dans une banque=银行; a hospital=dans un hôpital=医院; a restaurant=dans un restaurant=餐厅;"
                " a library=dans une bibliothèque=图书馆; a hotel=dans un hôtel=酒店; a school=dans une école=学校;"
                " a pharmacy=dans une pharmacie=药店; an office=dans un bureau=办公室"),
    Sense("go home", "rentrer à la maison", "回 家", "dfwm"),
    Sense("sleep", "dormir", "睡觉", "pw", places="home"),
    Sense("swim", "nager", "游泳", "hpdws", places="pool sea"),
    Sense("sing", "chanter", "唱歌", "hpdws", places="school"),
    Sense("dance", "danser", "跳舞", "hpdws", places="home"),
    Sense("cook", "cuisiner", "做饭", "hpdws", places="home"),
    Sense("ski", "skier", "滑雪", "dws"),
    Sense("work", "travailler", "工作", "hpdfm", places="home office"),
    Sense("run", "courir", "跑步", "hpdw", places="park"),
    Sense("cry", "pleurer", "哭", "p"),
    Sense("laugh", "rire", "笑", "p"),
    Sense("rest", "se reposer", "休息", "hpdfwm", places="home garden"),
    Sense("take a walk", "se promener", "散步", "hpdfw", places="park garden sea"),
    Sense("do the shopping", "faire les courses", "去 买 东西", "hdfwm", done="去 买 东西 了"),
    Sense("travel", "voyager", "去 旅行", "fw", long=True),
)  # fmt: skip
