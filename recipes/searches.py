"""One translator, many searches: what each costs in the model's own eyes and in BLEU's.

All are judged by the same sentences: BLEU, the mean log-probability that the model gives to what was found,
and how often it is less than that of the most likely sentence, which exact search knows.
"""

from __future__ import annotations

import time
from typing import Any

from throughtime.config import Config, build_config
from throughtime.data.datasets import open_dataset
from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam
from throughtime.search.candidates import prune_by_hypothesis
from throughtime.search.exhaustive import search_errors
from throughtime.search.generate import Finished, Strategy
from throughtime.search.sampling import Greedy
from throughtime.tasks.base import load
from throughtime.tasks.translate.evaluation import SentencePairs, TranslationScorer, find_most_likely
from throughtime.tasks.translate.translation import SentenceTranslator
from throughtime.version import __version__

WIDTH, GROUPS = 5, 3
COLUMNS = ["search", "BLEU", "log P of a sentence", "less likely than the best", "undecided", "seconds"]


class Searches(Config):
    """A trained translator, and the sentences that it is asked."""

    run: str
    data: str
    split: str = "test"
    tokenize: str | None = None
    limit: float = 0.1
    budget: int = 20_000
    sentences: int | None = None


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """A line for each search; the value is the share of sentences in which a beam of 5 misses the best."""
    asked = build_config(Searches, settings, "searches")
    translator = load(asked.run)
    dataset = open_dataset(asked.data, **translator.config.data_options)
    pairs = SentencePairs.of(dataset, asked.split)
    pairs = SentencePairs(*(side[: asked.sentences] for side in pairs))
    rows = table(translator, pairs, asked)
    beam = next(row for row in rows if row[0] == f"beam of {WIDTH}, alpha 0")
    words = [f"data:{asked.data}", f"split:{asked.split}", f"budget:{asked.budget}", f"version:{__version__}"]
    return {"value": beam[3], "table": {"columns": COLUMNS, "rows": rows}, "signature": "|".join(words)}


def table(translator: SentenceTranslator, pairs: SentencePairs, asked: Searches) -> list[list[Any]]:
    """The lines of all searches, with that of exact search last."""
    end = translator.codecs.end_id
    prompts = [translator.codecs.prompt(text) for text in pairs.sources]
    pruned = prune_by_hypothesis(asked.limit)
    strategies: dict[str, Strategy] = {
        "greedy": Greedy(end),
        f"beam of {WIDTH}, alpha 0.75": Beam(end, WIDTH, max_length=1),
        f"beam of {WIDTH}, alpha 0": Beam(end, WIDTH, length_penalty=0.0, max_length=1),
        f"diverse, {GROUPS} groups of 2": DiverseBeam(
            end, 2 * GROUPS, groups=GROUPS, diversity_penalty=0.5, max_length=1
        ),
        f"beam of {WIDTH} within {asked.limit:g} of the best": Beam(end, WIDTH, max_length=1, prune=pruned),
    }  # each search sets its own maximum length
    found, seconds = {}, {}
    for name, strategy in strategies.items():
        began = time.perf_counter()
        # <unk> may be said, as exact search has no rules to forbid it.
        found[name] = [one.results[0] for one in translator.run_search(prompts, strategy, allow_unknown=True)]
        seconds[name] = time.perf_counter() - began
    began = time.perf_counter()
    first = [max(own, key=lambda one: one.log_prob) for own in zip(*found.values(), strict=True)]
    known = find_most_likely(translator, prompts, first, asked.budget)
    seconds["exact"] = time.perf_counter() - began
    found["exact"] = [one.best for one in known]
    scorer = TranslationScorer(None, asked.tokenize)

    def line(name: str, results: list[Finished]) -> list[Any]:
        texts = [translator.codecs.target.decode(one.tokens) for one in results]
        bleu = scorer.score(texts, pairs.references).bleu.value
        missed = search_errors(results, known)
        log_prob = sum(one.log_prob for one in results) / len(results)
        share = missed.errors / max(missed.resolved, 1)
        return [name, round(bleu, 2), round(log_prob, 3), share, missed.unresolved, round(seconds[name], 1)]

    return [line(name, results) for name, results in found.items()]
