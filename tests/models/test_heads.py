"""Heads against torch's own losses: values, every gradient, and the memory they take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.refusals import refuses
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from throughtime.accelerate import block_gpu
from throughtime.errors import ThroughtimeError
from throughtime.gpu import driver
from throughtime.gpu.softmax import CudaSoftmax
from throughtime.models import chunked_loss, softmax_loss
from throughtime.models.heads import HEADS, IGNORED, Head, SoftmaxHead
from throughtime.models.other_heads import AdaptiveHead, MixtureHead

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5}
KINDS: dict[str, Callable[[int, int], Head]] = {
    **{name: HEADS[name] for name in HEADS},
    "mixture": partial(MixtureHead, experts=3, width=4),
}


def examples(
    rows: int, hidden_size: int, vocabulary_size: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Hidden states that want a gradient, and labels of which every fourth is none."""
    generator = torch.Generator().manual_seed(rows * vocabulary_size)
    hidden = torch.randn(rows, hidden_size, generator=generator, dtype=dtype).requires_grad_()
    labels = torch.randint(vocabulary_size, (rows,), generator=generator)
    labels[1::4] = IGNORED
    return hidden, labels


def softmax_head(hidden_size: int, vocabulary_size: int, dtype: torch.dtype, **options: Any) -> SoftmaxHead:
    torch.manual_seed(5)
    head = SoftmaxHead(hidden_size, vocabulary_size, **options).to(dtype)
    if head.bias is not None:
        nn.init.normal_(head.bias)
    return head


def plain_loss(head: SoftmaxHead, hidden: Tensor, labels: Tensor) -> Tensor:
    logits = functional.linear(hidden, head.weight, head.bias)
    return functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")


def gradients(loss: Tensor, head: Head, hidden: Tensor) -> list[Tensor]:
    """Of a scaled loss, as the trainer scales it."""
    return list(torch.autograd.grad(loss / 7, [hidden, *head.parameters()]))


def assert_same_loss(expected: Tensor, head: Head, hidden: Tensor, labels: Tensor) -> None:
    """The head's loss is the expected one, with each of its gradients, and without any."""
    found = head.loss(hidden, labels)
    close = {"rtol": TOLERANCES[hidden.dtype], "atol": TOLERANCES[hidden.dtype]}
    torch.testing.assert_close(found, expected, **close)
    torch.testing.assert_close(gradients(found, head, hidden), gradients(expected, head, hidden), **close)
    with torch.no_grad():
        torch.testing.assert_close(head.loss(hidden, labels), expected.detach(), **close)


