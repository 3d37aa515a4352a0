"""The laws of encoder-decoders, over every preset: registering one is testing it."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from throughtime.models.weights import load_weights, named_weights
from throughtime.search.generate import select
from throughtime.tasks.translate.network import PRESETS, build

SOURCE, TARGET = 11, 13
LENGTHS = torch.tensor([5, 2, 0, 3])
OPTIONS = {
    "gru": {"cell": "gru"},
    "deep lstm": {"cell": "lstm", "num_layers": 2, "bidirectional": False, "attention": "general"},
    "all": {"cell": "gru-before", "attention": "dot", "scaled": True, "layer_norm": True, "context": "max"},
    "bridged": {"cell": "rnn", "encoder_size": 3, "num_layers": 2, "context": "mean"},
}
every_preset = pytest.mark.parametrize("preset", PRESETS)
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))


def built(preset, options):
    """A tiny model in float64 with weights large enough to have opinions."""
    torch.manual_seed(0)
    model = build(preset, SOURCE, TARGET, bos_id=1, embedding_size=4, hidden_size=6, **options).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0.1, 0.5)
    return model.eval()


def drawn(steps=7, batch=4):
    """Sources of the lengths above, and targets."""
    torch.manual_seed(1)
    return torch.randint(0, SOURCE, (5, batch)), torch.randint(0, TARGET, (steps, batch))


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)


@every_preset
@every_option
def test_whole_target_is_step_by_step(preset, options):  # law 2
    model = built(preset, options)
    source, inputs = drawn()
    whole = model(source, LENGTHS, inputs)
    state, memory = model.encode(source, LENGTHS)
    for t, last in enumerate(inputs):
        one = model.decoder.step(last, state, memory)
        state = one.state
        assert_close(one.outputs, whole.outputs[t])
        for name, seen in whole.extras.items():
            assert_close(one.extras[name], seen[t])
    assert_close(state, whole.state)


@every_preset
@every_option
def test_a_padded_batch_is_each_row_alone(preset, options):  # law 3: outputs and gradients; R65
    model = built(preset, options)
    source, inputs = drawn()
    target_lengths = [7, 3, 5, 1]
    factors = torch.randn(7, 4, model.decoder.output_size, dtype=torch.float64)

    together = model(source, LENGTHS, inputs).outputs
    inside = torch.arange(7)[:, None] < torch.tensor(target_lengths)
    loss = (together * factors)[inside].sum()
    expected = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)

    total = 0.0
    for row, (length, steps) in enumerate(zip(LENGTHS.tolist(), target_lengths, strict=True)):
        at = slice(row, row + 1)
        alone = model(source[:length, at], LENGTHS[at], inputs[:steps, at]).outputs
        assert_close(alone, together[:steps, at])
        total = total + (alone * factors[:steps, at]).sum()
    found = torch.autograd.grad(total, list(model.parameters()), allow_unused=True, materialize_grads=True)
    assert_close(found, expected)


@every_preset
@every_option
@pytest.mark.parametrize("owners", [[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [0, 0, 2, 3, 3, 3]])
def test_rows_that_share_a_memory_are_each_alone(preset, options, owners):  # law 5: what beams stand on
    model = built(preset, options)
    prompts = [[3, 4, 5], [6], [], [7, 8, 9, 10, 2]]
    owner = torch.tensor(owners)
    _, state, memory = model.start(prompts)
    state, memory = select(state, owner), memory.follow(owner)
    torch.manual_seed(2)
    tokens = torch.randint(0, TARGET, (3, len(owner)))
    steps = []
    for last in tokens:
        steps.append(model.step(last, state, memory))
        state = steps[-1].state
    for row, sentence in enumerate(owners):
        _, alone, own = model.start([prompts[sentence]])
        for last, step in zip(tokens, steps, strict=True):
            one = model.step(last[row : row + 1], alone, own)
            alone = one.state
            assert_close(one.log_probs[0], step.log_probs[row])


@every_preset
@every_option
def test_saved_and_loaded_is_the_same(preset, options, tmp_path):  # law 6
    model = built(preset, options)
    save_file(named_weights(model), tmp_path / "model.safetensors")
    fresh = (
        build(preset, SOURCE, TARGET, bos_id=1, embedding_size=4, hidden_size=6, **options).double().eval()
    )
    load_weights(fresh, load_file(tmp_path / "model.safetensors"), "model.safetensors")
    source, inputs = drawn()
    assert torch.equal(fresh.log_probs(source, LENGTHS, inputs), model.log_probs(source, LENGTHS, inputs))


@pytest.mark.parametrize("preset", ["attention", "attention-no-feeding", "conditional"])
@every_option
def test_weights_of_attention_are_zero_on_padding_and_sum_to_one(preset, options):  # R90
    model = built(preset, options)
    source, inputs = drawn()
    weights = model(source, LENGTHS, inputs).extras["attention"]  # [L, B, T]
    padding = torch.arange(5) >= LENGTHS[:, None]
    assert not weights[:, padding].any()
    assert_close(weights.sum(-1), (LENGTHS > 0).double().expand(7, -1))


@every_preset
def test_every_preset_learns_to_copy(preset):  # R83
    torch.manual_seed(0)
    model = build(preset, 5, 5, bos_id=1, embedding_size=8, hidden_size=16)
    source = torch.tensor([[2, 3, 4], [3, 4, 2], [4, 2, 2]])
    inputs = torch.cat([torch.ones(1, 3, dtype=torch.long), source[:-1]])
    lengths = torch.full((3,), 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(60):
        optimizer.zero_grad()
        outputs = model(source, lengths, inputs).outputs
        loss = model.head.loss(outputs.flatten(0, 1), source.flatten())
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5
    assert torch.equal(model.log_probs(source, lengths, inputs).argmax(-1), source)
