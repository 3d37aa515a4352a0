"""The embedded sentences, judged as a reader of French or Chinese would."""
# ruff: noqa: E501 (the golden table has one line a sentence)

from __future__ import annotations

import re

import pytest
from tools.embedded.nouns import NOUNS

from throughtime.data import embedded


def all_pairs(name):
    """The pairs of all splits."""
    return [pair for split in embedded.SPLITS for pair in embedded.pairs(name, split)]


# Each line was read and approved; together they show every kind of sentence that the grammar makes.
GOLDEN = """
He often eats pizza. | Il mange souvent de la pizza. | 他经常吃披萨。
I don't play the violin. | Je ne joue pas du violon. | 我不拉小提琴。
Hugo isn't buying bread. | Hugo n'achète pas de pain. | 雨果没在买面包。
My grandmother is watching the match right now. | Ma grand-mère est en train de regarder le match. | 我奶奶正在看比赛。
Hugo sold his car two years ago. | Hugo a vendu sa voiture il y a deux ans. | 雨果两年前把他的车卖了。
Did you go to Spain last month? | Est-ce que tu es allé en Espagne le mois dernier ? | 你上个月去西班牙了吗？
Anna and Julie will prepare dinner tomorrow. | Anna et Julie prépareront le dîner demain. | 安娜和朱莉明天会做晚饭。
She is going to sell her computer next year. | Elle va vendre son ordinateur l'année prochaine. | 她明年打算卖她的电脑。
We don't want to buy a car. | Nous ne voulons pas acheter de voiture. | 我们不想买车。
You must go home. | Tu dois rentrer à la maison. | 你必须回家。
My uncle can sing. | Mon oncle sait chanter. | 我叔叔会唱歌。
My aunt doesn't like films. | Ma tante n'aime pas les films. | 我阿姨不喜欢看电影。
This phone is expensive. | Ce téléphone est cher. | 这部手机很贵。
That coat is red. | Ce manteau est rouge. | 那件大衣是红色的。
My big brother isn't patient. | Mon grand frère n'est pas patient. | 我哥哥没有耐心。
Sophie wasn't tired this morning. | Sophie n'était pas fatiguée ce matin. | 苏菲今天早上不累。
Lucas is kinder than my big sister. | Lucas est plus gentil que ma grande sœur. | 卢卡斯比我姐姐友善。
My father is forty-five years old. | Mon père a quarante-cinq ans. | 我爸爸四十五岁。
This novel costs eight euros. | Ce roman coûte huit euros. | 这本小说八欧元。
It is a quarter past six. | Il est six heures et quart. | 现在六点一刻。
The library closes at nine o'clock. | La bibliothèque ferme à neuf heures. | 图书馆九点关门。
It didn't rain yesterday. | Il n'a pas plu hier. | 昨天没下雨。
My big sister is a writer. | Ma grande sœur est écrivaine. | 我姐姐是作家。
David is wearing a yellow shirt. | David porte une chemise jaune. | 大卫穿着一件黄色的衬衫。
There are two dogs in the garden. | Il y a deux chiens dans le jardin. | 花园里有两只狗。
Where is your watch? | Où est ta montre ? | 你的手表在哪里？
His cat is in the garden. | Son chat est dans le jardin. | 他的猫在花园里。
Where is the swimming pool? | Où est la piscine ? | 游泳池在哪里？
What do you want to watch? | Qu'est-ce que tu veux regarder ? | 你想看什么？
Where does Anna live? | Où habite Anna ? | 安娜住在哪里？
When will your grandmother go to France? | Quand est-ce que ta grand-mère ira en France ? | 你奶奶什么时候去法国？
Who wants to go to Japan? | Qui veut aller au Japon ? | 谁想去日本？
How many emails did your uncle write? | Combien de courriels est-ce que ton oncle a écrits ? | 你叔叔写了几封电子邮件？
Why is our neighbour crying? | Pourquoi est-ce que notre voisin pleure ? | 我们的邻居为什么在哭？
What time does the class start? | À quelle heure commence le cours ? | 几点上课？
Do you want a watch, madam? | Est-ce que vous voulez une montre, madame ? | 女士，您想要一块手表吗？
Could you turn on the radio, please? | Pourriez-vous allumer la radio, s'il vous plaît ? | 请您打开收音机，好吗？
Paul, wash the dishes! | Paul, fais la vaisselle ! | 保罗，洗一下碗！
Let's drink tea! | Buvons du thé ! | 我们喝茶吧！
Can I open the box? | Est-ce que je peux ouvrir la boîte ? | 我可以打开那个盒子吗？
I would like a cake, please. | Je voudrais un gâteau, s'il vous plaît. | 我想要一个蛋糕，谢谢。
Would you like some salad, sir? | Voulez-vous de la salade, monsieur ? | 先生，您要吃沙拉吗？
Hugo, can you pass me the bread? | Hugo, est-ce que tu peux me passer le pain ? | 雨果，你能把面包递给我吗？
Good night, Daniel. | Bonne nuit, Daniel. | 丹尼尔，晚安。
My big brother didn't play tennis because it was too cold. | Mon grand frère n'a pas joué au tennis parce qu'il faisait trop froid. | 我哥哥没打网球，因为天气太冷了。
Julie doesn't like cartoons, but she likes films. | Julie n'aime pas les dessins animés, mais elle aime les films. | 朱莉不喜欢看动画片，但是喜欢看电影。
The teacher wants to tell a story, but he doesn't have time. | Le professeur veut raconter une histoire, mais il n'a pas le temps. | 老师想讲一个故事，但是他没有时间。
He ate salad and cheese last night. | Il a mangé de la salade et du fromage hier soir. | 他昨天晚上吃了沙拉和奶酪。
If the weather is nice on Sunday, Anna and Julie will run. | S'il fait beau dimanche, Anna et Julie courront. | 如果星期天天气好，安娜和朱莉就去跑步。
The book that we read is very difficult. | Le livre que nous avons lu est très difficile. | 我们看的书非常难。
David thinks the soup is cold. | David trouve que la soupe est froide. | 大卫觉得汤很凉。
I gave Anna a scarf this morning. | J'ai offert une écharpe à Anna ce matin. | 我今天早上送了安娜一条围巾。
My big brother goes to the office by bicycle every day. | Mon grand frère va au bureau à vélo tous les jours. | 我哥哥每天骑自行车去办公室。
Anna and Julie haven't left yet. | Anna et Julie ne sont pas encore parties. | 安娜和朱莉还没走。
Have you ever been to Japan? | Est-ce que tu es déjà allé au Japon ? | 你去过日本吗？
Mr Bernard is a nurse and Mrs Bernard is a doctor. | Monsieur Bernard est infirmier et madame Bernard est médecin. | 贝尔纳先生是护士，贝尔纳太太是医生。
They showed him a book on Saturday. | Ils lui ont montré un livre samedi. | 他们星期六给他看了一本书。
Paul and Marie invited us this morning. | Paul et Marie nous ont invités ce matin. | 保罗和玛丽今天早上邀请了我们。
Yesterday, Alice lost her bag. | Hier, Alice a perdu son sac. | 昨天爱丽丝把包弄丢了。
We didn't take a walk because it was too cold. | Nous ne nous sommes pas promenés parce qu'il faisait trop froid. | 我们没散步，因为天气太冷了。
My grandmother doesn't have to wash the dishes today. | Ma grand-mère n'est pas obligée de faire la vaisselle aujourd'hui. | 我奶奶今天不用洗碗。
Those shoes are comfortable. | Ces chaussures sont confortables. | 那双鞋很舒服。
The shoes that she bought are expensive. | Les chaussures qu'elle a achetées sont chères. | 她买的鞋很贵。
Lucas isn't patient. | Lucas n'est pas patient. | 卢卡斯没有耐心。
She also wears a hat. | Elle porte aussi un chapeau. | 她也戴帽子。
We don't have any children. | Nous n'avons pas d'enfants. | 我们没有孩子。
We gave them some flowers on Sunday. | Nous leur avons offert des fleurs dimanche. | 我们星期天送了他们一些花。
How many brothers does he have? | Combien de frères est-ce qu'il a ? | 他有几个兄弟？
How many sisters does Anna have? | Combien de sœurs a Anna ? | 安娜有几个姐妹？
Hugo can't ride a bike. | Hugo ne sait pas faire du vélo. | 雨果不会骑自行车。
Tom doesn't like to drink tea. | Tom n'aime pas boire du thé. | 汤姆不喜欢喝茶。
Please wait for me. | Attendez-moi, s'il vous plaît. | 请等我一下。
Where is Anna going? | Où va Anna ? | 安娜要去哪里？
Are you washing your car? | Est-ce que tu laves ta voiture ? | 你在洗车吗？
Can I close the door? | Est-ce que je peux fermer la porte ? | 我可以关门吗？
We are going to visit our mother this weekend. | Nous allons rendre visite à notre mère ce week-end. | 我们这个周末打算去看我们的妈妈。
My big brother is drawing a cat. | Mon grand frère dessine un chat. | 我哥哥在画一只猫。
Where does your mother work? | Où travaille ta mère ? | 你妈妈在哪里工作？
"""
ENGLISH = [pair.source for pair in all_pairs("en-fr")]
FRENCH = [pair.target for pair in all_pairs("en-fr")]
CHINESE = [pair.target for pair in all_pairs("en-zh")]
VOWEL = "aeiouâàéèêîôûœ"
MEASURES = "".join(sorted({noun.measure for noun in NOUNS.values()}))


