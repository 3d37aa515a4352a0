"""Several models as one: the laws of a mean, and every search over it."""

from __future__ import annotations

import math

import pytest
import torch
from tests.refusals import refuses
from tests.search.tables import exhaustive

from throughtime.search.beam import Beam
from throughtime.search.ensemble import Ensemble
from throughtime.search.exact import exact
from throughtime.search.generate import Memory, Step, generate
from throughtime.search.sampling import Greedy

VOCABULARY, END = 5, 0


class Recurrent:
    """h = tanh(W h + E[last] + m), with as many further states and kept tensors as `ages`."""

    def __init__(self, seed, size, vocabulary=VOCABULARY, ages=1, first=1):
        source = torch.Generator().manual_seed(seed)

        def draw(*shape):
            return torch.randn(*shape, generator=source, dtype=torch.float64)

        self.embedding, self.inner = draw(vocabulary, size), draw(size, size) / size**0.5
        self.outer, self.sources, self.ages, self.first = (
            2 * draw(size, vocabulary),
            draw(9, size),
            ages,
            first,
        )

    def start(self, prompts):
        count = len(prompts)
        h = torch.zeros(count, len(self.inner), dtype=torch.float64)
        ages = [torch.zeros(count, dtype=torch.float64) for _ in range(self.ages)]
        kept = (self.sources[torch.tensor([prompt[0] for prompt in prompts])],) * (self.ages + 1)
        return torch.full((count,), self.first), (h, *ages), Memory(kept, torch.arange(count))

    def step(self, last, state, memory):
        h, *ages = state
        h = torch.tanh(h @ self.inner + self.embedding[last] + memory.kept[-1][memory.owner])
        for age in ages:
            h = h * torch.cos(age)[:, None]  # so that a state in the wrong place is seen
        return Step(
            (h @ self.outer).log_softmax(dim=1),
            (h, *(age + 1 for age in ages)),
            {"attention": h[:, :2].softmax(dim=1), "row": last},
        )


class Mean:
    """The product of two models' states, written out by hand: P = w P_1 + (1 - w) P_2."""

    def __init__(self, one, two, weight):
        self.one, self.two, self.weight = one, two, weight

    def start(self, prompts):
        last, a, memory = self.one.start(prompts)
        _, b, other = self.two.start(prompts)
        self.cut, self.kept = len(a), len(memory.kept)
        return last, a + b, Memory(memory.kept + other.kept, memory.owner)

    def step(self, last, state, memory):
        one = self.one.step(last, state[: self.cut], Memory(memory.kept[: self.kept], memory.owner, None))
        two = self.two.step(last, state[self.cut :], Memory(memory.kept[self.kept :], memory.owner, None))
        p = self.weight * one.log_probs.exp() + (1 - self.weight) * two.log_probs.exp()
        return Step(p.log(), one.state + two.state)


PROMPTS = [[i] for i in range(6)]


def told(results):
    return [[one.tokens for one in found] for found in results]


def scores(results):
    return [one.score for found in results for one in found]


def first_step(model):
    last, state, memory = model.start(PROMPTS)
    return model.step(last, state, memory)


def beam():
    return Beam(END, 3, num_return_sequences=3, max_length=7)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_of_one_or_of_equal_models_it_is_the_model(copies):
    model = Recurrent(0, 4, ages=2)
    several = Ensemble([model] * copies)
    torch.testing.assert_close(first_step(several).log_probs, first_step(model).log_probs, rtol=1e-12, atol=0)
    found, expected = (generate(x, PROMPTS, beam(), max_new_tokens=7) for x in (several, model))
    assert told(found) == told(expected)
    assert scores(found) == pytest.approx(scores(expected), rel=1e-9)


@pytest.mark.parametrize("weights", [None, [3.0, 1.0]])
def test_every_search_over_it_is_the_search_over_the_mean(weights):
    one, two = Recurrent(4, 3), Recurrent(5, 6, ages=2)
    several, mean = Ensemble([one, two], weights), Mean(one, two, 0.5 if weights is None else 0.75)
    for search in (
        lambda model: generate(model, PROMPTS, Greedy(END), max_new_tokens=7),
        lambda model: generate(model, PROMPTS, beam(), max_new_tokens=7),
        lambda model: exhaustive(model, PROMPTS, END, 4, num_return_sequences=4),
        lambda model: [[one.best] for one in exact(model, PROMPTS, END, max_new_tokens=6)],
    ):
        found, expected = search(several), search(mean)
        assert told(found) == told(expected)
        assert scores(found) == pytest.approx(scores(expected), rel=1e-9)
    # The test can fail: neither model alone says the same.
    alone = [told(generate(model, PROMPTS, beam(), max_new_tokens=7)) for model in (one, two)]
    assert told(generate(several, PROMPTS, beam(), max_new_tokens=7)) not in alone


def test_what_one_model_rules_out_another_may_say():
    class Never(Recurrent):
        def step(self, last, state, memory):
            log_probs, state, _ = super().step(last, state, memory)
            return Step(log_probs.index_fill(1, torch.tensor([2, 3]), -math.inf), state)

    never, always = Never(6, 3), Recurrent(7, 3)
    log_probs = first_step(Ensemble([never, always])).log_probs
    torch.testing.assert_close(log_probs[:, 2], first_step(always).log_probs[:, 2] - math.log(2))
    assert (first_step(Ensemble([never, never])).log_probs[:, 3] == -math.inf).all()


def test_attention_is_the_mean_and_other_extras_the_first_s():
    one, two = Recurrent(8, 3), Recurrent(9, 4)
    extras = first_step(Ensemble([one, two], [1.0, 3.0])).extras
    expected = 0.25 * first_step(one).extras["attention"] + 0.75 * first_step(two).extras["attention"]
    torch.testing.assert_close(extras["attention"], expected)
    assert extras["row"].tolist() == [1] * len(PROMPTS)


@pytest.mark.parametrize(
    ("models", "weights", "facts"),
    [
        ([], None, ("ensemble",)),
        ([1, 2], [1.0], ("ensemble", "1", "2")),
        ([1, 2], [1.0, 0.0], ("ensemble", "0")),
        ([1], [math.nan], ("ensemble", "0")),
    ],
)
def test_bad_ensembles_are_refused(models, weights, facts):
    with refuses(*facts):
        Ensemble(models, weights)


def test_models_of_different_vocabularies_are_refused():
    with refuses("ensemble", "5", "6"):
        first_step(Ensemble([Recurrent(0, 3), Recurrent(1, 3, vocabulary=6)]))
    with refuses("ensemble"):
        first_step(Ensemble([Recurrent(0, 3), Recurrent(1, 3, first=2)]))
