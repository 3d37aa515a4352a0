"""The networks of translators, built from the settings of `throughtime train translate`, and their graphs.

An exported translator is two graphs: the encoder, and one step of the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from throughtime.config import build_config
from throughtime.errors import InputError, unknown
from throughtime.folder import ModelFolder
from throughtime.layers.attention import ATTENTIONS
from throughtime.layers.embedding import initialise_network_
from throughtime.layers.layer import build_cell
from throughtime.layers.stack import Stack
from throughtime.models.decoders import AttentionDecoder, ContextDecoder
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import Bridge, Decoder, EncoderDecoder
from throughtime.runtime.shortlist import Shortlist
from throughtime.tasks.translate.config import SWITCHES, TranslateConfig

if TYPE_CHECKING:
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.tasks.translate.model import Translator

SHAPES = ((1, 3, 1), (1, 40, 5), (3, 7, 2), (3, 60, 5))
"""Number of sentences, maximum number of tokens and hypotheses per sentence at which an export is checked."""
TOP_K, SHARE_ALLOWED = 5, 0.6
"""Likeliest tokens, and the share of the candidates that a sentence allows, in these checks."""


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


def build_export(translator: Translator) -> ModelExport:
    """Describe the export of a translator."""
    from throughtime.graphs.write import ModelExport

    model, codecs, shortlist = translator.model, translator.codecs, translator.shortlist
    if not isinstance(model.head, SoftmaxHead):
        shortlist = None

    def build_graphs(int8: bool) -> dict[str, Graph]:
        graphs = {
            "encoder": build_encoder_graph(model, int8),
            "decoder": build_decoder_graph(model, int8, shortlist=shortlist is not None),
        }
        return graphs if shortlist is None else {**graphs, "shortlist": build_shortlist_graph(shortlist)}

    return ModelExport(
        build_graphs,
        {
            "begin_id": codecs.begin_id,
            "end_id": codecs.end_id,
            "barred": codecs.excluded_ids,
            "shared_vocabulary": codecs.shared,
            "generation": translator.generation.model_dump(mode="json"),
        },
        lambda path: codecs.save(ModelFolder(path)),
        lambda: _cases(model, len(codecs.source.vocabulary), len(codecs.target.vocabulary), shortlist),
        'translate(["a sentence"], num_beams=5)[0].text',
    )


def build_encoder_graph(model: EncoderDecoder, int8: bool) -> Graph:
    """Build the encoder: sources [T, S] and lengths [S] in, first state and memory of each sentence out."""
    from throughtime.graphs.graph import Graph
    from throughtime.tasks.decoder_graphs import add_start, describe_memory

    graph = Graph("encoder", int8=int8)
    source = graph.input("source", "int64", ["time", "sentences"])
    lengths = graph.input("lengths", "int64", ["sentences"])
    add_start(graph, model, source, lengths, describe_memory(model, [0]))
    return graph


def build_shortlist_graph(shortlist: Shortlist) -> Graph:
    """Build a graph without inputs, whose outputs are the tables of a shortlist."""
    from throughtime.graphs.graph import Graph

    graph = Graph("shortlist")
    for name, array in vars(shortlist).items():
        kind = str(array.dtype)
        graph.output(graph.constant(array, kind), name, kind, [len(array)])
    return graph


def build_decoder_graph(model: EncoderDecoder, int8: bool, *, shortlist: bool = False) -> Graph:
    """Build a decoder step: tokens and state in; ln P of all tokens, the `k` best and the next state out.

    With `shortlist` it has the further inputs `candidates` and `allowed`. If there are candidates, the
    outputs for all tokens have no rows and cost no time, and `candidate_log_probs` and `candidate_ids` are
    the `k` best of those that are allowed for each sentence; without candidates it is the other way round.
    """
    from throughtime.graphs.graph import Graph
    from throughtime.tasks.decoder_graphs import add_candidates, add_step, describe_memory

    graph, shapes = Graph("decoder", int8=int8), describe_memory(model, [0])
    stepped = add_step(graph, model, shapes)
    count = graph.input("k", "int64", [1])
    hidden = add_candidates(graph, model.head, stepped.output, count) if shortlist else stepped.output
    log_probs = model.head.graph_log_probs(graph, hidden)
    count = graph.op("Min", count, graph.size(log_probs, 1))
    values, ids = graph.ops("TopK", [log_probs, count], 2, {"axis": -1})
    graph.output(log_probs, "log_probs", "float32", ["rows", "vocabulary"])
    graph.output(values, "top_log_probs", "float32", ["rows", "likeliest"])
    graph.output(ids, "top_ids", "int64", ["rows", "likeliest"])
    if stepped.attention is not None:
        graph.output(stepped.attention, "attention", "float32", ["rows", "time"])
    graph.state_outputs("next", stepped.state, shapes.sizes, "rows")
    return graph


@torch.inference_mode()
def _cases(
    model: EncoderDecoder, source_size: int, target_size: int, shortlist: Shortlist | None
) -> Iterator[Case]:
    from throughtime.graphs.write import Case, draw_ragged
    from throughtime.tasks.decoder_graphs import check_start

    if shortlist is not None:
        tables = {name: torch.from_numpy(array) for name, array in vars(shortlist).items()}
        yield Case.of("shortlist", "its tables", {}, tables)
    draws = torch.Generator().manual_seed(0)
    for sentences, longest, each in SHAPES:
        source, lengths = draw_ragged(0, source_size, longest, sentences, draws, least=1)
        started, case = check_start(model, source, lengths, each, target_size, draws)
        step, owner, inputs, reached = case
        what = f"{sentences} x {longest}"
        yield Case.of("encoder", what, {"source": source, "lengths": lengths}, started)
        count = min(TOP_K, target_size)
        inputs["k"] = torch.tensor([count])
        expected = {"log_probs": step.log_probs, **reached, **step.extras}
        expected["top_log_probs"] = step.log_probs.topk(count).values
        if shortlist is not None:
            no_ids, nothing = torch.zeros(0, dtype=torch.long), torch.zeros(sentences, 0, dtype=torch.bool)
            inputs |= {"candidates": no_ids, "allowed": nothing}
        yield Case.of("decoder", f"{what}, {each} each", inputs, expected)
        if shortlist is not None:
            candidates = torch.randperm(target_size, generator=draws)[: max(count, target_size // 3)]
            allowed = torch.rand(sentences, len(candidates), generator=draws) < SHARE_ALLOWED
            allowed[:, :count] = True
            scores = step.log_probs[:, candidates.to(owner.device)]
            scores = scores.masked_fill(~allowed.to(owner.device)[owner], -torch.inf).log_softmax(1)
            inputs |= {"candidates": candidates, "allowed": allowed}
            best = {"candidate_log_probs": scores.topk(count).values, **reached}
            yield Case.of("decoder", f"{what}, {each} each, {len(candidates)} candidates", inputs, best)
