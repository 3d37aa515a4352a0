"""The two graphs of an exported translator: the encoder, and one step of the decoder."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from throughtime.cells.base import State
from throughtime.export.graph import Graph
from throughtime.export.write import Case, ModelExport, draw_ragged, number_names
from throughtime.folder import ModelFolder
from throughtime.models.seq2seq import DecoderMemory, EncoderDecoder
from throughtime.search.generate import Memory
from throughtime.tasks.translate.predictor import Translator

SHAPES = ((1, 3, 1), (1, 40, 5), (3, 7, 2), (3, 60, 5))
"""Number of sentences, maximum number of tokens and hypotheses per sentence of the cases to check."""
TOP_K = 5


def build_export(translator: Translator) -> ModelExport:
    """Describe the export of a translator."""
    model, codecs = translator.model, translator.codecs
    return ModelExport(
        lambda int8: {
            "encoder": build_encoder_graph(model, int8),
            "decoder": build_decoder_graph(model, int8),
        },
        {
            "begin_id": codecs.begin_id,
            "end_id": codecs.end_id,
            "barred": codecs.excluded_ids,
            "shared_vocabulary": codecs.shared,
            "generation": translator.generation.model_dump(mode="json"),
        },
        lambda path: codecs.save(ModelFolder(path)),
        lambda: _cases(model, len(codecs.source.vocabulary), len(codecs.target.vocabulary)),
        'translate(["a sentence"], num_beams=5)[0].text',
    )


def build_encoder_graph(model: EncoderDecoder, int8: bool) -> Graph:
    """Build the encoder: sources [T, S] and lengths [S] in, first state and memory of each sentence out."""
    graph = Graph("encoder", int8=int8)
    source = graph.input("source", "int64", ["time", "sentences"])
    lengths = graph.input("lengths", "int64", ["sentences"])
    state, kept = model.decoder.graph_start(graph, model.encoder.graph(graph, source, lengths))
    like_state, like_kept = _example_shapes(model)
    graph.state_outputs("state", state, [like.shape[1] for like in like_state], "sentences")
    for (name, value), like in zip(number_names("kept", kept).items(), like_kept, strict=True):
        graph.output(value, name, _kind(like), _name_kept_axes(like))
    return graph


def build_decoder_graph(model: EncoderDecoder, int8: bool) -> Graph:
    """Build a decoder step: tokens and state in; ln P of all tokens, the `k` best and the next state out."""
    graph = Graph("decoder", int8=int8)
    last = graph.input("last", "int64", ["rows"])
    like_state, like_kept = _example_shapes(model)
    sizes = [like.shape[1] for like in like_state]
    state = graph.state_inputs("state", sizes, "rows")
    kept = tuple(
        graph.input(name, _kind(like), _name_kept_axes(like))
        for name, like in number_names("kept", like_kept).items()
    )
    count = graph.input("k", "int64", [1])
    stepped = model.decoder.graph_step(graph, last, state, kept)
    found = model.head.graph_log_probs(graph, stepped.output)
    count = graph.op("Min", count, graph.size(found, 1))
    values, ids = graph.ops("TopK", [found, count], 2, {"axis": -1})
    graph.output(found, "log_probs", "float32", ["rows", "vocabulary"])
    graph.output(values, "top_log_probs", "float32", ["rows", "likeliest"])
    graph.output(ids, "top_ids", "int64", ["rows", "likeliest"])
    if stepped.attention is not None:
        graph.output(stepped.attention, "attention", "float32", ["rows", "time"])
    graph.state_outputs("next", stepped.state, sizes, "rows")
    return graph


@torch.inference_mode()
def _example_shapes(model: EncoderDecoder) -> tuple[State, DecoderMemory]:
    """Return the state and the memory of a sentence of one token, for their shapes."""
    device = next(model.parameters()).device
    one = torch.zeros(1, 1, dtype=torch.long, device=device)
    state, memory = model.encode(one, torch.ones(1, dtype=torch.long))
    return state, memory.kept


def _kind(like: Tensor) -> str:
    return str(like.dtype).removeprefix("torch.")


def _name_kept_axes(like: Tensor) -> list[int | str]:
    if like.dim() == 2:  # padding [S, T], or a context [S, H]
        return ["sentences", "time" if like.dtype == torch.bool else like.shape[1]]
    return ["sentences", "time", like.shape[2]]


@torch.inference_mode()
def _cases(model: EncoderDecoder, source_size: int, target_size: int) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    for sentences, longest, each in SHAPES:
        source, lengths = draw_ragged(0, source_size, longest, sentences, draws, least=1)
        state, memory = model.encode(source.to(device), lengths)
        expected = {**number_names("state", state), **number_names("kept", memory.kept)}
        what = f"{sentences} x {longest}"
        yield Case.of("encoder", what, {"source": source, "lengths": lengths}, expected)

        owner = torch.arange(sentences, device=device).repeat_interleave(each)
        rows = tuple(part[owner] for part in state)
        last = torch.randint(target_size, (len(owner),), generator=draws)
        step = model.step(last.to(device), rows, Memory(memory.kept, owner, each))
        count = min(TOP_K, target_size)
        given = {"last": last, "k": torch.tensor([count])}
        given |= {**number_names("state", rows), **number_names("kept", memory.kept)}
        expected = {"log_probs": step.log_probs, **number_names("next", step.state), **step.extras}
        expected["top_log_probs"] = step.log_probs.topk(count).values
        yield Case.of("decoder", f"{what}, {each} each", given, expected)
