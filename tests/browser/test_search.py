"""Searches and draws in JavaScript find what those in Python find, on tables of random probabilities."""

from __future__ import annotations

import numpy as np
import torch
from tests.browser.answers import differences

from throughtime.runtime.draws import uniform, uniform_table, whole_seed
from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam
from throughtime.search.constraints import after, forbidden_words, forced_prefix, no_token
from throughtime.search.generate import Memory, Step, generate
from throughtime.serve.completion_request import CompletionRequest
from throughtime.serve.forecasting import ForecastRequest
from throughtime.serve.insight import AttentionRequest, BeamRequest, GatesRequest, HistoryRequest, NextRequest
from throughtime.serve.prediction import ComposeRequest, build_request
from throughtime.serve.translation import TranslateRequest
from throughtime.tasks import TASKS

BEGIN, END, UNKNOWN, SIZE = 0, 1, 2, 40

SEARCH = """\
import { barTokens, searchBeam } from "page/engine/beam.js";
const found = [];
for (const { table, options, bars } of data) {
  const step = (rows) => {
    return { logProbs: Float32Array.from(rows.flatMap((row) => table[row.token])), size: 40, ids: null };
  };
  const bar = barTokens({ ...bars, end: options.end });
  const results = await searchBeam(step, options, { bar, pause: async () => {} });
  const told = ({ tokens, logProb, score, ended }) => ({ tokens, log_prob: logProb, score, ended });
  found.push(results.map(told));
}
answer(found);
"""


class TableModel:
    """The next token depends on the last one alone."""

    def __init__(self, table):
        self.table = table

    def start(self, prompts):
        return torch.full((len(prompts),), BEGIN), (), Memory.empty(len(prompts))

    def step(self, last, state, memory):
        return Step(self.table[last], (), {})


def search_table(table, options, bars):
    """What Python finds with the options of the page's search."""
    given = {"length_penalty": options["alpha"], "max_length": options["most"]}
    groups = options.get("groups", 1)
    if groups > 1:
        strategy = DiverseBeam(
            END,
            options["width"] * groups,
            groups=groups,
            diversity_penalty=options["penalty"],
            per_group=options["count"],
            num_return_sequences=options["returned"],
            **given,
        )
    else:
        strategy = Beam(END, options["width"], num_return_sequences=options["count"], **given)
    constraints = [no_token(*bars["barred"])]
    if bars["forbidden"]:
        constraints.append(after(len(bars["prefix"]), forbidden_words(bars["forbidden"])))
    if bars["prefix"]:
        constraints.append(forced_prefix([bars["prefix"]]))
    (found,) = generate(
        TableModel(table), [[BEGIN]], strategy, max_new_tokens=options["most"], constraints=constraints
    )
    return [
        {"tokens": list(one.tokens), "log_prob": one.log_prob, "score": one.score, "ended": one.ended}
        for one in found
    ]


def draw_case(seed):
    """A table and options of a search."""
    draws = np.random.default_rng(seed)
    logits = draws.normal(0, draws.choice([0.5, 2, 4]), (SIZE, SIZE)).astype(np.float32)
    logits[:, END] += draws.choice([-4, 0, 2])
    table = torch.from_numpy(logits).log_softmax(1)
    width = int(draws.choice([1, 2, 4, 7]))
    options = {"begin": BEGIN, "end": END, "width": width, "most": int(draws.choice([1, 5, 12, 48]))}
    options |= {"alpha": float(draws.choice([0, 0.6, 1])), "count": int(draws.integers(1, width + 1))}
    if draws.random() < 0.4:
        options |= {"groups": int(draws.choice([2, 3])), "penalty": float(draws.choice([0, 0.5, 2]))}
        most = options["count"] * options["groups"]
        options["returned"] = int(draws.integers(1, most + 1))
    words = [draws.integers(3, 12, draws.integers(1, 3)).tolist() for _ in range(draws.integers(0, 9))]
    prefix = draws.integers(3, SIZE, min(options["most"] - 1, draws.integers(0, 4))).tolist()
    return table, options, {"barred": [UNKNOWN], "prefix": prefix, "forbidden": words}


