"""The shortlist of a translator: how it is counted from pairs of sentences, by IBM model 1.

The attention of a trained model would answer this too, but many models have none, it often points to a
neighbour of the right word, and it needs a pass of the model over all training data. Model 1 takes seconds.

Peter F. Brown et al., "The mathematics of statistical machine translation" (1993).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.runtime.shortlist import MAX_CANDIDATES, Shortlist

if TYPE_CHECKING:
    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.text.parallel import Codecs

ROUNDS = 5
FREQUENT = 128
"""Number of most frequent target tokens that every sentence may use."""
MAX_LINKS = 16_000_000
"""Pairs of a source and a target token of the same sentence that are counted, in 40 bytes each."""


class Lexicon(NamedTuple):
    """P(target | source) of all pairs of tokens that occur together, by source token, best first."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    probability: NDArray[np.float64]


def build_shortlist(codecs: Codecs, source: RaggedIds, target: RaggedIds) -> Shortlist:
    """Build the shortlist of a translator from the ids of its training pairs, without end marks."""
    sizes = len(codecs.source.vocabulary), len(codecs.target.vocabulary)
    pairs = choose_pairs(source, target, MAX_LINKS)
    lexicon = estimate_lexicon(source.select(pairs), target.select(pairs), *sizes)
    starts, ids = _rank_candidates(lexicon, _find_same_spelling(codecs), sizes[0])
    frequent = np.argsort(-np.bincount(target.flat, minlength=sizes[1]), kind="stable")[:FREQUENT]
    vocabulary = codecs.target.vocabulary
    marks = [codecs.begin_id, codecs.end_id, vocabulary.unk_id, vocabulary.pad_id]
    always = np.unique([*frequent.tolist(), *(mark for mark in marks if mark is not None)])
    return Shortlist(starts, ids, always.astype(np.int64))


def choose_pairs(source: RaggedIds, target: RaggedIds, most_links: int) -> NDArray[np.int64]:
    """The pairs to count: all of them, or those with the rarest tokens, so that no token is left out.

    >>> from throughtime.data.batching.buckets import RaggedIds
    >>> rows = RaggedIds.of([[1, 2], [1, 2], [1, 3]])
    >>> choose_pairs(rows, rows, 12).tolist()
    [0, 2]
    """
    links = (source.lengths + 1) * target.lengths
    pairs = np.flatnonzero((source.lengths > 0) & (target.lengths > 0))
    if links[pairs].sum() <= most_links:
        return pairs
    # A pair is as rare as its rarest token: the number of times that this one occurs before.
    rarity = np.minimum(*(_count_earlier(side, pairs) for side in (source, target)))
    order = pairs[np.argsort(rarity, kind="stable")]
    return np.sort(order[links[order].cumsum() <= most_links])


def _count_earlier(rows: RaggedIds, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often the token of each row that is rarest so far occurs before it."""
    order = np.argsort(rows.flat, kind="stable")
    counts = np.bincount(rows.flat)
    first = np.cumsum(counts) - counts  # the place of each token in this order
    earlier = np.empty(len(order), dtype=np.int64)
    earlier[order] = np.arange(len(order))
    earlier -= first[rows.flat]
    found: NDArray[np.int64] = np.minimum.reduceat(earlier, rows.offsets[chosen])
    return found


def estimate_lexicon(source: RaggedIds, target: RaggedIds, source_size: int, target_size: int) -> Lexicon:
    """Estimate P(target | source) by expectation maximisation; each source also has an empty token.

    >>> from throughtime.data.batching.buckets import RaggedIds
    >>> both = RaggedIds.of([[0, 1], [0]])
    >>> lexicon = estimate_lexicon(both, both, 2, 2)
    >>> [int(token) for token in lexicon.target[np.searchsorted(lexicon.source, [0, 1])]]
    [0, 1]
    """
    if not len(target.flat):
        nothing = np.zeros(0, dtype=np.int64)
        return Lexicon(nothing, nothing, np.zeros(0))
    # One link for each target token and each token of its source, the empty one included.
    whole = source.append(source_size)
    sentence = np.repeat(np.arange(len(target)), target.lengths)
    each = whole.lengths[sentence]
    first = np.concatenate([[0], each.cumsum()[:-1]])
    within = np.arange(each.sum()) - np.repeat(first, each)
    keys = whole.flat[np.repeat(whole.offsets[sentence], each) + within] * np.int64(target_size)
    keys += np.repeat(target.flat, each)
    kinds, kind = np.unique(keys, return_inverse=True)
    del keys, within
    read, written = np.divmod(kinds, target_size)
    probability = np.ones(len(kinds))
    for _ in range(ROUNDS):
        share = probability[kind]
        share /= np.repeat(np.add.reduceat(share, first), each)
        counts = np.bincount(kind, share, len(kinds))
        probability = counts / np.bincount(read, counts)[read]
    order = np.lexsort((-probability, read))
    return Lexicon(read[order], written[order], probability[order])


def _rank_candidates(
    lexicon: Lexicon, same: NDArray[np.int64], source_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The candidates of each source token: itself if it has a twin (a name, a number), then the likeliest."""
    bounds = np.searchsorted(lexicon.source, np.arange(source_size + 1))
    lists = []
    for token, (first, last) in enumerate(pairwise(bounds)):
        likely = lexicon.target[first : min(last, first + MAX_CANDIDATES)]
        if (twin := same[token]) >= 0:
            likely = np.concatenate([[twin], likely[likely != twin]])[:MAX_CANDIDATES]
        lists.append(likely)
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return starts, np.concatenate([np.zeros(0, dtype=np.int32), *lists]).astype(np.int32)


def _find_same_spelling(codecs: Codecs) -> NDArray[np.int64]:
    """For each source token, the target token that is spelled alike; -1 where there is none."""
    places = {token: number for number, token in enumerate(codecs.target.vocabulary)}
    return np.array([places.get(token, -1) for token in codecs.source.vocabulary], dtype=np.int64)
