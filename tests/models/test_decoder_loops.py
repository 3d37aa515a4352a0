"""The fused loops of decoders against the plain ones: outputs, weights, states and every gradient."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses as is_refused

from throughtime.errors import ThroughtimeError
from throughtime.gpu import decoder, decoder_steps
from throughtime.models import attention_steps, conditional, decoder_loop
from throughtime.recurrence import layout
from throughtime.tasks.translate.network import build

KINDS = [
    pytest.param(cell, attention, scaled, id=f"{cell}-{attention}{'-scaled' * scaled}")
    for cell in ("gru", "lstm")
    for attention in ("additive", "dot", "general")
    for scaled in (False, True)
]
LENGTHS = torch.tensor([5, 2, 0, 3])
each_structure = pytest.mark.parametrize("structure", ["attention", "conditional"])


def built(structure, cell="gru", attention="additive", scaled=False, dtype=torch.float64, **options):
    torch.manual_seed(0)
    sizes = {"embedding_size": 5, "hidden_size": 6, **options}
    model = build(structure, 11, 13, bos_id=1, cell=cell, attention=attention, scaled=scaled, **sizes)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0.1, 0.4)
    return model.to(dtype)


def everything(model, fused, steps=7, device="cpu"):
    """All that comes out, and the gradients of a random function of it, also with respect to first states."""
    torch.manual_seed(1)
    model.decoder.fused = fused
    source, inputs = torch.randint(0, 11, (5, 4)), torch.randint(0, 13, (steps, 4))
    state, memory = model.encode(source.to(device), LENGTHS.to(device))
    noise = [0.1 * torch.randn(part.shape).to(device) for part in state]
    state = tuple((part + more).detach().requires_grad_() for part, more in zip(state, noise, strict=True))
    decoded = model.decoder.run(inputs.to(device), state, memory)
    found = {"outputs": decoded.outputs, "attention": decoded.extras["attention"]}
    found |= {f"last {i}": part for i, part in enumerate(decoded.state)}
    loss = sum((part.double() * torch.randn(part.shape).to(device)).sum() for part in found.values())
    wanted = {f"state {i}": part for i, part in enumerate(state)} | dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return found | {f"d {name}": gradient for name, gradient in zip(wanted, gradients, strict=True)}


def assert_same(ours, theirs, relative, floor):
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        scale = max(1e-3, float(value.detach().abs().max()))
        torch.testing.assert_close(
            ours[name], value, rtol=relative, atol=floor * scale, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize(("cell", "attention", "scaled"), KINDS)
@each_structure
def test_fused_is_plain(structure, cell, attention, scaled, steps, monkeypatch):  # law 1, R90
    def poisoned(shape, like):
        return torch.full(shape, torch.nan, dtype=like.dtype)

    # On a machine with a GPU the last of them would be imported during this test, and keep the poison.
    for module in (layout, decoder_loop, conditional, attention_steps, decoder_steps):
        monkeypatch.setattr(module, "scratch", poisoned)
    norm = {"layer_norm": steps == 1} if structure == "conditional" else {}
    model = built(structure, cell, attention, scaled, tied=steps == 7, **norm)
    assert_same(everything(model, True, steps), everything(model, False, steps), 1e-9, 1e-10)


@pytest.mark.parametrize(("cell", "attention", "scaled"), KINDS)
def test_fused_is_plain_in_float32(cell, attention, scaled):
    model = built("attention", cell, attention, scaled, torch.float32)
    assert_same(everything(model, True), everything(model, False), 1e-5, 2e-5)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@each_structure
def test_fused_follows_autocast(structure, cell):
    model = built(structure, cell, dtype=torch.float32, hidden_size=32, embedding_size=32)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0, 0.1)
    exact = everything(model, True)
    with torch.autocast("cpu", torch.bfloat16):
        ours, plain = everything(model, True), everything(model, False)
    assert structure == "conditional" or ours["outputs"].dtype == torch.bfloat16
    assert ours["attention"].dtype == torch.float32  # the softmax is
    assert ours["last 0"].dtype == torch.float32
    for name, value in exact.items():
        # Where parts cancel, as in the gradient of attention's keys, no loop holds 2e-2.
        error, plain_error = ((one[name] - value).norm().item() for one in (ours, plain))
        assert error <= max(2e-2 * value.norm().item(), 1.25 * plain_error), name


def test_on_a_cpu_it_runs_plain_unless_asked(monkeypatch):
    model = built("conditional")
    monkeypatch.setattr(conditional, "run_conditional", None)
    plain = everything(model, None)
    assert torch.equal(plain["outputs"], everything(model, False)["outputs"])


@each_structure
def test_without_gradients_one_step_of_the_comparison_is_kept(structure, monkeypatch):
    model, shapes = built(structure), []
    model.decoder.fused = True
    monkeypatch.setattr(
        attention_steps, "scratch", lambda shape, like: shapes.append(shape) or like.new_empty(shape)
    )
    source, inputs = torch.ones(3, 2, dtype=torch.long), torch.ones(4, 2, dtype=torch.long)
    with torch.no_grad():
        model(source, torch.tensor([3, 1]), inputs)
    assert [shape for shape in shapes if len(shape) == 4] == [(1, 2, 3, 6)]


def test_backward_may_run_twice():
    model = built("attention")
    model.decoder.fused = True
    outputs = model(
        torch.ones(3, 2, dtype=torch.long), torch.tensor([3, 1]), torch.ones(4, 2, dtype=torch.long)
    )
    weights = list(model.decoder.parameters())
    first, second = (
        torch.autograd.grad(outputs.outputs.square().sum(), weights, retain_graph=True, allow_unused=True)
        for _ in range(2)
    )
    assert all(a is b or torch.equal(a, b) for a, b in zip(first, second, strict=True))


@each_structure
def test_second_derivatives_are_refused_with_the_way_out(structure):
    model = built(structure)
    model.decoder.fused = True
    outputs = model(torch.ones(3, 1, dtype=torch.long), torch.tensor([3]), torch.ones(4, 1, dtype=torch.long))
    first = model.decoder.from_state.weight if structure == "attention" else model.decoder.first.weight_hh
    with is_refused("fused", error=ThroughtimeError):
        torch.autograd.grad(outputs.outputs.sum(), first, create_graph=True)


@pytest.mark.parametrize(
    ("structure", "options"),
    [
        *(
            (structure, {"cell": cell})
            for structure in ("attention", "conditional")
            for cell in ("gru-before", "mingru")
        ),
        ("attention", {"num_layers": 2}),
        ("attention", {"layer_norm": True}),
    ],
)
def test_what_it_does_not_know_runs_plain(structure, options):
    model = built(structure, **options)
    decoder = model.decoder
    if structure == "attention":
        reason = decoder_loop.refuses(decoder.stack, decoder.attention, decoder.norm)
    else:
        reason = conditional.refuses(decoder.first, decoder.second, decoder.attention)
    assert reason is not None
    assert torch.equal(everything(model, True)["outputs"], everything(model, False)["outputs"])


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("cell", "attention"), [("gru", "additive"), ("lstm", "general")])
@each_structure
def test_the_kernels_agree_with_the_plain_loop(
    structure, cell, attention, narrow, emulated_decoder, monkeypatch
):
    torch.manual_seed(0)
    kinds = {"cell": cell, "attention": attention}
    model = build(structure, 11, 13, bos_id=1, embedding_size=6, hidden_size=8, **kinds)
    launched, attend = [], decoder.attend
    monkeypatch.setattr(decoder, "attend", lambda *tensors: launched.append(1) or attend(*tensors))
    exact = everything(model.double(), False)
    model.float()
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        plain = everything(model, True)
        assert not launched
        monkeypatch.setattr(decoder, "is_available", lambda device: True)
        ours = everything(model, True)
    assert len(launched) == 7
    if not narrow:
        assert_same({name: one.double() for name, one in ours.items()}, exact, 1e-5, 2e-5)
    for name, value in exact.items():
        error, plain_error = ((one[name] - value).norm().item() for one in (ours, plain))
        # Where parts cancel, as in the gradient of attention's keys, no loop holds 2e-2.
        assert error <= max(2e-2 * value.norm().item(), 2 * plain_error), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@each_structure
@pytest.mark.parametrize(("cell", "attention", "scaled"), KINDS)
def test_a_real_gpu_agrees_with_the_plain_loop(structure, cell, attention, scaled, allow_tf32):
    allow_tf32(False)
    torch.manual_seed(0)
    sizes = {"embedding_size": 64, "hidden_size": 96, "cell": cell, "attention": attention, "scaled": scaled}
    model = build(structure, 11, 13, bos_id=1, **sizes).double()
    exact = everything(model, False)
    model.to("cuda", torch.float32)
    ours, plain = everything(model, True, device="cuda"), everything(model, False, device="cuda")
    for name, value in exact.items():
        error, plain_error = ((one[name].cpu() - value).norm().item() for one in (ours, plain))
        assert error <= max(1e-5 * value.norm().item(), 2 * plain_error), name
