"""Texts longer than a model reads at once: split into parts, translated, and joined again. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from throughtime.results import Alignment, Translation
from throughtime.text.texts import check_texts, join_texts, split_text


def translate_in_parts(
    texts: str | Sequence[str],
    max_tokens: int,
    count_tokens: Callable[[str], int],
    translate: Callable[[list[str]], list[list[Translation]]],
) -> list[Translation]:
    """Translate all parts of all texts together; one answer per text, with its alternatives inside.

    Nothing but spaces gives an empty translation.
    """
    stripped = [text.strip() for text in check_texts([texts] if isinstance(texts, str) else texts)]
    split = [split_text(text, max_tokens, count_tokens) if text else [] for text in stripped]
    rest = iter(translate([part for own in split for part in own]))
    return [join_parts([next(rest) for _ in own]) for own in split]


def join_parts(parts: Sequence[Sequence[Translation]]) -> Translation:
    """The best translations of all parts joined; the second best ones are its first alternative, and so on.

    >>> un, deux = (Translation(text, -1.0, -2.0, True) for text in ("Un.", "Deux."))
    >>> join_parts([[un], [deux]])
    Translation(text='Un. Deux.', score=-2.0, log_prob=-4.0, ended=True, alignment=None, alternatives=())
    """
    best, *others = [
        _join([own[min(rank, len(own) - 1)] for own in parts])
        for rank in range(max((len(own) for own in parts), default=1))
    ]
    return Translation(best.text, best.score, best.log_prob, best.ended, best.alignment, tuple(others))


def _join(parts: Sequence[Translation]) -> Translation:
    alignments = [one.alignment for one in parts if one.alignment is not None]
    return Translation(
        join_texts([one.text for one in parts]),
        float(sum(one.score for one in parts)),
        float(sum(one.log_prob for one in parts)),
        all(one.ended for one in parts),
        join_alignments(alignments) if parts and len(alignments) == len(parts) else None,
    )


def join_alignments(parts: Sequence[Alignment]) -> Alignment:
    """The alignment of a text that was translated in parts.

    >>> one = Alignment(("a",), ("b",), ((1.0,),))
    >>> join_alignments([one, one]).weights
    ((1.0, 0.0), (0.0, 1.0))
    """
    source = tuple(word for part in parts for word in part.source)
    target = tuple(word for part in parts for word in part.target)
    rows: list[tuple[float, ...]] = []
    before = 0
    for part in parts:
        after = len(source) - before - len(part.source)
        rows += [(0.0,) * before + row + (0.0,) * after for row in part.weights]
        before += len(part.source)
    return Alignment(source, target, tuple(rows))
