"""Presets as `build` makes them: what each decoder knows of its source and of its own words."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from throughtime.search.generate import Memory
from throughtime.tasks.translate.config import SWITCHES
from throughtime.tasks.translate.network import PRESETS, build

LENGTHS = torch.tensor([4, 2, 3])
WIDTH = 12


class Knows(NamedTuple):
    """What the outputs of a decoder depend on, and whether its state does on the encoder's outputs."""

    last_token: bool
    encoder_state: bool
    encoder_outputs: bool
    state_sees_outputs: bool


STRUCTURES = {
    "state-only": Knows(False, True, False, False),
    "seq2seq": Knows(True, True, False, False),
    "context-only": Knows(False, False, True, True),
    "context-and-input": Knows(True, False, True, True),
    "main": Knows(True, True, True, True),
    "attention": Knows(True, True, True, True),
    "attention-no-feeding": Knows(True, True, True, False),
    "conditional": Knows(True, True, True, True),
}
ATTENTIVE = ["attention", "attention-no-feeding", "conditional"]
OF_ONE_VECTOR = ["context-only", "context-and-input", "main"]


def built(preset, **options):
    torch.manual_seed(0)
    return build(preset, 11, 13, bos_id=1, embedding_size=8, hidden_size=WIDTH, **options).eval()


def drawn(seed=1):
    """Source ids, and the ids that a decoder reads."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(0, 11, (4, 3), generator=chance), torch.randint(0, 13, (5, 3), generator=chance)


def encoded(model):
    return model.encoder(drawn()[0], LENGTHS)


def decoded(model, source, inputs):
    state, kept = model.decoder.start(source)
    return model.decoder.run(inputs, state, Memory(kept, torch.arange(3)))


def moved(source):
    """Other outputs of an encoder whose last state is the same."""
    return source._replace(outputs=source.outputs.flip(2), final=source.final.flip(1))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("preset", PRESETS)
@torch.no_grad()
def test_a_structure_depends_on_what_it_is_named_after_and_on_nothing_else(preset, cell):  # R83, R90
    knows, model = STRUCTURES[preset], built(preset, cell=cell)
    source, (_, inputs) = encoded(model), drawn()
    plain = decoded(model, source, inputs)

    def differs(source=source, inputs=inputs):
        found = decoded(model, source, inputs)
        return (found.outputs - plain.outputs).abs().amax((1, 2)) > 1e-6  # of each step

    other_first = inputs.index_fill(0, torch.tensor([0]), 12)
    assert differs(inputs=other_first).tolist() == [knows.last_token] * 5
    other_state = source._replace(state=tuple(-part for part in source.state))
    assert differs(other_state).tolist() == [knows.encoder_state] * 5
    assert differs(moved(source)).tolist() == [knows.encoder_outputs] * 5
    same = torch.equal(decoded(model, moved(source), inputs).state[0], plain.state[0])
    assert same is not knows.state_sees_outputs


@pytest.mark.parametrize("preset", OF_ONE_VECTOR)
@torch.no_grad()
def test_the_context_is_the_one_that_was_asked_for(preset):  # R81
    _, inputs = drawn()
    found = {}
    for context in ("last", "mean", "max"):
        model = built(preset, context=context)
        source = encoded(model)
        rows = [source.outputs[:length, row] for row, length in enumerate(LENGTHS)]
        expected = {
            "last": source.final,
            "mean": torch.stack([row.mean(0) for row in rows]),
            "max": torch.stack([row.amax(0) for row in rows]),
        }
        torch.testing.assert_close(model.decoder.start(source)[1], (expected[context],))
        found[context] = decoded(model, source, inputs).outputs
    assert not torch.allclose(found["last"], found["mean"])
    assert not torch.allclose(found["last"], found["max"])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_first_state_of_the_decoders_own_is_learned(preset):  # R83
    model = built(preset)
    source = encoded(model)
    source = source._replace(state=tuple(part.detach() for part in source.state))
    (state, *_), _ = model.decoder.start(source)
    if STRUCTURES[preset].encoder_state:
        assert torch.equal(state, source.state[0])
        return
    assert not state.any()
    decoded(model, source, drawn()[1]).outputs.sum().backward()
    torch.optim.SGD(model.decoder.parameters(), lr=1.0).step()
    (learned, *_), _ = model.decoder.start(source)
    assert learned.all()
    assert torch.equal(learned, learned[:1].expand_as(learned))  # whatever the source


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("attention", ["additive", "dot", "general"])
@pytest.mark.parametrize("preset", ATTENTIVE)
@torch.no_grad()
def test_attention_compares_as_it_was_asked_to(preset, attention, scaled):  # R90
    model = built(preset, attention=attention, scaled=scaled)
    source, compare = encoded(model), model.decoder.attention
    asked = []
    compare.register_forward_pre_hook(lambda module, given: asked.append(given[0]))
    state, kept = model.decoder.start(source)
    weights = model.decoder.step(drawn()[1][0], state, Memory(kept, torch.arange(3))).extras["attention"]
    query, outputs = asked[0], source.outputs.transpose(0, 1)  # [3, 1, H], [3, T, H]
    scores = {
        "dot": lambda: (query * outputs).sum(2),
        "general": lambda: (query * (outputs @ compare.key.weight.T)).sum(2),
        "additive": lambda: torch.tanh(compare.query(query) + compare.key(outputs)) @ compare.energy,
    }[attention]() * (WIDTH**-0.5 if scaled else 1)
    real = torch.arange(4) < LENGTHS[:, None]
    torch.testing.assert_close(weights, scores.masked_fill(~real, -torch.inf).softmax(1))


@pytest.mark.parametrize("structure", SWITCHES)
def test_a_preset_is_a_name_for_its_switches(structure):  # R83
    torch.manual_seed(0)
    named = built(structure)
    initial, context, token = SWITCHES[structure]
    given = {"initial_state": initial, "feed_context": context, "feed_token": token}
    other = "main" if structure != "main" else "state-only"
    switched = built(other, **given)
    assert [*named.state_dict()] == [*switched.state_dict()]
    for one, two in zip(named.parameters(), switched.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("structure", ["main", "attention", "conditional"])
@torch.no_grad()
def test_the_first_state_is_a_setting(structure):  # R83
    zero, learned = (built(structure, initial_state=initial) for initial in ("zero", "learned"))
    for model in (zero, learned):
        assert model.decoder.bridge is None
        source = encoded(model)
        state, _ = model.decoder.start(source)
        moved_state, _ = model.decoder.start(source._replace(state=tuple(-part for part in source.state)))
        assert all(torch.equal(one, two) for one, two in zip(state, moved_state, strict=True))
    assert not any(part.any() for part in zero.decoder.start(encoded(zero))[0])
    assert len([*learned.parameters()]) > len([*zero.parameters()])
