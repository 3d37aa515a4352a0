"""Encoder-decoders by name, from plain arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import nn

from throughtime.cells import CELLS
from throughtime.cells.initialise import xavier_
from throughtime.errors import InputError, unknown
from throughtime.layers.attention import attention_named
from throughtime.layers.stack import Stack
from throughtime.models.attention_decoder import AttentionDecoder
from throughtime.models.bridge import Bridge
from throughtime.models.conditional_decoder import ConditionalDecoder
from throughtime.models.context_decoder import ContextDecoder
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import Decoder, EncoderDecoder


@dataclass(frozen=True)
class Plan:
    """What a decoder is built from, all sizes known."""

    cell: str
    hidden_size: int
    num_layers: int
    output_size: int
    memory_size: int  # the width of the encoder's outputs
    encoder_state: tuple[int, ...]
    context: str
    attention: str
    scaled: bool
    bridge: bool
    embedding_dropout: float
    hidden_dropout: float
    output_dropout: float
    layer_norm: bool

    def stack(self, input_size: int, initial: str = "zero") -> Stack:
        """The decoder's layers."""
        return Stack(
            self.cell,
            input_size,
            self.hidden_size,
            self.num_layers,
            dropout=self.hidden_dropout,
            layer_norm=self.layer_norm,
            initial=initial,
        )

    def bridged(self, decoder_sizes: tuple[int, ...]) -> Bridge:
        """The way from the encoder's state."""
        return Bridge(self.encoder_state, decoder_sizes, project=self.bridge)


def _context(
    plan: Plan, embedding: nn.Embedding, *, state_from_encoder: bool, feeds_context: bool, feeds_input: bool
) -> Decoder:
    fed = feeds_input * embedding.embedding_dim + feeds_context * plan.memory_size
    stack = plan.stack(max(1, fed), initial="zero" if state_from_encoder else "learned")
    return ContextDecoder(
        stack,
        embedding if feeds_input else None,
        context=plan.context if feeds_context else None,
        context_size=plan.memory_size,
        bridge=plan.bridged(stack.state_sizes) if state_from_encoder else None,
        output_size=plan.output_size,
        dropout=plan.embedding_dropout,
        output_dropout=plan.output_dropout,
    )


def _attention(plan: Plan, embedding: nn.Embedding, *, input_feeding: bool) -> Decoder:
    stack = plan.stack(embedding.embedding_dim + (plan.output_size if input_feeding else 0))
    return AttentionDecoder(
        embedding,
        stack,
        attention_named(plan.attention, stack.output_size, plan.memory_size, scaled=plan.scaled),
        output_size=plan.output_size,
        input_feeding=input_feeding,
        bridge=plan.bridged(stack.state_sizes),
        dropout=plan.embedding_dropout,
        output_dropout=plan.output_dropout,
        layer_norm=plan.layer_norm,
    )


def _conditional(plan: Plan, embedding: nn.Embedding) -> Decoder:
    first = CELLS[plan.cell](embedding.embedding_dim, plan.hidden_size)
    second = CELLS[plan.cell](plan.memory_size, plan.hidden_size)
    return ConditionalDecoder(
        embedding,
        first,
        second,
        attention_named(plan.attention, first.output_size, plan.memory_size, scaled=plan.scaled),
        output_size=plan.output_size,
        bridge=plan.bridged(first.state_sizes),
        dropout=plan.embedding_dropout,
        output_dropout=plan.output_dropout,
        layer_norm=plan.layer_norm,
    )


PRESETS: dict[str, Callable[[Plan, nn.Embedding], Decoder]] = {
    "state-only": partial(_context, state_from_encoder=True, feeds_context=False, feeds_input=False),
    "context-only": partial(_context, state_from_encoder=False, feeds_context=True, feeds_input=False),
    "context-and-input": partial(_context, state_from_encoder=False, feeds_context=True, feeds_input=True),
    "main": partial(_context, state_from_encoder=True, feeds_context=True, feeds_input=True),
    "attention": partial(_attention, input_feeding=True),
    "attention-no-feeding": partial(_attention, input_feeding=False),
    "conditional": _conditional,
}
"""Decoders. The first three know the source by their first state, by c, by c beside their own last token."""


def build(
    preset: str,
    source_vocabulary: int,
    target_vocabulary: int,
    *,
    bos_id: int,
    cell: str = "gru",
    embedding_size: int = 256,
    hidden_size: int = 512,
    encoder_hidden_size: int | None = None,
    num_layers: int = 1,
    bidirectional: bool = True,
    context: str = "last",
    attention: str = "additive",
    scaled: bool = False,
    bridge: bool = True,
    tied: bool = False,
    shared_embedding: bool = False,
    embedding_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    encoder_dropout: float = 0.0,
    output_dropout: float = 0.0,
    layer_norm: bool = False,
) -> EncoderDecoder:
    """A preset of these sizes, with Xavier's first weights.

    `hidden_size` is the decoder's; the encoder has the same width, in two halves where it reads both ways,
    unless `encoder_hidden_size` says how many units each way. `num_layers` counts those of each side; the
    conditional decoder has its two cells at any depth. Dropout falls on embedded tokens, between layers, on
    the encoder's outputs, and on what the head sees. `tied` makes the output's weights the target's
    embedding, `shared_embedding` both sides' embeddings one.

    >>> import torch
    >>> model = build("attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16)
    >>> source, lengths = torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 4])
    >>> model.log_probs(source, lengths, torch.ones(6, 3, dtype=torch.long)).shape
    torch.Size([6, 3, 40])
    """
    if preset not in PRESETS:
        raise unknown("structure", preset, PRESETS)
    if shared_embedding and source_vocabulary != target_vocabulary:
        raise InputError(
            "shared_embedding",
            f"needs one vocabulary, not {source_vocabulary} source and {target_vocabulary} target tokens",
        )
    target_embedding = nn.Embedding(target_vocabulary, embedding_size)
    source_embedding = (
        target_embedding if shared_embedding else nn.Embedding(source_vocabulary, embedding_size)
    )
    stack = Stack(
        cell,
        embedding_size,
        encoder_hidden_size or max(1, hidden_size // 2 if bidirectional else hidden_size),
        num_layers,
        bidirectional=bidirectional,
        dropout=hidden_dropout,
        layer_norm=layer_norm,
    )
    encoder = RecurrentEncoder(
        source_embedding, stack, dropout=embedding_dropout, output_dropout=encoder_dropout
    )
    plan = Plan(
        cell=cell,
        hidden_size=hidden_size,
        num_layers=num_layers,
        output_size=embedding_size if tied else hidden_size,
        memory_size=encoder.output_size,
        encoder_state=encoder.state_sizes,
        context=context,
        attention=attention,
        scaled=scaled,
        bridge=bridge,
        embedding_dropout=embedding_dropout,
        hidden_dropout=hidden_dropout,
        output_dropout=output_dropout,
        layer_norm=layer_norm,
    )
    decoder = PRESETS[preset](plan, target_embedding)
    tied_weight = cast(nn.Parameter, target_embedding.weight) if tied else None
    head = SoftmaxHead(decoder.output_size, target_vocabulary, weight=tied_weight)
    model = xavier_(EncoderDecoder(encoder, decoder, head, bos_id=bos_id))
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            # Xavier counts all words of a table, of which a step reads one: its tiny vectors teach the layers
            # above nothing for hundreds of updates.
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
    return model
