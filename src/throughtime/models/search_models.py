"""Models that search runs in place of an encoder-decoder: in bf16, and over a few candidates per sentence."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from throughtime.cells.base import State
from throughtime.models.heads import Head, SoftmaxHead, log_softmax, sum_dtype
from throughtime.models.seq2seq import DecoderOutput, DecodingModel, EncoderDecoder
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import Finished, Memory, Step
from throughtime.search.step_model import StepModel


def round_up_rows(rows: int) -> int:
    """Return the rows that a product is computed for: few numbers, and not many more rows than needed.

    >>> [round_up_rows(rows) for rows in (1, 8, 9, 65, 640)]
    [8, 8, 16, 96, 640]
    """
    step = 8 if rows <= 64 else 32
    return -(-rows // step) * step


def linear_in_few_shapes(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` with weights in bf16, whose rows are rounded up.

    On a CPU oneDNN compiles a product in bf16 for each new shape, which takes longer than a small product
    itself; and the rows of a search are ever fewer.
    """
    flat = x.reshape(-1, x.shape[-1])
    rows = round_up_rows(len(flat))
    if rows != len(flat):
        filled = flat.new_empty(rows, flat.shape[1], dtype=weight.dtype)
        filled[: len(flat)] = flat
        filled[len(flat) :] = 0
        return linear(filled, weight, bias)[: len(flat)].view(*x.shape[:-1], -1)
    return linear(x, weight, bias)


