"""The encoder-decoder as a whole: teacher forcing, predictions, presets, a user's own parts."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import Decoder, DecoderOutput, Encoder, EncoderDecoder, EncoderOutput
from throughtime.search.generate import generate
from throughtime.search.sampling import Greedy
from throughtime.tasks.translate.network import PRESETS, build

LENGTHS = torch.tensor([5, 2, 3])


def built(preset="attention", **options):
    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_size": 12, **options}
    return build(preset, 11, 13, bos_id=1, **sizes)


def drawn(steps=7):
    torch.manual_seed(1)
    return torch.randint(0, 11, (5, 3)), torch.randint(0, 13, (steps, 3))


def test_predictions_are_time_major_or_batch_first():  # R73, R82, R87
    model = built()
    source, inputs = drawn()
    time_major = model.log_probs(source, LENGTHS, inputs)
    assert time_major.shape == (7, 3, 13)
    torch.testing.assert_close(time_major.exp().sum(-1), torch.ones(7, 3))
    batch_first = model.log_probs(source.T, LENGTHS, inputs.T, batch_first=True)
    torch.testing.assert_close(batch_first, time_major.transpose(0, 1))


@pytest.mark.parametrize("preset", ["main", "attention", "conditional"])
def test_a_ratio_of_one_is_teacher_forcing(preset):  # R86
    model, (source, inputs) = built(preset), drawn()
    forced = model.run_scheduled(source, LENGTHS, inputs, 1.0)
    assert torch.equal(forced.outputs, model(source, LENGTHS, inputs).outputs)


@pytest.mark.parametrize("preset", ["main", "attention", "conditional"])
def test_a_ratio_of_zero_reads_only_what_it_wrote(preset):  # R86
    model, (source, inputs) = built(preset), drawn()
    free = model.run_scheduled(source, LENGTHS, inputs, 0.0)
    written = model.head.log_probs(free.outputs.flatten(0, 1)).argmax(1).view(7, 3)
    again = model(source, LENGTHS, torch.cat([inputs[:1], written[:-1]]))
    torch.testing.assert_close(again.outputs, free.outputs)
    free.outputs.sum().backward()
    assert model.encoder.embedding.weight.grad.any()


def test_scheduled_sampling_draws_for_each_row_and_step(monkeypatch):  # R86
    model = built("main")
    source, inputs = torch.zeros(2, 400, dtype=torch.long), torch.full((3, 400), 2)
    read = []
    step = model.decoder.step
    monkeypatch.setattr(model.decoder, "step", lambda last, *rest: read.append(last) or step(last, *rest))
    monkeypatch.setattr(model, "_predict", lambda outputs, *given: torch.full((400,), 5))
    model.run_scheduled(source, torch.full((400,), 2), inputs, 0.75)
    assert (read[0] == 2).all()
    for last in read[1:]:
        assert 0.65 < (last == 2).double().mean() < 0.85
        assert set(last.tolist()) == {2, 5}
    assert not torch.equal(read[1], read[2])


def test_a_strange_ratio_is_refused():
    with refuses("teacher forcing ratio", "1.5"):
        built().run_scheduled(*drawn()[:1], LENGTHS, drawn()[1], 1.5)


def test_a_user_can_write_an_encoder_and_a_decoder():  # R79
    class Bag(Encoder):
        output_size, state_sizes = 4, ()

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(11, 4)

        def forward(self, source, lengths):
            vectors = self.embedding(source)
            return EncoderOutput(vectors, (), vectors.sum(0), lengths)

    class Echo(Decoder):
        output_size = 4

        def start(self, encoded):
            return (), (encoded.final,)

        def step(self, last, state, memory):
            return DecoderOutput(memory.kept[0][memory.owner], state)

    model = EncoderDecoder(Bag(), Echo(), SoftmaxHead(4, 13), bos_id=1)
    source, inputs = drawn()
    assert model(source, LENGTHS, inputs).outputs.shape == (7, 3, 4)
    found = generate(model, [[3, 4], []], Greedy(end_id=None), max_new_tokens=3)
    assert [len(results[0].tokens) for results in found] == [3, 3]


@pytest.mark.parametrize("preset", ["main", "attention"])
def test_search_takes_any_source(preset):
    model = built(preset).eval()
    found = generate(model, [[], [3], [4] * 300], Greedy(end_id=2), max_new_tokens=4)
    assert len(found) == 3
    assert all(len(results) == 1 for results in found)
    (alone,) = generate(model, [[]], Greedy(end_id=2), max_new_tokens=4)
    assert alone[0].tokens == found[0][0].tokens


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "bf16 weights"])
def test_every_preset_trains_and_writes_in_bf16(preset, autocast):
    exact = built(preset)
    model = built(preset) if autocast else built(preset).bfloat16()
    source, inputs = drawn()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = model.log_probs(source, LENGTHS, inputs)
        written = generate(model, [[3, 4], []], Greedy(end_id=2), max_new_tokens=3)
    found.float().square().sum().backward()
    torch.testing.assert_close(found.float(), exact.log_probs(source, LENGTHS, inputs), atol=0.05, rtol=0.02)
    assert all(weight.grad is None or torch.isfinite(weight.grad).all() for weight in model.parameters())
    assert len(written) == 2


def test_embeddings_are_tied_and_shared():
    model = build(
        "attention", 9, 9, bos_id=1, embedding_size=8, hidden_size=12, tied=True, shared_embedding=True
    )
    table = model.encoder.embedding.weight
    assert model.decoder.embedding.weight is table
    assert model.head.weight is table
    source, lengths = torch.zeros(2, 1, dtype=torch.long), torch.tensor([2])
    model(source, lengths, source).outputs.sum().backward()
    assert table.grad is not None


def test_xavier_draws_the_first_weights():  # R88
    model = built(hidden_size=64, embedding_size=64)
    weight = model.decoder.from_state.weight
    bound = (6 / sum(weight.shape)) ** 0.5
    assert 0.95 * bound < float(weight.detach().abs().max()) <= bound
    assert not model.decoder.from_state.bias.any()


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"preset": "atention"}, ("structure", "'atention'", "'attention'")),
        ({"cell": "grue"}, ("cell", "'grue'", "'gru'")),
        ({"preset": "conditional", "cell": "grue"}, ("cell", "'grue'", "'gru'")),
        ({"shared_embedding": True}, ("shared_embedding", "11", "13")),
        ({"bridge": False, "encoder_size": 5}, ("bridge", "[10]", "[12]")),
    ],
)
def test_what_cannot_be_built_is_refused(options, facts):
    with refuses(*facts):
        built(**options)
