"""The two graphs of an exported translator: the encoder, and one step of the decoder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from throughtime.cells.base import State
from throughtime.folder import ModelFolder
from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, draw_ragged, number_names
from throughtime.models.heads import SoftmaxHead
from throughtime.models.seq2seq import DecoderMemory, EncoderDecoder
from throughtime.runtime.shortlist import Shortlist
from throughtime.search.generate import Memory
from throughtime.tasks.translate.predictor import Translator

SHAPES = ((1, 3, 1), (1, 40, 5), (3, 7, 2), (3, 60, 5))
"""Number of sentences, maximum number of tokens and hypotheses per sentence of the cases to check."""
TOP_K = 5
SHARE_ALLOWED = 0.6
_END = 2**31 - 1
"""The end of an axis, for `Slice`."""


def build_export(translator: Translator) -> ModelExport:
    """Describe the export of a translator."""
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
    graph = Graph("encoder", int8=int8)
    source = graph.input("source", "int64", ["time", "sentences"])
    lengths = graph.input("lengths", "int64", ["sentences"])
    state, kept = model.decoder.graph_start(graph, model.encoder.graph(graph, source, lengths))
    like_state, like_kept = _example_shapes(model)
    graph.state_outputs("state", state, [like.shape[1] for like in like_state], "sentences")
    for (name, value), like in zip(number_names("kept", kept).items(), like_kept, strict=True):
        graph.output(value, name, _kind(like), _name_kept_axes(like))
    return graph


def build_shortlist_graph(shortlist: Shortlist) -> Graph:
    """Build a graph without inputs, whose outputs are the tables of a shortlist."""
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
    hidden = _add_candidates(graph, model, stepped.output, count) if shortlist else stepped.output
    found = model.head.graph_log_probs(graph, hidden)
    count = graph.op("Min", count, graph.size(found, 1))
    values, ids = graph.ops("TopK", [found, count], 2, {"axis": -1})
    graph.output(found, "log_probs", "float32", ["rows", "vocabulary"])
    graph.output(values, "top_log_probs", "float32", ["rows", "likeliest"])
    graph.output(ids, "top_ids", "int64", ["rows", "likeliest"])
    if stepped.attention is not None:
        graph.output(stepped.attention, "attention", "float32", ["rows", "time"])
    graph.state_outputs("next", stepped.state, sizes, "rows")
    return graph


def _add_candidates(graph: Graph, model: EncoderDecoder, hidden: str, count: str) -> str:
    """Add the output layer for candidates; return the rows that are left for that of all tokens."""
    candidates = graph.input("candidates", "int64", ["candidates"])
    allowed = graph.input("allowed", "bool", ["sentences", "candidates"])
    head = model.head
    assert isinstance(head, SoftmaxHead)
    number, sentences = graph.size(candidates, 0), graph.size(allowed, 0)
    each = graph.op("Div", graph.size(hidden, 0), sentences)
    each = graph.op("Mul", each, graph.op("Min", number, graph.axes(1)))  # 0 without candidates
    rows = graph.op("Mul", each, sentences)
    axis, end = graph.axes(0), graph.axes(_END)
    scores = graph.linear_rows(
        graph.op("Slice", hidden, axis, rows, axis), head.weight, head.bias, candidates
    )
    table = graph.op("Reshape", scores, graph.sizes(sentences, each, number), allowzero=1)
    barred = graph.op("Not", graph.op("Unsqueeze", allowed, graph.axes(1)))
    table = graph.op("Where", barred, graph.constant(-np.inf), table)
    log_probs = graph.op("LogSoftmax", table, axis=-1)
    log_probs = graph.op("Reshape", log_probs, graph.sizes(rows, number), allowzero=1)
    values, places = graph.ops("TopK", [log_probs, graph.op("Min", count, number)], 2, {"axis": -1})
    graph.output(values, "candidate_log_probs", "float32", ["candidate rows", "likeliest candidates"])
    ids = graph.op("Gather", candidates, places)
    graph.output(ids, "candidate_ids", "int64", ["candidate rows", "likeliest candidates"])
    return graph.op("Slice", hidden, rows, end, axis)


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
def _cases(
    model: EncoderDecoder, source_size: int, target_size: int, shortlist: Shortlist | None
) -> Iterator[Case]:
    if shortlist is not None:
        tables = {name: torch.from_numpy(array) for name, array in vars(shortlist).items()}
        yield Case.of("shortlist", "its tables", {}, tables)
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
        if shortlist is not None:
            no_ids, nothing = torch.zeros(0, dtype=torch.long), torch.zeros(sentences, 0, dtype=torch.bool)
            given |= {"candidates": no_ids, "allowed": nothing}
        yield Case.of("decoder", f"{what}, {each} each", given, expected)
        if shortlist is not None:
            candidates = torch.randperm(target_size, generator=draws)[: max(count, target_size // 3)]
            allowed = torch.rand(sentences, len(candidates), generator=draws) < SHARE_ALLOWED
            allowed[:, :count] = True
            own = step.log_probs[:, candidates.to(device)]
            own = own.masked_fill(~allowed.to(device)[owner], -torch.inf).log_softmax(1)
            given |= {"candidates": candidates, "allowed": allowed}
            best = {"candidate_log_probs": own.topk(count).values, **number_names("next", step.state)}
            yield Case.of("decoder", f"{what}, {each} each, {len(candidates)} candidates", given, best)
