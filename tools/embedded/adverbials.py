"""When, how often and where."""

from __future__ import annotations

from typing import NamedTuple


class Adverbial(NamedTuple):
    """A time, a frequency or a place; Chinese is written with spaces between words."""

    english: str
    french: str
    chinese: str


def _table(text: str) -> tuple[Adverbial, ...]:
    return tuple(Adverbial(*line.split("; ")) for line in text.strip().splitlines())


PAST = _table("""
yesterday; hier; 昨天
last night; hier soir; 昨天 晚上
this morning; ce matin; 今天 早上
on Monday; lundi; 星期一
on Saturday; samedi; 星期六
yesterday afternoon; hier après-midi; 昨天 下午
on Sunday; dimanche; 星期天
""")
PAST_LONG = _table("""
last week; la semaine dernière; 上 个 星期
last month; le mois dernier; 上 个 月
last year; l'année dernière; 去年
two years ago; il y a deux ans; 两 年 前
last summer; l'été dernier; 去年 夏天
""")
FUTURE = _table("""
tomorrow; demain; 明天
tonight; ce soir; 今天 晚上
tomorrow morning; demain matin; 明天 早上
this afternoon; cet après-midi; 今天 下午
next Saturday; samedi prochain; 下 个 星期六
this weekend; ce week-end; 这 个 周末
""")
FUTURE_LONG = _table("""
next week; la semaine prochaine; 下 个 星期
next month; le mois prochain; 下 个 月
next year; l'année prochaine; 明年
next summer; l'été prochain; 明年 夏天
""")
NOW = _table("""
today; aujourd'hui; 今天
this evening; ce soir; 今天 晚上
""")
EVERY = _table("""
every day; tous les jours; 每天
every morning; tous les matins; 每天 早上
every evening; tous les soirs; 每天 晚上
every weekend; tous les week-ends; 每 个 周末
on Sundays; le dimanche; 星期天
""")
OFTEN = _table("""
often; souvent; 经常
sometimes; parfois; 有时候
rarely; rarement; 很少
also; aussi; 也
""")
NEVER = Adverbial("never", "jamais", "从来 不")

PLACES = {
    line.split(": ")[0]: Adverbial(*line.split(": ")[1].split("; "))
    for line in """
home: at home; à la maison; 家
restaurant: at the restaurant; au restaurant; 餐厅
kitchen: in the kitchen; dans la cuisine; 厨房 里
garden: in the garden; dans le jardin; 花园 里
library: at the library; à la bibliothèque; 图书馆
park: in the park; au parc; 公园 里
market: at the market; au marché; 市场
supermarket: at the supermarket; au supermarché; 超市
school: at school; à l'école; 学校
station: at the station; à la gare; 火车站
office: at the office; au bureau; 办公室
pool: at the swimming pool; à la piscine; 游泳池
sea: at the beach; à la plage; 海边
museum: at the museum; au musée; 博物馆
""".strip().splitlines()
}
