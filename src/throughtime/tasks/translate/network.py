"""The networks of translators, built from the settings of `throughtime train translate`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import nn

from throughtime.config import build_config
from throughtime.errors import InputError, unknown
from throughtime.layers.attention import ATTENTIONS
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import build_cell
from throughtime.layers.stack import Stack
from throughtime.models.decoders import AttentionDecoder, ContextDecoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import Bridge, Decoder, EncoderDecoder, RecurrentEncoder
from throughtime.tasks.translate.config import SWITCHES, TranslateConfig


def _initial(config: TranslateConfig) -> str:
    """Return how the decoder's own first state is made."""
    return "learned" if config.switches.initial_state == "learned" else "zero"


def _build_stack(config: TranslateConfig, input_size: int) -> Stack:
    return config.build_stack(input_size, bidirectional=False, initial=_initial(config))


def _output_size(config: TranslateConfig) -> int:
    return config.embedding_size if config.tied else config.hidden_size


def _options(
    config: TranslateConfig, encoder: RecurrentEncoder, state_sizes: tuple[int, ...]
) -> dict[str, Any]:
    """Return the options of all decoders; without a bridge, the first state is the decoder's own."""
    bridge = None
    if config.switches.initial_state == "encoder":
        bridge = Bridge(encoder.state_sizes, state_sizes, project=config.bridge)
    return {
        "output_size": _output_size(config),
        "bridge": bridge,
        "dropout": config.embedding_dropout,
        "output_dropout": config.output_dropout,
    }


def _build_context(config: TranslateConfig, encoder: RecurrentEncoder, embedding: nn.Embedding) -> Decoder:
    _, feed_context, feed_token = config.switches
    input_size = feed_token * embedding.embedding_dim + feed_context * encoder.output_size
    stack = _build_stack(config, max(1, input_size))
    return ContextDecoder(
        stack,
        embedding if feed_token else None,
        context=config.context if feed_context else None,
        context_size=encoder.output_size,
        **_options(config, encoder, stack.state_sizes),
    )


def _build_attention(
    config: TranslateConfig, encoder: RecurrentEncoder, embedding: nn.Embedding, *, input_feeding: bool
) -> Decoder:
    stack = _build_stack(config, embedding.embedding_dim + input_feeding * _output_size(config))
    return AttentionDecoder(
        embedding,
        stack,
        ATTENTIONS[config.attention](stack.output_size, encoder.output_size, scaled=config.scaled),
        input_feeding=input_feeding,
        layer_norm=config.layer_norm,
        **_options(config, encoder, stack.state_sizes),
    )


def _build_conditional(
    config: TranslateConfig, encoder: RecurrentEncoder, embedding: nn.Embedding
) -> Decoder:
    from throughtime.models.conditional import ConditionalDecoder

    first = build_cell(config.cell, embedding.embedding_dim, config.hidden_size, initial=_initial(config))
    second = build_cell(config.cell, encoder.output_size, config.hidden_size)
    return ConditionalDecoder(
        embedding,
        first,
        second,
        ATTENTIONS[config.attention](first.output_size, encoder.output_size, scaled=config.scaled),
        layer_norm=config.layer_norm,
        **_options(config, encoder, first.state_sizes),
    )


PRESETS: dict[str, Callable[[TranslateConfig, RecurrentEncoder, nn.Embedding], Decoder]] = {
    **dict.fromkeys(SWITCHES, _build_context),
    "attention": partial(_build_attention, input_feeding=True),
    "attention-no-feeding": partial(_build_attention, input_feeding=False),
    "conditional": _build_conditional,
}
"""The functions that build a decoder, by the setting `structure`."""


def build_translator(
    config: TranslateConfig,
    source_vocabulary: int,
    target_vocabulary: int,
    *,
    bos_id: int,
    shared_embedding: bool = False,
) -> EncoderDecoder:
    """Build the network that the settings describe, with Xavier initialisation.

    Unless `encoder_size` is set, the encoder has as many units as the decoder, half of them per direction if
    it is bidirectional. The conditional decoder has two cells whatever `num_layers` is. With
    `shared_embedding`, both sides use the same embedding.
    """
    if config.structure not in PRESETS:
        raise unknown("structure", config.structure, PRESETS)
    if shared_embedding and source_vocabulary != target_vocabulary:
        raise InputError(
            "shared_embedding",
            f"needs one vocabulary, not {source_vocabulary} source and {target_vocabulary} target tokens",
        )
    target = nn.Embedding(target_vocabulary, config.embedding_size)
    source = target if shared_embedding else nn.Embedding(source_vocabulary, config.embedding_size)
    width = max(1, config.hidden_size // 2 if config.bidirectional else config.hidden_size)
    stack = config.build_stack(config.embedding_size, hidden_size=config.encoder_size or width)
    encoder = RecurrentEncoder(
        source, stack, dropout=config.embedding_dropout or 0.0, output_dropout=config.encoder_dropout
    )
    decoder = PRESETS[config.structure](config, encoder, target)
    tied_weight = cast(nn.Parameter, target.weight) if config.tied else None
    head = SoftmaxHead(decoder.output_size, target_vocabulary, weight=tied_weight)
    return initialise_network_(EncoderDecoder(encoder, decoder, head, bos_id=bos_id))


def build(
    structure: str,
    source_vocabulary: int,
    target_vocabulary: int,
    *,
    bos_id: int,
    shared_embedding: bool = False,
    **settings: Any,
) -> EncoderDecoder:
    """Build a network from settings given as keywords; by default without dropout and not tied.

    >>> import torch
    >>> model = build("attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16)
    >>> source, lengths = torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 4])
    >>> model.log_probs(source, lengths, torch.ones(6, 3, dtype=torch.long)).shape
    torch.Size([6, 3, 40])
    """
    plain = {"tied": False, "embedding_dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0}
    given = {"data": "", "structure": structure, **plain, **settings}
    config = build_config(TranslateConfig, given, "settings")
    return build_translator(
        config, source_vocabulary, target_vocabulary, bos_id=bos_id, shared_embedding=shared_embedding
    )
