"""The tree of a search: R99's table once more, node by node."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from tests.search.tables import Contexts, Pairs

from throughtime.search.beam import Beam
from throughtime.search.beam_variants import DiverseBeam, StochasticBeam
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy
from throughtime.search.trace import Trace

A, B, C, END = range(4)
TABLE = {
    (): [0.5, 0.25, 0.15, 0.1],
    (A,): [0.1, 0.4, 0.3, 0.2],
    (A, B): [0.2, 0.2, 0.4, 0.2],
    (A, B, C): [0.0, 0.2, 0.2, 0.6],
    (A, C): [0.1, 0.6, 0.2, 0.1],
    (A, C, B): [0.1, 0.2, 0.1, 0.6],
}


def way(trace, node):
    tokens = []
    while node is not None:
        tokens.append(node.token)
        node = None if node.parent is None else trace.nodes[node.parent]
    return tuple(tokens[::-1])


def test_the_tree_has_what_was_kept_cut_and_ended():
    trace = Trace(END, cut=2, length_penalty=0.75)
    [[found]] = generate(Contexts(4, TABLE), [[0]], Beam(END, 2), max_new_tokens=6, watch=trace)
    steps = [
        [(way(trace, node), node.status) for node in trace.nodes if node.step == step]
        for step in (1, 2, 3, 4)
    ]
    assert steps[0] == [((A,), "kept"), ((B,), "kept"), ((C,), "cut"), ((END,), "cut")]
    assert steps[1][:3] == [((A, B), "kept"), ((A, C), "kept"), ((A, END), "cut")]
    assert steps[2][:2] == [((A, C, B), "kept"), ((A, B, C), "kept")]
    assert steps[3][0] == ((A, C, B, END), "ended")
    [ended] = [node for node in trace.nodes if node.status == "ended"]
    assert (ended.score, ended.log_prob) == (found.score, found.log_prob)
    kept = trace.nodes[ended.parent]
    assert math.exp(kept.log_prob) == pytest.approx(0.09)
    assert kept.score == pytest.approx(math.log(0.09) / 3**0.75)
    assert json.loads(json.dumps(asdict(trace.nodes[0]))) == {
        "sentence": 0, "step": 1, "parent": None, "token": A, "log_prob": pytest.approx(math.log(0.5)),
        "score": pytest.approx(math.log(0.5)), "status": "kept",
    }  # fmt: skip


@pytest.mark.parametrize(
    "strategy",
    [
        Greedy(END),
        Beam(END, 3, num_return_sequences=3),
        Beam(END, 3, max_length=5),
        DiverseBeam(END, 4, groups=2),
        StochasticBeam(END, 3, seed=1),
    ],
)
def test_every_node_is_a_true_prefix_and_every_result_a_node(strategy):
    model, trace = Pairs(3, 5, 4), Trace(END)
    results = generate(model, [[0], [1], [2]], strategy, max_new_tokens=7, watch=trace)
    for node in trace.nodes:
        assert node.log_prob == pytest.approx(model.log_prob(node.sentence, way(trace, node)), abs=1e-9)
        if node.parent is not None:
            parent = trace.nodes[node.parent]
            assert (parent.status, parent.sentence, parent.step) == ("kept", node.sentence, node.step - 1)
    told = {(node.sentence, way(trace, node), node.status) for node in trace.nodes}
    for sentence, own in enumerate(results):
        for one in own:
            expected = ((*one.tokens, END), "ended") if one.ended else (one.tokens, "kept")
            assert (sentence, *expected) in told


def test_no_more_cut_ones_than_asked_for():
    trace = Trace(END, cut=1)
    generate(Pairs(2, 5, 4), [[0], [1]], Beam(END, 3), max_new_tokens=5, watch=trace)
    per_step = [(node.sentence, node.step) for node in trace.nodes if node.status == "cut"]
    assert len(set(per_step)) == len(per_step) > 0
