"""An encoder-decoder as search runs it in bf16."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.models.softmax_loss import sum_dtype
from throughtime.search.generate import Memory, Step


class Bf16Model:
    """A step model whose products are in bf16, of weights that are rounded once for a search.

    Autocast alone would round them at every step. As there, states and softmax stay in float32. The model's
    weights may change from search to search: each `start` rounds them anew.

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

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, State, Memory]:
        """Round the weights and read the sources, with the model's own encoder."""
        self._twin = self._refreshed()
        with torch.autocast(self._device.type, torch.bfloat16):
            last, state, memory = self._twin.start(prompts)
        return last, tuple(tensor.to(sum_dtype(tensor.dtype)) for tensor in state), memory

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token a row."""
        assert self._twin is not None, "a search starts before it steps"
        with torch.autocast(self._device.type, torch.bfloat16):
            return self._twin.step(last, state, memory)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    # A copy that is made in inference mode could not be written on outside.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _refreshed(self) -> EncoderDecoder:
        """The copy, with the weights that the model has now."""
        if self._twin is None or next(self._twin.head.parameters()).device != self._device:
            return self._copied()
        for own, weight in zip(_writing_weights(self._twin), _writing_weights(self.model), strict=True):
            own.copy_(weight)
        return self._twin

    def _copied(self) -> EncoderDecoder:
        model = self.model
        decoder, head = copy.deepcopy((model.decoder, model.head))
        for weight in nn.ModuleList([decoder, head]).parameters():
            weight.grad = None
            if weight.dim() > 1 and weight.is_floating_point():  # a bias or a norm is cheap as it is
                weight.data = weight.data.bfloat16()
        return EncoderDecoder(model.encoder, decoder.eval(), head.eval(), bos_id=model.bos_id)


def _writing_weights(model: EncoderDecoder) -> list[Tensor]:
    """The weights of what writes, each once."""
    return list(nn.ModuleList([model.decoder, model.head]).parameters())