@pytest.mark.parametrize("line", GOLDEN.strip().splitlines(), ids=lambda line: line.split(" | ")[0])
def test_golden_sentences(line: str) -> None:
    source, in_french, in_chinese = line.split(" | ")
    place = ENGLISH.index(source)
    assert FRENCH[place] == in_french
    assert CHINESE[place] == in_chinese


def offenders(sentences: list[str], pattern: str) -> list[str]:
    return [sentence for sentence in sentences if re.search(pattern, sentence)]


@pytest.mark.parametrize(
    "pattern",
    [
        rf"(?i)(?<![\w'-])(je|ne|me|te|se|le|la|de|que) (?!onze|huit)(?=[{VOWEL}h]|y\b)",  # elision
        rf"(?i)\b(qu|[jnmtsld])'(?![{VOWEL}hy])",  # no elision before a consonant
        r"\b(de|à) les? \w+(?<!er)(?<!re)(?<!ir)\b",  # du, des, au, aux
        rf"(?i)\b(du|au|ma|ta|sa|ce) (?!onze|huit)(?=[{VOWEL}h])",  # de l', à l', mon, cet before a vowel
        r"(?i)\bsi ils?\b",
        r"\bne\b(?!.*\b(pas|jamais)\b)",  # ne alone
        r"\bn'(?!.*\b(pas|jamais)\b)",
        r"\bpas (du|des|un|une) (?!tout)(?!piano|violon)",  # pas de, save jouer du piano
        r"\b(ai|as|a|avons|ont) (allé|parti|rentré|arrivé)",  # être, not avoir
        r"[^ ][?!]|\s[.,]|  |_",  # typography
        r"^[a-zéèàœ]|[^.?!]$",  # capital and mark
    ],
)
def test_french_breaks_no_rule(pattern: str) -> None:
    assert offenders(FRENCH, pattern) == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"[A-Za-z0-9]|\s|[.,?!;:]",  # nothing Latin, no spaces, full-width marks
        rf"(?<!十)二(?=[{MEASURES}])",  # two things are 两
        r"不有|不没|没不|不会不",
        r"没[^，过]*[^过]了[。？]",  # what did not happen has no 了
        r"了了|的的|吗吗|是是|很很|和和|正在在",
        r"吗(?!？)",
        r"绿色的帽子|帽子是绿色",  # nobody in China wants one
        r"[^。？！]$",
        r"[们]一[个只本]",
    ],
)
def test_chinese_breaks_no_rule(pattern: str) -> None:
    assert offenders(CHINESE, pattern) == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b[Aa] (?=[aeio])|\b[Aa]n (?![aeiouh])",
        r"^(He|She|It|Paul|Anna|Marie|My \w+er|Mrs? \w+) (have|do|want|like|go|don't|are|buy)\b",
        r"\b(doesn't|didn't|don't|can't|won't|must) (eats|buys|goes|has|plays|likes|wants|went|ate|bought)\b",
        r"\b(they|we|you) (is|has|was|does|doesn't|isn't)\b",
        r"  |[^.?!]$|^[a-z]",
        r"\bthat that\b|\bphotoes\b",
    ],
)
def test_english_breaks_no_rule(pattern: str) -> None:
    assert offenders([sentence for sentence in ENGLISH if " and " not in sentence], pattern) == []
