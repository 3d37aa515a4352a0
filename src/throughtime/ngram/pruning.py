"""Smaller models: rare n-grams are left out, and their probability goes to the shorter context.

As in KenLM's lmplz, probabilities are estimated from all n-grams first. What is left out after a context c is
added to its weight back(c), so that the probabilities still sum to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from throughtime.errors import InputError
from throughtime.ngram.counts import MISSING, Floats, Links, NgramCounts, NgramLevel, no_counts, read_parts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Fixed, Interpolation, KneserNey, Laplace, Smoothing


def check_pruning(thresholds: Sequence[int], smoothing: Smoothing, order: int) -> None:
    """Refuse thresholds that would leave out a word, or the context of an n-gram that stays.

    >>> from throughtime.ngram.smoothing import build_smoothing
    >>> check_pruning([0, 1, 0], build_smoothing("kneser-ney"), order=5)
    Traceback (most recent call last):
    throughtime.errors.InputError: prune: is [0, 1, 0], but no number may be smaller than the one before it
    """
    numbers = list(thresholds)
    if numbers != sorted(numbers):
        raise InputError("prune", f"is {numbers}, but no number may be smaller than the one before it")
    if numbers and numbers[0] != 0:
        raise InputError("prune", f"is {numbers}, expected 0 first, as single words are never left out")
    if len(numbers) > order:
        raise InputError("prune", f"has {len(numbers)} numbers, but the order is {order}; leave out some")
    if numbers and isinstance(smoothing, Laplace) and smoothing.shortened_to_nothing and order > 2:
        raise _refuse(smoothing)  # those of other packages are checked when they are fitted


def prune(counts: NgramCounts, smoothing: Smoothing, thresholds: Sequence[int]) -> NgramModel:
    """Leave out n-grams that occurred at most as often as the threshold of their length.

    The last threshold is also that of all longer n-grams; 0 leaves nothing out. The model holds probabilities
    of 32 bits instead of counts, except for single words.
    """
    check_pruning(thresholds, smoothing, counts.order)
    levels, kept_shares, back = [counts.levels[0]], [np.empty(0)], [np.empty(0)]
    base, numbers = np.empty(0), np.arange(counts.vocabulary_size)
    for n, (share, weight) in enumerate(_estimate(smoothing, counts), start=1):
        if n == 1:
            base = share
            continue
        threshold = thresholds[min(n, len(thresholds)) - 1]
        level, shares, following = _select(counts.levels[n - 1], threshold, share, weight, numbers)
        levels.append(level)
        kept_shares.append(shares)
        back.append(np.nan_to_num(weight[numbers != MISSING], nan=1.0).astype(np.float32))
        numbers = following
        del share, weight, following  # a level is as large as all that is kept
    kept = NgramCounts(tuple(levels), counts.vocabulary_size, counts.never)
    mixed = NgramModel(kept, Fixed(Interpolation(base, tuple(kept_shares), tuple(back), False)))
    for _ in mixed.backoff_form(in_place=True):
        pass
    return NgramModel(kept, Fixed(mixed.interpolation._replace(replaces=True)))


def _select(
    level: NgramLevel, threshold: int, share: Floats, weight: Floats, numbers: Links
) -> tuple[NgramLevel, Any, Links]:
    """The n-grams of one length that stay, what they have of their own, and the new number of each node.

    `numbers` are those of their contexts, MISSING for one that is left out; what goes is added to `weight`.
    """
    size, kept = level.vocabulary_size, sum(int((part > threshold).sum()) for part in read_parts(level.count))
    keys, kept_shares = np.empty(kept, np.int64), np.empty(kept, np.float32)
    following: Links = np.full(len(level.keys), MISSING, np.int32 if kept < 2**31 else np.int64)
    done = 0
    for part, context in level.slices():
        stays = np.asarray(level.count[part]) > threshold
        lost = np.bincount((context - context[0])[~stays], share[part][~stays])
        weight[context[0] : context[0] + len(lost)] += lost
        new = slice(done, done + int(stays.sum()))
        keys[new] = numbers[context[stays]].astype(np.int64) * size + level.keys[part][stays] % size
        kept_shares[new] = share[part][stays]
        following[part][stays] = np.arange(new.start, new.stop)
        done = new.stop
    return NgramLevel(keys, no_counts(kept), size), kept_shares, following


def _estimate(smoothing: Smoothing, counts: NgramCounts) -> Iterable[tuple[Floats, Floats]]:
    """Base and own of each length with the weights of their contexts; our smoothings give one at a time."""
    if isinstance(smoothing, Laplace | KneserNey) and type(smoothing).fit in (Laplace.fit, KneserNey.fit):
        return smoothing.estimate(counts)
    fitted = smoothing.fit(counts)
    if (fitted.shortened_to_nothing and counts.order > 2) or (fitted.replaces and counts.order > 1):
        raise _refuse(smoothing)
    # Weights are changed, and those of another package may be its own.
    return zip((fitted.base, *fitted.own[1:]), map(np.array, fitted.back), strict=True)


def _refuse(smoothing: Smoothing) -> InputError:
    return InputError(
        "prune",
        f"needs a smoothing that mixes each context with the next shorter one, and {smoothing.name} does "
        "not; leave it out or use kneser-ney",
    )
