"""A model over the candidates of each sentence: laws of search, with and without numbers of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from throughtime.models.search_models import (
    SENTENCES_TOGETHER,
    Bf16Model,
    ShortlistModel,
    output_device,
    restrict_model,
    to_vocabulary,
)
from throughtime.search.constraints import no_token
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import generate
from throughtime.search.strategies import STRATEGIES
from throughtime.tasks.translate.network import build

END, V, CAP = 2, 23, 6
COUNT = SENTENCES_TOGETHER + 5  # more than one group
PROMPTS = [[number % 11, 3, number % 7] for number in range(COUNT)]
SEARCHES = {
    "greedy": lambda: STRATEGIES["greedy"](END),
    "sampling": lambda: STRATEGIES["sampling"](END, num_return_sequences=2, seed=5),
    "beam": lambda: STRATEGIES["beam"](END, 3, num_return_sequences=3, max_length=CAP),
    "diverse": lambda: STRATEGIES["diverse"](END, 4, groups=2, per_group=2),
    "stochastic": lambda: STRATEGIES["stochastic"](END, 3, seed=5),
    "exact": lambda: STRATEGIES["exact"](END),
}
every_search = pytest.mark.parametrize("name", SEARCHES)


def drawn(structure="attention", seed=0):
    torch.manual_seed(seed)
    model = build(structure, 11, V, bos_id=1, embedding_size=4, hidden_size=6).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0.1, 0.7)
    return model.eval()


def lists(seed=3):
    """The special tokens 0 to 2 and some others for each sentence."""
    dice = np.random.default_rng(seed)
    return [
        np.array([0, 1, END, *sorted(3 + dice.permutation(V - 3)[: 4 + number % 5])])
        for number in range(COUNT)
    ]


def searched(model, name, prompts=PROMPTS):
    return generate(model, prompts, SEARCHES[name](), max_new_tokens=CAP, constraints=[no_token(0)])


def same(found, expected):
    for own, other in zip(found, expected, strict=True):
        assert [(one.tokens, one.ended) for one in own] == [(one.tokens, one.ended) for one in other]
        assert [one.log_prob for one in own] == pytest.approx([one.log_prob for one in other], abs=1e-9)
        assert [one.score for one in own] == pytest.approx([one.score for one in other], abs=1e-9)


@every_search
@pytest.mark.parametrize("renumber", [False, True])
def test_a_list_of_all_tokens_is_no_list(name, renumber):  # R114
    model = drawn()
    all_tokens = [np.arange(V)] * COUNT
    restricted = ShortlistModel(model, all_tokens, renumber=renumber)
    same(searched(restricted, name), searched(model, name))


@pytest.mark.parametrize("name", ["greedy", "sampling", "beam", "diverse", "exact"])
def test_own_numbers_find_the_same(name):  # stochastic search draws a number for each column
    model, candidates = drawn(), lists()
    plain = searched(ShortlistModel(model, candidates), name)
    renumbered = searched(ShortlistModel(model, candidates, renumber=True), name)
    same(to_vocabulary(renumbered, candidates), plain)
    for own, results in zip(candidates, plain, strict=True):
        assert all(set(one.tokens) <= set(own.tolist()) for one in results)


@pytest.mark.parametrize("structure", ["attention", "conditional", "main"])
def test_probabilities_are_those_of_the_candidates_alone(structure):
    model, candidates = drawn(structure), lists()
    few = ShortlistModel(model, candidates)
    whole, found = model.step(*model.start(PROMPTS)), few.step(*few.start(PROMPTS))
    for row, own in enumerate(candidates):
        expected = torch.full((V,), -torch.inf, dtype=torch.float64)
        expected[own] = whole.log_probs[row, own].log_softmax(0)
        torch.testing.assert_close(found.log_probs[row], expected, atol=1e-9, rtol=0)


def test_models_search_together():
    models, candidates = [drawn(seed=0), drawn(seed=1)], lists()
    together = Ensemble(models, [1.0, 3.0])
    same(
        searched(restrict_model(together, [np.arange(V)] * COUNT, renumber=True), "beam"),
        searched(together, "beam"),
    )
    few = searched(restrict_model(together, candidates, renumber=True), "beam")
    plain = searched(restrict_model(together, candidates, renumber=False), "beam")
    same(to_vocabulary(few, candidates), plain)
    assert output_device(together) == torch.device("cpu")


def test_in_bf16_it_is_the_rounded_model():
    model = drawn().float()
    whole, few = Bf16Model(model), ShortlistModel(Bf16Model(model), [np.arange(V)] * COUNT)
    expected, found = (one.step(*one.start(PROMPTS)).log_probs for one in (whole, few))
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=0)
    assert found.dtype == torch.float32


def test_a_model_of_another_kind_takes_no_list():
    class Other:
        def start(self, prompts):
            raise NotImplementedError

        def step(self, last, state, memory):
            raise NotImplementedError

    assert output_device(Other()) is None
    assert output_device(Ensemble([drawn(), Other()])) is None
