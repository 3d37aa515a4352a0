"""A mixture of softmaxes against the equation written out: values, every gradient, and its memory."""

from __future__ import annotations

import pytest
import torch
from tests.models.test_heads import TOLERANCES, assert_same_loss, examples, gradients
from tests.refusals import refuses
from torch import nn
from torch.nn import functional

from throughtime.gpu.softmax import CudaSoftmax
from throughtime.models import softmax_loss
from throughtime.models.chunked_loss import SurprisalSums
from throughtime.models.heads import IGNORED, SoftmaxHead
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.other_heads import MixtureHead


def mixture(hidden_size, words, experts=3, width=4, dtype=torch.float64, **options):
    torch.manual_seed(5)
    head = MixtureHead(hidden_size, words, experts=experts, width=width, **options).to(dtype)
    nn.init.normal_(head.softmax.bias)
    return head


def written_out(head, hidden):
    """P of every word, expert by expert."""
    shares = head.shares(hidden).softmax(1)
    states = head.states(hidden).tanh().view(len(hidden), head.experts, -1)
    each = [
        functional.linear(states[:, k], head.softmax.weight, head.softmax.bias).softmax(1)
        for k in range(head.experts)
    ]
    return sum(shares[:, k, None] * each[k] for k in range(head.experts))


def plain_loss(head, hidden, labels):
    log_probs = written_out(head, hidden).log()
    return functional.nll_loss(log_probs, labels, ignore_index=IGNORED, reduction="sum")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("chunk", [1, 4, 9, 1000, None])
@pytest.mark.parametrize(("rows", "experts", "words"), [(11, 3, 13), (7, 2, 4099), (1, 1, 2)])
def test_loss_and_gradients_are_those_of_the_equation(rows, experts, words, chunk, dtype):
    head = mixture(5, words, experts, dtype=dtype, chunk=chunk)
    hidden, labels = examples(rows, 5, words, dtype)
    assert_same_loss(plain_loss(head, hidden, labels), head, hidden, labels)


@pytest.mark.parametrize("chunk", [None, 9])
@pytest.mark.parametrize("kind", [softmax_loss.TorchSoftmax, CudaSoftmax])
def test_a_gpus_way_through_the_mixture_is_a_cpus(kind, chunk, monkeypatch, emulated):
    head = mixture(5, 13, dtype=torch.float32, chunk=chunk)
    hidden, labels = examples(11, 5, 13, torch.float32)
    expected = gradients(head.loss(hidden, labels), head, hidden)
    monkeypatch.setattr(softmax_loss, "CpuSoftmax", kind)
    torch.testing.assert_close(gradients(head.loss(hidden, labels), head, hidden), expected)


def test_dropout_falls_on_experts_in_training_only():
    head = mixture(5, 13, dropout=0.5)
    hidden, labels = examples(11, 5, 13)
    assert not torch.equal(head.loss(hidden, labels), head.loss(hidden, labels))
    head.eval()
    torch.testing.assert_close(head.loss(hidden, labels), plain_loss(head, hidden, labels))


def test_one_mask_through_time(monkeypatch):
    steps, rows = 4, 3
    hidden = torch.randn(1, rows, 5, dtype=torch.float64).expand(steps, rows, 5)
    labels = torch.zeros(steps, rows, dtype=torch.long)
    for variational in (True, False):
        head = mixture(5, 13, dropout=0.5, variational=variational)
        seen = []
        monkeypatch.setattr(
            "throughtime.models.other_heads.smoothed_surprisal",
            lambda head, states, *_, seen=seen, **options: seen.append(states) or SurprisalSums(None, None),
        )
        head.loss(hidden, labels)
        states = seen[0].view(steps, rows, 3, 4)
        assert torch.equal(states, states[:1].expand_as(states)) == variational
        assert 0 < (states == 0).sum() < states.numel()
        assert not torch.equal(states[0, 0] == 0, states[0, 1] == 0)


def test_bf16_products_under_autocast():
    head = mixture(8, 50, dtype=torch.float32)
    hidden, labels = examples(20, 8, 50, torch.float32)
    expected = head.loss(hidden, labels)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.loss(hidden, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0)
    for ours, truth in zip(gradients(found, head, hidden), gradients(expected, head, hidden), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - truth).norm() < 0.05 * truth.norm()


def test_what_it_cannot_do_it_says():
    head = mixture(5, 13)
    hidden, labels = examples(11, 5, 13)
    with refuses("label_smoothing", "0.1", "MixtureHead"):
        head.smoothed_loss(hidden, labels, 0.1)
    with refuses("experts", "0", "1"):
        MixtureHead(5, 13, experts=0, width=4)


def test_a_language_model_mixes_as_many_softmaxes_as_it_is_told():
    sizes = {"embedding_size": 8, "hidden_size": 12, "num_layers": 2}
    plain, mixed, chosen = (
        RecurrentLanguageModel(20, **sizes, **more)
        for more in ({}, {"experts": 3}, {"experts": 3, "last_size": 7, "tied": False})
    )
    assert isinstance(plain.head, SoftmaxHead)
    assert plain.stack.state_sizes == (12, 12, 8, 8)
    assert isinstance(mixed.head, MixtureHead)
    assert mixed.head.softmax.weight is mixed.embedding.weight
    assert mixed.stack.state_sizes == (12, 12, 12, 12)
    assert chosen.stack.state_sizes == (12, 12, 7, 7)
    assert chosen.head.softmax.weight.shape == (20, 8)
    assert chosen.head.softmax.weight is not chosen.embedding.weight


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"expert_dropout": 0.1}, ("expert_dropout", "0.1")),
        ({"experts": 2, "head": "adaptive", "tied": False}, ("experts", "head=softmax")),
        ({"last_size": 5}, ("tied weight", "[20, 8]", "[20, 5]")),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, facts):
    with refuses(*facts):
        RecurrentLanguageModel(20, embedding_size=8, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: captures a CUDA graph")
def test_a_cuda_graph_holds_it():
    head = mixture(16, 300, dtype=torch.float32, chunk=64).cuda()
    hidden, labels = examples(70, 16, 300, torch.float32)
    hidden, labels = hidden.detach().cuda().requires_grad_(), labels.cuda()
    expected = gradients(head.loss(hidden, labels), head, hidden)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gradients(head.loss(hidden, labels), head, hidden)
    graph.replay()
    torch.testing.assert_close(found, expected)
