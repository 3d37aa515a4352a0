"""The nouns: one line each, in three languages."""

from __future__ import annotations

import re
from dataclasses import dataclass

# English[, plural] ; French[, plural] gender ; Chinese measure-word
# "-" after the English: a mass noun. "+": plural only. Genders "mp" and "fp": plural only in French.
# "!" after the measure word: "the door" is plain 门, since everybody knows which door.
_TABLE = """
apple; pomme f; 苹果 个
banana; banane f; 香蕉 根
orange; orange f; 橙子 个
pear; poire f; 梨 个
tomato; tomate f; 西红柿 个
egg; œuf m; 鸡蛋 个
sandwich; sandwich m; 三明治 个
pizza; pizza f; 披萨 个
cake; gâteau m; 蛋糕 个
ice cream; glace f; 冰淇淋 个
bread -; pain m; 面包 块
rice -; riz m; 米饭 碗
fish -; poisson m; 鱼 条
meat -; viande f; 肉 块
cheese -; fromage m; 奶酪 块
chocolate -; chocolat m; 巧克力 块
salad -; salade f; 沙拉 份
soup -; soupe f; 汤 碗
sugar -; sucre m; 糖 块
salt -; sel m; 盐 袋
butter -; beurre m; 黄油 块
vegetables +; légumes mp; 蔬菜 种
noodles +; nouilles fp; 面条 碗
water -; eau f; 水 杯
tea -; thé m; 茶 杯
coffee -; café m; 咖啡 杯
milk -; lait m; 牛奶 杯
orange juice -; jus d'orange m; 橙汁 杯
beer -; bière f; 啤酒 瓶
wine -; vin m; 葡萄酒 瓶
cup of tea, cups of tea; tasse de thé, tasses de thé f; 茶 杯
cup of coffee, cups of coffee; tasse de café, tasses de café f; 咖啡 杯
glass of water, glasses of water; verre d'eau, verres d'eau m; 水 杯
glass of milk, glasses of milk; verre de lait, verres de lait m; 牛奶 杯
glass of wine, glasses of wine; verre de vin, verres de vin m; 葡萄酒 杯
bottle of water, bottles of water; bouteille d'eau, bouteilles d'eau f; 水 瓶
bottle of beer, bottles of beer; bouteille de bière, bouteilles de bière f; 啤酒 瓶
bottle of wine, bottles of wine; bouteille de vin, bouteilles de vin f; 葡萄酒 瓶
book; livre m; 书 本
newspaper; journal m; 报纸 份!
magazine; magazine m; 杂志 本
letter; lettre f; 信 封
novel; roman m; 小说 本
poem; poème m; 诗 首
story; histoire f; 故事 个
email; courriel m; 电子邮件 封
dictionary; dictionnaire m; 词典 本
notebook; cahier m; 本子 个
pen; stylo m; 笔 支
pencil; crayon m; 铅笔 支
film; film m; 电影 部
cartoon; dessin animé, dessins animés m; 动画片 部
song; chanson f; 歌 首
photo; photo f; 照片 张
music -; musique f; 音乐 种
flower; fleur f; 花 朵
gift; cadeau m; 礼物 份
ticket; billet m; 票 张
stamp; timbre m; 邮票 张
shirt; chemise f; 衬衫 件
dress; robe f; 连衣裙 条
skirt; jupe f; 裙子 条
coat; manteau m; 大衣 件
jacket; veste f; 外套 件
sweater; pull m; 毛衣 件
hat; chapeau m; 帽子 顶
scarf, scarves; écharpe f; 围巾 条
glasses +; lunettes fp; 眼镜 副
gloves +; gants mp; 手套 副
shoes +; chaussures fp; 鞋 双
boots +; bottes fp; 靴子 双
clothes +; vêtements mp; 衣服 件!
bag; sac m; 包 个
suitcase; valise f; 行李箱 个
umbrella; parapluie m; 雨伞 把
watch; montre f; 手表 块
key; clé f; 钥匙 把
wallet; portefeuille m; 钱包 个
passport; passeport m; 护照 本
phone; téléphone m; 手机 部
computer; ordinateur m; 电脑 台!
camera; appareil photo, appareils photo m; 相机 台
television; télévision f; 电视 台!
radio; radio f; 收音机 台!
light; lumière f; 灯 盏!
lamp; lampe f; 台灯 盏
car; voiture f; 车 辆
bicycle; vélo m; 自行车 辆
house; maison f; 房子 栋!
table; table f; 桌子 张!
chair; chaise f; 椅子 把
sofa; canapé m; 沙发 张!
bed; lit m; 床 张!
fridge; réfrigérateur m; 冰箱 台!
cup; tasse f; 杯子 个
bottle; bouteille f; 瓶子 个
box; boîte f; 盒子 个
door; porte f; 门 扇!
window; fenêtre f; 窗户 扇!
kitchen; cuisine f; 厨房 间!
bathroom; salle de bains, salles de bains f; 浴室 间!
room; chambre f; 房间 个!
classroom; salle de classe, salles de classe f; 教室 间!
garden; jardin m; 花园 个!
park; parc m; 公园 个!
museum; musée m; 博物馆 座!
castle; château m; 城堡 座!
bank; banque f; 银行 家!
restaurant; restaurant m; 餐厅 家!
hotel; hôtel m; 酒店 家!
pharmacy; pharmacie f; 药店 家!
supermarket; supermarché m; 超市 家!
bakery; boulangerie f; 面包店 家!
library; bibliothèque f; 图书馆 座!
station; gare f; 火车站 座!
hospital; hôpital m; 医院 家!
school; école f; 学校 所!
street; rue f; 街 条
city; ville f; 城市 座
tree; arbre m; 树 棵
cat; chat m; 猫 只
dog; chien m; 狗 只
bird; oiseau m; 鸟 只
horse; cheval m; 马 匹
child, children; enfant m; 孩子 个
student; étudiant m; 学生 个
brother; frère m; 兄弟 个
sister; sœur f; 姐妹 个
homework -; devoirs mp; 作业 份
money -; argent m; 钱 笔
help -; aide f; 帮助 次
"""


