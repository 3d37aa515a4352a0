"""A label or a vector to text: the network."""

from __future__ import annotations

import pytest
import torch

from throughtime.search.beam import Beam
from throughtime.search.generate import generate
from throughtime.tasks.compose.config import ComposeConfig
from throughtime.tasks.compose.network import LabelCondition, VectorCondition, build_composer


def small(condition, **settings):
    torch.manual_seed(2)
    config = ComposeConfig(data="", hidden_size=7, **settings)
    return build_composer(config, condition, 9, bos_id=1).double().eval()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("make", [lambda: LabelCondition(3, 7), lambda: VectorCondition(2, 4)])
def test_step_by_step_is_the_whole_text_at_once(make, fed, cell):  # R8: a fixed-size input to a sequence
    model = small(make(), fed=fed, cell=cell, num_layers=2, tied=fed)
    given = [[2], [0]] if isinstance(model.encoder, LabelCondition) else [[0.5, -1.0], [2.0, 3.0]]
    source = model.conditions(given)
    source = source.double() if source.is_floating_point() else source
    inputs = torch.tensor([[1, 1], [4, 5], [6, 8]])
    whole = model.log_probs(source, torch.ones(2), inputs)
    state, memory = model.encode(source, torch.ones(2))
    for time, last in enumerate(inputs):
        step = model.step(last, state, memory)
        assert torch.allclose(step.log_probs, whole[time], atol=1e-9)
        state = step.state
    assert not torch.allclose(whole[0, 0], whole[0, 1])


def test_conditions_reach_the_search():
    model = small(LabelCondition(3, 7))
    together = generate(model, [[0], [2]], Beam(2, 3, max_length=6), max_new_tokens=6)
    for label, found in zip((0, 2), together, strict=True):
        [alone] = generate(model, [[label]], Beam(2, 3, max_length=6), max_new_tokens=6)
        assert alone[0].tokens == found[0].tokens
        assert alone[0].log_prob == pytest.approx(found[0].log_prob)


def test_vectors_are_standardised():
    condition = VectorCondition(3, 4)
    vectors = torch.tensor([[1000.0, 5.0, 0.0], [3000.0, 5.0, 1.0]])
    condition.standardise(vectors)
    assert condition.mean.tolist() == [2000.0, 5.0, 0.5]
    assert condition.scale.tolist() == [1000.0, 1.0, 0.5]
    small_scale = VectorCondition(3, 4)
    small_scale.load_state_dict({**condition.state_dict(), "mean": torch.zeros(3), "scale": torch.ones(3)})
    standard = torch.tensor([[-1.0, 0.0, -1.0], [1.0, 0.0, 1.0]])
    lengths = torch.ones(2)
    assert torch.allclose(condition(vectors[None], lengths).final, small_scale(standard[None], lengths).final)
