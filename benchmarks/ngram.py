"""Counting and scoring PTB at order 3 beside nltk.lm, in one run over the same sentences.

PTB where THROUGHTIME_DATA holds it, else the embedded English. Both sides start from lists of words, build
their vocabulary, count n-grams of length 1 to 3, and take ln P of every test token by relative frequency; the
scores are compared, so that both are known to do the same. nltk's own Kneser-Ney looks at every n-gram for
every token it scores, so it gets a few tokens only and its time is given per token. `benchmarks.kenlm`
compares with KenLM.
"""

from __future__ import annotations

import math
import os
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import KneserNey, RelativeFrequency

ORDER = 3
KNESER_NEY_TOKENS = 20


def run() -> dict[str, Any]:
    train, test, data = sentences()
    ours, theirs = throughtime_side(train, test), nltk_side(train, test)
    pairs = list(zip(ours.pop("ln_p"), theirs.pop("ln_p"), strict=True))
    # Where nltk has never seen the context it says -inf; ours falls to the shorter context.
    agreement = max(abs(a - b) for a, b in pairs if b != -math.inf)
    ratio = {
        f"{name}_ratio": round(theirs[name] / ours[name], 1)
        for name in (
            "count_and_score_seconds",
            "count_seconds",
            "score_seconds",
            "kneser_ney_microseconds_a_token",
        )
    }
    result = {
        "data": data,
        "order": ORDER,
        "test_tokens": len(pairs),
        "throughtime": {name: round(value, 3) for name, value in ours.items()},
        "nltk": {name: round(value, 3) for name, value in theirs.items()},
        **ratio,
        "largest_difference_in_ln_p": agreement,
    }
    for name, value in result.items():
        print(f"{name:36} {value}", file=sys.stderr)
    return result


def sentences() -> tuple[list[list[str]], list[list[str]], str]:
    """Training and test sentences, as words."""
    folder = os.environ.get("THROUGHTIME_DATA")
    if folder and (ptb := Path(folder) / "ptb").is_dir():
        train, test = (
            [line.split() for line in (ptb / f"ptb.{split}.txt").read_text().splitlines()]
            for split in ("train", "test")
        )
        return train, test, "ptb"
    from throughtime.data.datasets import open_dataset

    data = open_dataset("embedded/english")
    train, test = ([text.split() for text in data.texts(split)] for split in ("train", "test"))
    return train, test, data.name


def throughtime_side(train: list[list[str]], test: list[list[str]]) -> dict[str, Any]:
    began = time.perf_counter()
    types = dict.fromkeys(chain.from_iterable(train))
    ids = {word: number for number, word in enumerate(types, start=2)}
    numbered = [[0, *map(ids.__getitem__, line), 1] for line in train]
    unseen = len(ids) + 2
    counts = NgramCounts.of(numbered, ORDER, unseen + 1, never=[0])
    counted = time.perf_counter()
    wanted = [[0, *(ids.get(word, unseen) for word in line), 1] for line in test]
    scored = NgramModel(counts, RelativeFrequency()).log_probs(wanted)
    done = time.perf_counter()
    NgramModel(counts, KneserNey()).log_probs(wanted)
    smoothed = time.perf_counter() - done
    tokens = sum(len(line) - 1 for line in wanted)
    return {
        "count_and_score_seconds": done - began,
        "count_seconds": counted - began,
        "score_seconds": done - counted,
        "kneser_ney_microseconds_a_token": 1e6 * smoothed / tokens,
        "ln_p": [float(p) for line in scored for p in line[1:]],
    }


def nltk_side(train: list[list[str]], test: list[list[str]]) -> dict[str, Any]:
    from nltk.lm import MLE, KneserNeyInterpolated
    from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline

    began = time.perf_counter()
    model = MLE(ORDER)
    model.fit(*padded_everygram_pipeline(ORDER, train))
    counted = time.perf_counter()
    ln_p, contexts = [], []
    for line in test:
        words = list(pad_both_ends(line, n=ORDER))[:-1]
        for i in range(ORDER - 1, len(words)):
            contexts.append((words[i], words[i - ORDER + 1 : i]))
            ln_p.append(model.logscore(*contexts[-1]) * math.log(2))
    done = time.perf_counter()
    smoothed = KneserNeyInterpolated(ORDER, counter=model.counts, vocabulary=model.vocab)
    for word, context in contexts[:KNESER_NEY_TOKENS]:
        smoothed.logscore(word, context)
    return {
        "count_and_score_seconds": done - began,
        "count_seconds": counted - began,
        "score_seconds": done - counted,
        "kneser_ney_microseconds_a_token": 1e6 * (time.perf_counter() - done) / KNESER_NEY_TOKENS,
        "ln_p": ln_p,
    }


if __name__ == "__main__":
    run()
