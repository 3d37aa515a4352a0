"""An encoder-decoder that search runs in bf16."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from throughtime.cells.base import State
from throughtime.models.heads import Head, sum_dtype
from throughtime.models.seq2seq import DecoderOutput, DecodingModel, EncoderDecoder
from throughtime.search.generate import Memory, Step


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