class Watched(TorchDispatchMode):
    """Every operation by name, and the largest tensor that any of them gave."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.sizes: list[int] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.append(func.__name__.split(".")[0])
        self.sizes += [result.numel()] if isinstance(result, Tensor) else []
        return result


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk", [1, 3, 7, 1000, None])
@pytest.mark.parametrize(("rows", "hidden_size", "vocabulary_size"), [(11, 5, 13), (7, 3, 4099), (1, 1, 2)])
def test_loss_and_gradients_are_those_of_cross_entropy(
    rows: int, hidden_size: int, vocabulary_size: int, chunk: int | None, bias: bool, dtype: torch.dtype
) -> None:
    head = softmax_head(hidden_size, vocabulary_size, dtype, bias=bias, chunk=chunk)
    hidden, labels = examples(rows, hidden_size, vocabulary_size, dtype)
    assert_same_loss(plain_loss(head, hidden, labels), head, hidden, labels)


def test_all_logits_never_exist_at_once() -> None:
    rows, hidden_size, vocabulary_size, chunk = 64, 4, 500, 8
    head = softmax_head(hidden_size, vocabulary_size, torch.float32, chunk=chunk)
    hidden, labels = examples(rows, hidden_size, vocabulary_size, torch.float32)
    with Watched() as watched:
        head.loss(hidden, labels).backward()
        head.surprisals(hidden, labels)
    assert max(watched.sizes) == chunk * vocabulary_size
    with Watched() as plain:
        plain_loss(head, hidden, labels).backward()
    assert max(plain.sizes) == rows * vocabulary_size  # so that this would have been seen


def test_only_wanted_gradients_are_computed() -> None:
    head = softmax_head(4, 50, torch.float64)
    hidden, labels = examples(9, 4, 50)
    head.requires_grad_(False)
    with Watched() as frozen:
        head.loss(hidden, labels).backward()
    assert hidden.grad is not None
    assert not {"addmm_", "addmv_"} & set(frozen.names)
    head.requires_grad_(True)
    with Watched() as constant:
        head.loss(hidden.detach(), labels).backward()
    assert head.weight.grad is not None
    assert "mm" not in constant.names
    with torch.no_grad(), Watched() as judged:
        assert not head.loss(hidden, labels).requires_grad
    assert not {"addmm_", "addmv_", "mm", "scatter_add_"} & set(judged.names)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("rows", [0, 5])
def test_nothing_to_predict_costs_nothing(name: str, rows: int) -> None:
    head = HEADS[name](16, 60)
    hidden = torch.randn(rows, 16, requires_grad=True)
    loss = head.loss(hidden, torch.full((rows,), IGNORED))
    assert loss.item() == 0
    assert all(not gradient.any() for gradient in gradients(loss, head, hidden))
    assert head.surprisals(hidden, torch.full((rows,), IGNORED)).tolist() == [0.0] * rows


def test_a_tied_weight_gets_both_gradients() -> None:
    embedding = nn.Embedding(20, 4, dtype=torch.float64)
    head = SoftmaxHead(4, 20, weight=embedding.weight, chunk=2).double()
    ids, labels = torch.tensor([3, 1, 4, 1, 5]), torch.tensor([1, 4, 1, 5, 9])
    assert head.weight is embedding.weight
    found = torch.autograd.grad(head.loss(embedding(ids).tanh(), labels), embedding.weight)
    expected = torch.autograd.grad(plain_loss(head, embedding(ids).tanh(), labels), embedding.weight)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["softmax", "mixture"])
def test_second_derivatives_and_a_second_backward_are_refused(name: str) -> None:
    head = KINDS[name](3, 9).double()
    hidden, labels = examples(4, 3, 9)
    with refuses(type(head).__name__, error=ThroughtimeError):
        torch.autograd.grad(head.loss(hidden, labels), hidden, create_graph=True)
    loss = head.loss(hidden, labels)
    loss.backward(retain_graph=True)
    with refuses(type(head).__name__, error=ThroughtimeError):
        loss.backward()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("hidden_dtype", [torch.float32, torch.bfloat16])
def test_bf16_products_under_autocast(name: str, hidden_dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    head = HEADS[name](64, 3000)
    exact, labels = examples(40, 64, 3000, torch.float32)
    hidden = exact.detach().to(hidden_dtype).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found, judged, log_probs = (
            head.loss(hidden, labels),
            head.surprisals(hidden, labels),
            head.log_probs(hidden),
        )
    expected = head.loss(exact, labels)
    assert found.dtype == judged.dtype == log_probs.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=0)
    torch.testing.assert_close(judged.sum(), expected, rtol=2e-2, atol=0)
    for one, other in zip(gradients(found, head, hidden), gradients(expected, head, exact), strict=True):
        assert (one.float() - other).norm() <= 2e-2 * other.norm()
    assert all(parameter.dtype == torch.float32 for parameter in head.parameters())


def test_bf16_weights_gather_their_gradient_in_float32() -> None:
    head = softmax_head(16, 40, torch.float32, chunk=1)
    exact, labels = examples(400, 16, 40, torch.float32)
    expected = gradients(head.loss(exact, labels), head, exact)
    hidden = exact.detach().bfloat16().requires_grad_()
    found = gradients(head.bfloat16().loss(hidden, labels), head, hidden)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one.float() - other).norm() <= 2e-2 * other.norm()


@pytest.mark.parametrize("name", KINDS)
def test_one_distribution_behind_all_three(name: str) -> None:
    torch.manual_seed(2)
    head = KINDS[name](16, 100).double()
    hidden, labels = examples(50, 16, 100)
    log_probs = head.log_probs(hidden)
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(50, dtype=torch.float64))
    known = labels != IGNORED
    expected = torch.where(known, -log_probs.gather(1, labels.clamp(min=0)[:, None])[:, 0], 0.0)
    found = head.surprisals(hidden, labels)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=1e-9)
    assert not found.requires_grad
    loss = head.loss(hidden, labels)
    torch.testing.assert_close(loss, expected.sum(), rtol=1e-9, atol=0)
    close = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(
        gradients(loss, head, hidden), gradients(expected.sum(), head, hidden), **close
    )


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("label", [100, -1])
def test_a_label_outside_the_vocabulary_is_refused(name: str, label: int) -> None:
    head = HEADS[name](16, 100)
    with pytest.raises(RuntimeError, match="out of bounds"):
        head.loss(torch.zeros(1, 16), torch.tensor([label]))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [1, 8, 10])
def test_labels_that_are_not_one_a_row_are_refused(name: str, count: int) -> None:
    head = KINDS[name](16, 50)
    hidden, labels = torch.zeros(9, 16), torch.zeros(count, dtype=torch.long)
    for judged in (head.loss, head.surprisals):
        with refuses("labels", "9"):
            judged(hidden, labels)


def test_adaptive_head_is_torchs_own() -> None:
    torch.manual_seed(3)
    head = AdaptiveHead(64, 200, cutoffs=[10, 50, 120])
    hidden, labels = examples(80, 64, 200, torch.float32)
    known = labels != IGNORED
    expected = head.softmax(hidden[known], labels[known])
    torch.testing.assert_close(head.surprisals(hidden, labels)[known], -expected.output.detach())
    torch.testing.assert_close(head.loss(hidden, labels), -expected.output.sum())
    torch.testing.assert_close(head.log_probs(hidden), head.softmax.log_prob(hidden))


def test_adaptive_head_of_all_rows_is_that_of_the_rows_of_each_class() -> None:
    """A GPU takes all rows for each class, as choosing rows would make the host wait."""
    torch.manual_seed(4)
    head = AdaptiveHead(64, 200, cutoffs=[10, 50, 120])
    hidden, labels = examples(80, 64, 200, torch.float32)
    wanted = head.loss(hidden, labels)
    found = torch.stack(
        [chunked_loss.smoothed_surprisal(*one).smoothed for one in head.split_rows(hidden, labels)]
    ).sum()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients(found, head, hidden), gradients(wanted, head, hidden))
    each = torch.stack([chunked_loss.surprisals(*one) for one in head.split_rows(hidden, labels)]).sum(0)
    torch.testing.assert_close(each, head.surprisals(hidden, labels))


def test_a_class_without_words_has_a_gradient() -> None:
    """Of zeros: several processes must agree on which parameters have one."""
    head = AdaptiveHead(16, 100)
    head.loss(torch.ones(3, 16), torch.tensor([0, 1, 2])).backward()
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_wrong_sizes_are_refused_in_a_sentence() -> None:
    with refuses("tied weight", "[20, 3]", "[20, 4]"):
        SoftmaxHead(4, 20, weight=nn.Parameter(torch.zeros(20, 3)))
    with refuses("chunk", "0"):
        SoftmaxHead(4, 20, chunk=0)
    with refuses("adaptive head", "16"):
        AdaptiveHead(8, 1000)
    for cutoffs in ([], [0, 5], [5, 5], [5, 3], [20]):
        with refuses("cutoffs", "1", "19"):
            AdaptiveHead(64, 20, cutoffs=cutoffs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: captures a CUDA graph")
@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("head", [SoftmaxHead(32, 500, chunk=16), AdaptiveHead(32, 500)])
def test_a_cuda_graph_holds_a_head(head: Head, kernels: bool) -> None:
    head = head.cuda()
    hidden = torch.randn(40, 32, device="cuda", requires_grad=True)
    labels = torch.randint(500, (40,), device="cuda")

    def step() -> list[Tensor]:
        with torch.autocast("cuda", torch.bfloat16):
            loss = head.loss(hidden, labels)
        return [loss.detach(), *gradients(loss, head, hidden)]

    with nullcontext() if kernels else block_gpu():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = step()
        labels.copy_(torch.randint(500, (40,)))
        graph.replay()
        torch.testing.assert_close(replayed, step())


@pytest.mark.parametrize("bias", [True, False])
def test_log_probs_are_the_same_with_and_without_gradients(bias: bool) -> None:
    head = SoftmaxHead(4, 50, bias=bias).double()  # 50 is no multiple of what rows are aligned to
    hidden, _ = examples(70, 4, 50)  # more rows than are done at once
    with torch.no_grad():
        found = head.log_probs(hidden)
    assert found.is_contiguous()
    torch.testing.assert_close(found, head.log_probs(hidden))


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        (softmax_loss.TorchSoftmax, torch.float64),
        (softmax_loss.TorchSoftmax, torch.float32),
        (softmax_loss.TorchSoftmax, torch.bfloat16),
        (CudaSoftmax, torch.float32),
        (CudaSoftmax, torch.bfloat16),
    ],
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [True, False])
def test_a_gpus_way_through_the_softmax_is_a_cpus(kind, precision, smoothing, biased, monkeypatch, emulated):
    """The same sums and gradients, whichever passes they are computed in."""
    torch.manual_seed(0)
    own = torch.float64 if precision is torch.float64 else torch.float32
    hidden, weight = torch.randn(23, 12, dtype=own), torch.randn(37, 12, dtype=own)
    bias = torch.randn(37, dtype=own) if biased else None
    labels = torch.randint(0, 37, (23,)).index_fill_(0, torch.tensor([3, 22]), IGNORED)

    def found():
        given = [part.clone().requires_grad_() for part in (hidden, weight, bias) if part is not None]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16):
            head = SimpleNamespace(weight=given[1], bias=given[2] if biased else None, chunk=9)
            both = chunked_loss.smoothed_surprisal(head, given[0], labels, smoothing)
        return [*both, *torch.autograd.grad(both.smoothed, given)]

    expected = found()
    monkeypatch.setattr(softmax_loss, "CpuSoftmax", kind)
    close = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[precision]
    for ours, theirs in zip(found(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=close, atol=close * float(theirs.detach().abs().max()))


def test_a_gpus_way_through_the_softmax_starts_few_kernels(monkeypatch, emulated):
    """An update of a small model is as long as the number of kernels that it starts."""
    monkeypatch.setattr(softmax_loss, "CpuSoftmax", CudaSoftmax)
    head = softmax_head(16, 37, torch.float32)
    hidden = torch.randn(23, 16).bfloat16().requires_grad_()
    labels = torch.randint(37, (23,)).index_fill_(0, torch.tensor([3, 22]), IGNORED)
    started, build = [], driver.build

    def watched(name, *given):
        launch = build(name, *given)
        return lambda *arguments: started.append(name) or launch(*arguments)

    monkeypatch.setattr(driver, "build", watched)
    with Watched() as seen, torch.autocast("cpu", torch.bfloat16):
        head.loss(hidden, labels).backward()
    views = {
        "detach",
        "empty",
        "empty_like",
        "expand",
        "new_empty",
        "select",
        "slice",
        "t",
        "unbind",
        "unsqueeze",
    }
    own = [name for name in seen.names if name not in {*views, "ones_like", "promote_types", "view"}]
    assert sorted(started) == ["factor", "factor", "softmax"]
    assert sorted(own) == ["copy_"] * 2 + ["mm"] * 3 + ["mul_"] * 3 + ["sum"]


@pytest.mark.parametrize("kind", [softmax_loss.CpuSoftmax, softmax_loss.TorchSoftmax, CudaSoftmax])
def test_states_of_another_width_and_labels_elsewhere_are_refused(kind, monkeypatch, emulated):
    monkeypatch.setattr(softmax_loss, "CpuSoftmax", kind)
    head, labels = SoftmaxHead(10, 13), torch.zeros(5, dtype=torch.long)
    for width in (1, 8, 12, 16):
        with refuses("states", width, "10"):
            head.loss(torch.zeros(5, width), labels)
    with refuses("labels", "meta", "cpu"):
        head.loss(torch.zeros(5, 10), labels.to("meta"))
    narrow = head.surprisals(torch.zeros(5, 10), labels.int())
    assert torch.equal(narrow, head.surprisals(torch.zeros(5, 10), labels))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: a CPU has no tf32")
def test_tf32_does_not_round_the_bias(allow_tf32: Callable[[bool], None]) -> None:
    allow_tf32(True)
    head = SoftmaxHead(16, 50).cuda()
    with torch.no_grad():
        head.weight.zero_()
        head.bias.uniform_(-16, -8)
    labels = torch.arange(50, device="cuda")
    found = head.surprisals(torch.zeros(50, 16, device="cuda"), labels)
    torch.testing.assert_close(found, -head.bias.log_softmax(0), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_is_its_rows(name: str) -> None:
    head = KINDS[name](16, 100)
    hidden, labels = examples(12, 16, 100, torch.float32)
    found = head.loss(hidden.view(4, 3, 16), labels.view(4, 3))
    torch.testing.assert_close(found, head.loss(hidden, labels))
    with refuses("labels", "[3, 4]"):
        head.loss(hidden.view(4, 3, 16), labels.view(3, 4))


@pytest.mark.parametrize(
    "head",
    [SoftmaxHead(16, 100), AdaptiveHead(16, 100, cutoffs=[40, 70]), MixtureHead(16, 100, experts=3, width=4)],
)
def test_a_head_can_begin_with_the_words_frequencies(head: Head) -> None:
    counts = torch.arange(100, 0, -1)
    counts[-3:] = 0  # words that never occur
    head.begin_with(counts)
    if isinstance(head, MixtureHead):
        nn.init.zeros_(head.states.bias)
    found = head.log_probs(torch.zeros(1, 16)).exp()[0]
    wanted = (counts + 1) / (counts + 1).sum()
    if isinstance(head, AdaptiveHead):  # words of a class are equally likely
        wanted = torch.cat([wanted[:40], wanted[40:70].mean().expand(30), wanted[70:].mean().expand(30)])
    torch.testing.assert_close(found, wanted)