def test_searches_find_the_same(node, inputs):
    cases = [draw_case(seed) for seed in range(4 * inputs)]
    data = [{"table": table.tolist(), "options": options, "bars": bars} for table, options, bars in cases]
    expected = [search_table(*case) for case in cases]
    assert sum(len(own) > 1 for own in expected) > inputs
    assert differences(node(SEARCH, data), expected, 1e-6) == []


def test_many_groups_find_the_same_few_words(node):
    """There are few results of two or three words, so groups must share the ways that lead to them."""
    cases = []
    for seed in range(30):
        draws = np.random.default_rng(seed)
        known = 2 + seed % 3  # the end, the beginning and others
        logits = draws.normal(0, 3, (SIZE, SIZE)).astype(np.float32)
        table = torch.from_numpy(logits).log_softmax(1)
        groups = int(draws.integers(3, 9))
        options = {"begin": BEGIN, "end": END, "width": 1, "most": int(draws.integers(2, 6)), "alpha": 0.6}
        options |= {"count": 1, "groups": groups, "penalty": float(draws.choice([0, 1])), "returned": groups}
        cases.append((table, options, {"barred": list(range(known, SIZE)), "prefix": [], "forbidden": []}))
    data = [{"table": table.tolist(), "options": options, "bars": bars} for table, options, bars in cases]
    expected = [search_table(*case) for case in cases]
    for found, (_, options, bars) in zip(expected, cases, strict=True):
        others, most = bars["barred"][0] - 1, options["most"]
        existing = sum(others**length for length in range(most + 1))
        assert len(found) == min(options["groups"], existing)
    assert differences(node(SEARCH, data), expected, 1e-6) == []


def test_a_row_without_tokens_ends(node):
    table = torch.zeros(SIZE, SIZE).log_softmax(1)
    options = {"begin": BEGIN, "end": END, "width": 2, "most": 5, "alpha": 1.0, "count": 1}
    bars = {"barred": [UNKNOWN], "prefix": [5], "forbidden": [[number] for number in range(SIZE)]}
    (found,) = node(SEARCH, [{"table": table.tolist(), "options": options, "bars": bars}])
    assert found == search_table(table, options, bars)
    assert found[0]["tokens"] == [5]


def test_draws_are_equal(node):
    seeds = [0, 7, 2**32 - 1, 2**32, 2**53 - 1, 2**64 - 1, 12345678901234567890, -1, -(2**33) - 7]
    places = [(step, sentence, choice) for step in (0, 1, 900) for sentence in (0, 3) for choice in (0, 15)]
    script = """
    import { uniform, uniformTable } from "page/engine/draws.js";
    const { seeds, places, numbers } = data;
    answer({
      points: seeds.map((seed) => places.map((place) => uniform(seed, ...place))),
      numbers: numbers.map((seed) => uniform(seed, 3)),
      table: uniformTable("123456789012345678", 3, [0, 5, 9], [0, 1, 2], 7),
    });"""
    small = [seed for seed in seeds if abs(seed) < 2**53]
    found = node(script, {"seeds": [str(seed) for seed in seeds], "places": places, "numbers": small})
    wide = [whole_seed(seed) for seed in seeds]
    assert found["points"] == [[float(uniform(seed, *place)) for place in places] for seed in wide]
    assert found["numbers"] == [float(uniform(whole_seed(seed), 3)) for seed in small]
    table = uniform_table(123456789012345678, 3, np.array([0, 5, 9]), np.array([0, 1, 2]), 7)
    assert found["table"] == table.tolist()


def test_the_fields_of_requests_are_those_of_the_server(node):
    types = {
        "translate": TranslateRequest,
        "compose": ComposeRequest,
        "v1/completions": CompletionRequest,
        **{name: build_request(TASKS[name]) for name in ("tag", "classify", "fill")},
        "forecast": ForecastRequest,
        "inspect/attention": AttentionRequest,
        "inspect/beam": BeamRequest,
        "inspect/gates": GatesRequest,
        "inspect/next": NextRequest,
        "inspect/history": HistoryRequest,
    }
    found = node('import { FIELDS } from "page/engine/fields.js"; answer(FIELDS);', None)
    assert {path: {*names.split()} for path, names in found.items()} == {
        path: {*kind.model_fields} for path, kind in types.items()
    }