@dataclass(frozen=True)
class Noun:
    """A thing, with all its forms; `measure` is the Chinese measure word."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str
    chinese: str
    measure: str
    countable: bool
    plural_only: bool
    french_plural_only: bool
    familiar: bool

    @property
    def paired(self) -> bool:
        """Whether these are two of a kind, which Chinese counts as one: 那 双 鞋."""
        return self.measure in ("双", "副")


def english_plural(noun: str) -> str:
    """The regular English plural.

    >>> [english_plural(noun) for noun in ("box", "story", "key")]
    ['boxes', 'stories', 'keys']
    """
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|ch|sh|mato)$", noun) else "s")


def french_plural(noun: str) -> str:
    """The regular French plural.

    >>> [french_plural(noun) for noun in ("gâteau", "journal", "jus", "clé")]
    ['gâteaux', 'journaux', 'jus', 'clés']
    """
    if noun.endswith("al"):
        return noun[:-2] + "aux"
    return noun + ("x" if noun.endswith("eau") else "" if noun[-1] in "sxz" else "s")


def _noun(line: str) -> Noun:
    english, french, chinese = (part.strip() for part in line.split(";"))
    mass, plural_only = english.endswith(" -"), english.endswith(" +")
    singular, _, plural = english.rstrip(" +-").partition(", ")
    french, gender = french.rsplit(" ", 1)
    french_singular, _, french_many = french.partition(", ")
    word, measure = chinese.split()
    return Noun(
        english=singular,
        english_plural=singular if mass or plural_only else plural or english_plural(singular),
        french=french_singular,
        french_plural=french_singular
        if gender.endswith("p")
        else french_many or french_plural(french_singular),
        gender=gender[0],
        chinese=word,
        measure=measure.rstrip("!"),
        countable=not mass and not plural_only,
        plural_only=plural_only,
        french_plural_only=gender.endswith("p"),
        familiar=measure.endswith("!"),
    )


NOUNS: dict[str, Noun] = {noun.english: noun for noun in map(_noun, _TABLE.strip().splitlines())}