class ProductsInFewShapes(TorchFunctionMode):
    """Inside the block, each `linear` with weights in bf16 is `linear_in_few_shapes`."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), options: Any = None
    ) -> Any:
        """Replace `linear`; all else stays as it is."""
        options = options or {}
        if function is nn.functional.linear:
            weight = args[1] if len(args) > 1 else options["weight"]
            if weight.dtype == torch.bfloat16:
                function = linear_in_few_shapes
        return function(*args, **options)


class Bf16Model(DecodingModel):
    """A step model with products in bf16, whose weights are rounded once per search.

    Autocast alone would round them at every step. States and softmax stay in float32. The weights of the
    model may change between searches: each `start` rounds them again.

    >>> from throughtime.tasks.translate.network import build
    >>> model = build("attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16).eval()
    >>> in_bf16 = Bf16Model(model)
    >>> step = in_bf16.step(*in_bf16.start([[5, 6, 7]]))
    >>> step.log_probs.dtype, [part.dtype for part in step.state]
    (torch.float32, [torch.float32, torch.bfloat16])
    """

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model
        self._twin: EncoderDecoder | None = None

    def prepare(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """See `EncoderDecoder`."""
        return self.model.prepare(prompts)

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, State, Memory]:
        """Round the weights and read the sources with the model's own encoder."""
        self._twin = self._update_copy()
        with torch.autocast(self._device.type, torch.bfloat16):
            last, state, memory = self._twin.read(source, lengths)
        return last, tuple(tensor.to(sum_dtype(tensor.dtype)) for tensor in state), memory

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row."""
        with self._rounded_products() as twin:
            return twin.step(last, state, memory)

    def step_scores(self, last: Tensor, state: State, memory: Memory) -> Step:
        """See `EncoderDecoder`."""
        with self._rounded_products() as twin:
            return twin.step_scores(last, state, memory)

    def decode(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Feed one token per row; return what the head reads."""
        with self._rounded_products() as twin:
            return twin.decode(last, state, memory)

    @contextmanager
    def _rounded_products(self) -> Iterator[EncoderDecoder]:
        """Compute products in bf16 inside the block, on a CPU in few shapes; yields the copy."""
        assert self._twin is not None, "a search starts before it steps"
        few = ProductsInFewShapes() if self._device.type == "cpu" else nullcontext()
        with torch.autocast(self._device.type, torch.bfloat16), few:
            yield self._twin

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """See `EncoderDecoder`; the copy, whose weights are rounded in place."""
        return (self._twin or self.model).recorded_modules

    @property
    def reading_modules(self) -> Sequence[nn.Module]:
        """See `EncoderDecoder`: the model, and the copy, into which its weights are rounded."""
        return (*self.model.reading_modules, *(() if self._twin is None else self._twin.recorded_modules))

    @property
    def attends(self) -> bool:
        """Whether the model has attention."""
        return self.model.attends

    @property
    def head(self) -> Head:  # type: ignore[override]
        """The output layer, in bf16 once a search has started."""
        return (self._twin or self.model).head

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    # A copy that is made in inference mode could not be changed outside of it.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _update_copy(self) -> EncoderDecoder:
        """Return the copy, with the present weights of the model."""
        if self._twin is None or next(self._twin.head.parameters()).device != self._device:
            return self._copy()
        torch._foreach_copy_(_decoder_weights(self._twin), _decoder_weights(self.model))
        return self._twin

    def _copy(self) -> EncoderDecoder:
        model = self.model
        decoder, head = copy.deepcopy((model.decoder, model.head))
        for module in nn.ModuleList([decoder, head]).modules():
            for name, weight in module.named_parameters(recurse=False):
                weight.grad = None
                # Norms stay as they are, and so do biases on a CPU. On a GPU autocast would round these at
                # each step, in a kernel for each.
                rounded = weight.dim() > 1 or (
                    name == "bias" and weight.is_cuda and not isinstance(module, nn.LayerNorm)
                )
                if rounded and weight.is_floating_point():
                    weight.data = weight.data.bfloat16()
        return EncoderDecoder(model.encoder, decoder.eval(), head.eval(), bos_id=model.bos_id)


def _decoder_weights(model: EncoderDecoder) -> list[Tensor]:
    """Return the weights of the decoder and the head, each once."""
    return list(nn.ModuleList([model.decoder, model.head]).parameters())


CANDIDATES_STEP = 64
"""Candidates of sentences together are filled up to a multiple of this, so that products have few shapes."""
SENTENCES_TOGETHER = 8
"""Sentences whose candidates share a product: more make it wider, fewer make it slower per candidate."""

Candidates = Sequence[NDArray[np.int64]]
"""The target tokens that each sentence allows, rising."""


def output_device(model: StepModel) -> torch.device | None:
    """Return the device of the output layer; None if it cannot be computed for some tokens alone."""
    if isinstance(model, Ensemble):
        devices = {output_device(member) for member in model.models}
        return devices.pop() if len(devices) == 1 else None
    head = getattr(model, "head", None)
    return head.weight.device if isinstance(head, SoftmaxHead) and hasattr(model, "decode") else None


def restrict_model(model: StepModel, candidates: Candidates, *, renumber: bool) -> StepModel:
    """Return the model with only these candidates for each prompt that it will start with."""
    if isinstance(model, Ensemble):
        members = [restrict_model(member, candidates, renumber=renumber) for member in model.models]
        return Ensemble(members, model.weights)
    return ShortlistModel(cast(DecodingModel, model), candidates, renumber=renumber)


def to_vocabulary(results: list[list[Finished]], candidates: Candidates) -> list[list[Finished]]:
    """Return the results of a search over renumbered tokens, in the ids of the vocabulary."""
    return [
        [replace(result, tokens=tuple(ids[list(result.tokens)].tolist())) for result in best]
        for ids, best in zip(candidates, results, strict=True)
    ]


class ShortlistModel(StepModel):
    """A model whose output layer has only the candidates of each sentence; other tokens have probability 0.

    With `renumber`, the tokens of a sentence are the places in its list of candidates, so that search too
    sees a small vocabulary; the special tokens must have the same number in all lists. A sentence never
    depends on the candidates of others: products are over the candidates of some sentences together, but
    each row takes only its own into the softmax.

    >>> from throughtime.tasks.translate.network import build
    >>> model = build("attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16).eval()
    >>> few = ShortlistModel(model, [np.array([0, 1, 2, 17, 39])])
    >>> step = few.step(*few.start([[5, 6, 7]]))
    >>> step.log_probs.shape, int((step.log_probs > -torch.inf).sum())
    (torch.Size([1, 40]), 5)
    """

    def __init__(self, model: DecodingModel, candidates: Candidates, *, renumber: bool = False) -> None:
        self.model, self.candidates, self.renumber = model, candidates, renumber
        self._weights: list[Tensor] = []  # for each group of sentences, [candidates of the group, H]

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, State, Memory]:
        """Read the prompts, and collect the output weights of their candidates."""
        last, state, memory = self.model.start(prompts)
        head = self._head
        device, width = last.device, max(map(len, self.candidates))
        ids = np.zeros((len(prompts), width), dtype=np.int64)
        column, missing = np.zeros_like(ids), np.ones(ids.shape, dtype=bool)
        self._weights = []
        for first in range(0, len(prompts), SENTENCES_TOGETHER):
            group = self.candidates[first : first + SENTENCES_TOGETHER]
            union = np.unique(np.concatenate(group))
            filled = np.resize(union, -(-len(union) // CANDIDATES_STEP) * CANDIDATES_STEP)
            self._weights.append(head.weight.detach()[torch.from_numpy(filled).to(device)])
            for sentence, allowed in enumerate(group, first):
                ids[sentence, : len(allowed)] = allowed
                column[sentence, : len(allowed)] = np.searchsorted(union, allowed)
                missing[sentence, : len(allowed)] = False
        tokens, columns = torch.from_numpy(ids).to(device), torch.from_numpy(column).to(device)
        # The bias of each candidate; -inf bars the places that fill up shorter lists.
        bias = torch.zeros(ids.shape, device=device) if head.bias is None else head.bias.detach()[tokens]
        bias = bias.masked_fill(torch.from_numpy(missing).to(device), -torch.inf)
        group_of = torch.arange(len(prompts), device=device) // SENTENCES_TOGETHER
        kept = (tokens, columns, bias, group_of, *memory.kept)
        return last, state, replace(memory, kept=kept)

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return ln P of the candidates, or of all tokens."""
        tokens, columns, bias, group_of, *kept = memory.kept
        owner = memory.owner
        if self.renumber:
            last = tokens[owner, last]
        outputs, reached, extras = self.model.decode(last, state, replace(memory, kept=tuple(kept)))
        scores = self._score(outputs, columns[owner], group_of[owner])
        log_probs = log_softmax(scores + bias[owner])
        if not self.renumber:
            whole = log_probs.new_full((len(owner), len(self._head.weight)), -torch.inf)
            # Places that fill up a list have the token 0, which may be a candidate, too.
            log_probs = whole.scatter_reduce_(1, tokens[owner], log_probs, "amax")
        return Step(log_probs, reached, extras)

    @property
    def _head(self) -> SoftmaxHead:
        head = self.model.head
        assert isinstance(head, SoftmaxHead)
        return head

    def _score(self, outputs: Tensor, columns: Tensor, groups: Tensor) -> Tensor:
        """Return the products of each row with the weights of its candidates, [rows, candidates]."""
        dtype = self._head.weight.dtype
        product = linear_in_few_shapes if dtype == torch.bfloat16 and outputs.device.type == "cpu" else linear
        each = torch.bincount(groups, minlength=len(self._weights)).tolist()
        groups_of_rows = zip(self._weights, outputs.to(dtype).split(each), columns.split(each), strict=True)
        return torch.cat(
            [
                product(hidden, weights).gather(1, allowed)
                for weights, hidden, allowed in groups_of_rows
                if len(hidden)
            ]
        )
