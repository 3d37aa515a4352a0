"""Numbers as words."""

from __future__ import annotations

_SMALL = """
0 zero zéro 零
1 one un 一
2 two deux 二
3 three trois 三
4 four quatre 四
5 five cinq 五
6 six six 六
7 seven sept 七
8 eight huit 八
9 nine neuf 九
10 ten dix 十
11 eleven onze 十一
12 twelve douze 十二
13 thirteen treize 十三
14 fourteen quatorze 十四
15 fifteen quinze 十五
16 sixteen seize 十六
17 seventeen dix-sept 十七
18 eighteen dix-huit 十八
19 nineteen dix-neuf 十九
20 twenty vingt 二十
25 twenty-five vingt-cinq 二十五
30 thirty trente 三十
35 thirty-five trente-cinq 三十五
40 forty quarante 四十
45 forty-five quarante-cinq 四十五
50 fifty cinquante 五十
60 sixty soixante 六十
70 seventy soixante-dix 七十
75 seventy-five soixante-quinze 七十五
80 eighty quatre-vingts 八十
"""

_ROWS = [line.split() for line in _SMALL.strip().splitlines()]
ENGLISH_NUMBER = {int(row[0]): row[1] for row in _ROWS}
FRENCH_NUMBER = {int(row[0]): row[2] for row in _ROWS}
CHINESE_NUMBER = {int(row[0]): row[3] for row in _ROWS}
CHINESE_COUNT = {**CHINESE_NUMBER, 2: "两"}
"""Numbers before a measure word, where two is 两."""
