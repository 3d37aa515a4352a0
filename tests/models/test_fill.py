"""Hidden steps: told from both sides of them, never from themselves."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import lacks, refuses
from torch import nn
from torch.nn import functional

from throughtime.errors import InputError
from throughtime.layers.stack import Stack
from throughtime.models.heads import IGNORED, SoftmaxHead
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.network import MaskedSteps, MaskedTokens, build_filler


def build(**settings):
    return build_filler(FillConfig(data="", **{"num_layers": 1, **settings}), 20, mask_id=1)


def stack_outputs(model):
    """What the stack gives in the next forward pass, with its gradient kept."""
    held = []

    def keep(module, inputs, result):
        result.outputs.retain_grad()
        held.append(result.outputs)

    model.stack.register_forward_hook(keep)
    return held


def test_a_hidden_step_of_a_real_valued_sequence_is_learned():  # R67, the notes' case
    torch.manual_seed(0)
    x = torch.randn(5, 1, 10)
    places, labels = torch.tensor([3]), torch.tensor([3])
    model = MaskedSteps(Stack("lstm", 10, 16, bidirectional=True), SoftmaxHead(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), 0.001)
    first = model.log_probs(x, places)[0, 3].exp().item()
    for _ in range(120):
        optimizer.zero_grad()
        model.loss(x, places, labels).backward()
        optimizer.step()
    learned = model.log_probs(x, places)[0].exp()
    assert first < 0.3
    assert learned.argmax() == 3
    assert learned[3] > 0.8


def test_other_positions_have_no_gradient():  # R67
    torch.manual_seed(1)
    x, places, labels = torch.randn(5, 2, 10), torch.tensor([2, 7]), torch.tensor([3, 4])
    model = MaskedSteps(Stack("lstm", 10, 16, bidirectional=True), SoftmaxHead(32, 10))
    held = stack_outputs(model)
    model.loss(x, places, labels).backward()
    gradient = held[0].grad.flatten(0, 1)
    asked = torch.zeros(10, dtype=torch.bool)
    asked[places] = True
    assert (gradient[~asked] == 0).all()
    assert (gradient[asked].abs().amax(1) > 0).all()


def test_the_gathered_softmax_is_the_full_one_at_the_hidden_steps():  # R67
    torch.manual_seed(2)
    x, places, labels = torch.randn(5, 2, 10), torch.tensor([2, 7]), torch.tensor([3, 4])
    model = MaskedSteps(Stack("gru", 10, 8, bidirectional=True), SoftmaxHead(16, 10))
    gathered = model.loss(x, places, labels)
    gathered.backward()
    mine = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    logits = model.head.log_probs(model.stack(model.hide(x, places)).outputs.flatten(0, 1))
    logits.retain_grad()
    targets = torch.full((10,), IGNORED).index_copy(0, places, labels)
    full = functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
    full.backward()
    assert gathered.item() == pytest.approx(full.item(), rel=1e-5)
    for one, other in zip(mine, model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-4, atol=1e-6)
    others = [place for place in range(10) if place not in places.tolist()]
    assert (logits.grad[others] == 0).all()


@pytest.mark.parametrize("layers", [1, 3])
def test_the_answer_leaks_at_no_depth(layers):
    torch.manual_seed(3)
    model = build(embedding_size=8, hidden_size=8, num_layers=layers).eval()
    ids, places = torch.randint(2, 20, (6, 1)), torch.tensor([3])
    other, neighbour = ids.clone(), ids.clone()
    other[3] = 2 + (ids[3] - 1) % 18
    neighbour[5] = 2 + (ids[5] - 1) % 18
    assert not torch.equal(ids, other)
    asked = model.log_probs(ids, places)
    assert torch.equal(asked, model.log_probs(other, places))
    assert not torch.allclose(asked, model.log_probs(neighbour, places))


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_place_is_the_same_step_in_both_layouts(batch_first):  # R67
    torch.manual_seed(6)
    steps, rows = 5, 3
    places = torch.tensor([1 * rows + 2, 4 * rows + 0])  # step 1 of row 2, step 4 of row 0
    x, ids = torch.randn(steps, rows, 10), torch.randint(2, 20, (steps, rows))
    lengths = torch.tensor([5, 3, 4])
    one, other = (
        Stack("gru", 10, 6, bidirectional=True, batch_first=first) for first in (False, batch_first)
    )
    other.load_state_dict(one.state_dict())
    head, embedding = SoftmaxHead(12, 20), nn.Embedding(20, 10)

    def laid_out(tensor):
        return tensor.transpose(0, 1).contiguous() if batch_first else tensor

    for model, expected, given in (
        (MaskedSteps(other, head), MaskedSteps(one, head), x),
        (MaskedTokens(embedding, other, head, mask_id=1), MaskedTokens(embedding, one, head, mask_id=1), ids),
    ):
        hidden = laid_out(model.hide(laid_out(given), places))
        vectors = given if given.is_floating_point() else embedding(given)
        mask = 0 if given.is_floating_point() else embedding.weight[1]
        for t in range(steps):
            for b in range(rows):
                covered = (t, b) in {(1, 2), (4, 0)}
                assert torch.equal(hidden[t, b], vectors[t, b] * 0 + mask if covered else vectors[t, b])
        found = model.log_probs(laid_out(given), places, lengths)
        torch.testing.assert_close(found, expected.log_probs(given, places, lengths))
        labels = torch.tensor([3, 4])
        assert model.loss(laid_out(given), places, labels, lengths).item() == pytest.approx(
            -(found[0, 3] + found[1, 4]).item(), rel=1e-5
        )


def test_a_padded_batch_is_each_row_alone():
    torch.manual_seed(5)
    model = build(embedding_size=8, hidden_size=8, num_layers=2, layer_norm=True).eval()
    ids, lengths = torch.randint(2, 20, (6, 2)), torch.tensor([6, 3])
    both = model.log_probs(ids, torch.tensor([2 * 4, 2 * 1 + 1]), lengths)
    torch.testing.assert_close(both[:1], model.log_probs(ids[:, :1], torch.tensor([4])))
    torch.testing.assert_close(both[1:], model.log_probs(ids[:3, 1:], torch.tensor([1])))


def test_one_direction_is_refused():
    with refuses("stack", "bidirectional=True"):
        MaskedTokens(nn.Embedding(5, 4), Stack("gru", 4, 4), SoftmaxHead(4, 5), mask_id=0)


@pytest.mark.parametrize("batch_first", [False, True])
def test_beside_predicts_many_steps_as_each_alone(batch_first):
    torch.manual_seed(7)
    stack = Stack("lstm", 10, 6, bidirectional=True, batch_first=batch_first)
    model = MaskedSteps(stack, SoftmaxHead(12, 5), beside=True).eval()
    x, lengths, nothing = torch.randn(6, 3, 10), torch.tensor([6, 1, 4]), torch.tensor([], dtype=torch.int64)
    x = x.transpose(0, 1).contiguous() if batch_first else x
    asked = torch.tensor([t * 3 + b for b, length in enumerate(lengths.tolist()) for t in range(length)])
    together = model.head.log_probs(model(x, nothing, lengths, asked))
    alone = torch.cat([model.log_probs(x, asked[k : k + 1], lengths) for k in range(len(asked))])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    labels = torch.arange(len(asked)) % 5
    loss = model.loss(x, nothing, labels, lengths, asked)
    assert loss.item() == pytest.approx(-together.gather(1, labels[:, None]).sum().item(), rel=1e-5)


def test_beside_reads_neither_the_answer_nor_padding():
    torch.manual_seed(8)
    model = build(embedding_size=8, hidden_size=8, structure="beside").eval()
    ids, lengths = torch.randint(2, 20, (6, 2)), torch.tensor([6, 4])
    hidden, asked = torch.tensor([0]), torch.tensor([3 * 2, 3 * 2 + 1])
    found = model(ids, hidden, lengths, asked)
    for row, column, same in ((3, 0, True), (3, 1, True), (5, 1, True), (0, 0, True), (4, 0, False)):
        other = ids.clone()
        other[row, column] = 2 + (ids[row, column] - 1) % 18
        assert torch.allclose(model(other, hidden, lengths, asked), found, atol=1e-7) is same


def test_steps_that_are_not_hidden_are_asked_of_beside_only():
    model = build(embedding_size=8, hidden_size=8)
    with refuses("asked"):
        model(torch.ones(4, 1, dtype=torch.int64), torch.tensor([0]), None, torch.tensor([1, 2]))
    with refuses("stack", 2):
        MaskedSteps(Stack("gru", 4, 4, 2, bidirectional=True), SoftmaxHead(8, 3), beside=True)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_a_boolean_mask_names_the_same_steps(batch_first, beside):  # R122
    torch.manual_seed(8)
    stack = Stack("gru", 6, 4, bidirectional=True, batch_first=batch_first)
    model = MaskedSteps(stack, SoftmaxHead(8, 5), beside=beside).eval()
    mask = torch.zeros(5, 3, dtype=torch.bool)  # [time, batch]
    mask[4, 0] = mask[1, 2] = mask[2, 2] = True
    x = torch.randn(5, 3, 6)
    if batch_first:
        mask, x = mask.T.contiguous(), x.transpose(0, 1).contiguous()
    steps = [(4, 0), (1, 2), (2, 2)] if batch_first else [(1, 2), (2, 2), (4, 0)]  # the order of x[mask]
    places = torch.tensor([step * 3 + row for step, row in steps])
    assert torch.equal(model.log_probs(x, mask), model.log_probs(x, places))
    labels = torch.tensor([0, 1, 2])
    assert torch.equal(model.loss(x, mask, labels), model.loss(x, places, labels))
    if beside:
        assert torch.equal(model(x, mask, None, mask), model(x, places, None, places))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("places", "facts"),
    [
        (torch.tensor([3, 15]), (15, 0, 14)),
        (torch.tensor([16]), (16, 0, 14)),
        (torch.tensor([-1]), (-1, 0, 14)),
        (torch.tensor([3.0]), ("torch.float32", "[N]")),
        (torch.tensor([[3]]), ("[1, 1]", "[N]")),
        (torch.ones(4, 3, dtype=torch.bool), ("[4, 3]", "torch.bool")),
    ],
)
def test_steps_that_the_sequences_do_not_have_are_refused(batch_first, places, facts):  # R122
    stack = Stack("gru", 6, 4, bidirectional=True, batch_first=batch_first)
    x = torch.randn(3, 5, 6) if batch_first else torch.randn(5, 3, 6)
    ids = torch.randint(2, 9, x.shape[:2])
    tokens = MaskedTokens(nn.Embedding(9, 6), stack, SoftmaxHead(8, 9), mask_id=1)
    steps = MaskedSteps(stack, SoftmaxHead(8, 5), beside=True)
    for run in (
        lambda: tokens.log_probs(ids, places),
        lambda: steps.log_probs(x, places),
        lambda: steps(x, torch.tensor([3]), None, places),
    ):
        with pytest.raises(InputError) as caught:
            run()
        assert caught.value.where in ("places", "asked")
        assert not lacks(str(caught.value), *facts)
