"""A network for `translate`: an encoder-decoder whose decoder sees the encoder's last state only."""

from __future__ import annotations

from typing import Any

from torch import nn

from throughtime.layers.stack import Stack
from throughtime.models.decoders import ContextDecoder
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import EncoderDecoder


class PlainSeq2Seq(EncoderDecoder):
    """Sutskever et al. (2014), with one layer on each side."""


def build(config: Any, assets: Any) -> PlainSeq2Seq:
    """The network for the vocabularies of both languages."""
    source, target = (len(codec.vocabulary) for codec in assets)
    size = config.hidden_size
    encoder = RecurrentEncoder(nn.Embedding(source, size), Stack("gru", size, size))
    decoder = ContextDecoder(
        Stack("gru", 2 * size, size), nn.Embedding(target, size), context="last", context_size=size
    )
    return PlainSeq2Seq(encoder, decoder, SoftmaxHead(size, target), bos_id=assets.begin_id)
