"""Tagged words in the ten columns of CoNLL-U, as Universal Dependencies gives them."""

from __future__ import annotations

import re
from typing import ClassVar

from throughtime.data.readers.columns import ColumnTags

FORM, UPOS = 1, 3
NO_WORD = re.compile(r"\d+[-.]\d+", re.ASCII)


class ConlluTags(ColumnTags):
    """Words with their universal parts of speech, or with another column `tag`, such as 4 for XPOS.

    Comments are passed over, and so are rows that are no words of the sentence: ranges as `1-2`, whose words
    follow one by one, and empty nodes as `1.1`.
    """

    name: ClassVar[str] = "conllu"

    def __init__(self, tag: int = UPOS) -> None:
        super().__init__(word=FORM, tag=tag, separator="\t", comments=True)

    def _has_word(self, cells: list[str]) -> bool:
        return not NO_WORD.fullmatch(cells[0])
