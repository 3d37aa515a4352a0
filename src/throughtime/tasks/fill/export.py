"""The export of a model that fills blanks: one graph from ids and places to ln P of every word there."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, draw_ragged
from throughtime.tasks.fill.network import MaskedTokens
from throughtime.tasks.fill.predictor import Filler

LAST = 2**31 - 1  # the end of any sequence
SHAPES = ((1, 3), (1, 50), (3, 7), (3, 40))


def build_export(filler: Filler) -> ModelExport:
    """The graph of a model that fills blanks, and the settings and files that its runner needs."""
    model = filler.model
    return ModelExport(
        lambda int8: {"model": build_filler_graph(model, int8)},
        {"never": filler._never},
        filler.codec.save,
        lambda: _cases(model),
        'fill("I am ___.")[0].text',
    )


def build_filler_graph(model: MaskedTokens, int8: bool) -> Graph:
    """Ids [T, B], lengths [B], and places [N], each a step times B plus a row, to ln P [N, V]."""
    graph = Graph("filler", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    places = graph.input("places", "int64", ["places"])
    mask = graph.op("Expand", graph.axes(model.mask_id), graph.op("Shape", places))
    flat = graph.op("ScatterElements", graph.op("Reshape", ids, graph.axes(-1)), places, mask)
    vectors = graph.lookup(model.embedding.weight, graph.op("Reshape", flat, graph.op("Shape", ids)))
    outputs, _ = model.stack.graph(graph, vectors, None, lengths)
    if model.beside:
        inside = graph.op("Where", graph.inside(vectors, lengths), vectors, graph.constant(0.0))
        left, right = (graph.concat([side, inside]) for side in graph.split(outputs, 2))
        before = graph.slice(graph.op("Pad", left, graph.axes(1, 0, 0, 0, 0, 0)), 0, -1, axis=0)
        after = graph.slice(graph.op("Pad", right, graph.axes(0, 0, 0, 1, 0, 0)), 1, LAST, axis=0)
        outputs = graph.concat([before, after])
    width = model.stack.output_size + 2 * model.stack.input_size * model.beside
    rows = graph.op("Reshape", outputs, graph.axes(-1, width))
    asked = graph.op("Gather", rows, places)
    if isinstance(model.projection, nn.Linear):
        asked = graph.linear(asked, model.projection.weight, model.projection.bias)
    words = model.head.weight.shape[0]
    graph.output(model.head.graph_log_probs(graph, asked), "log_probs", "float32", ["places", words])
    return graph


@torch.inference_mode()
def _cases(model: MaskedTokens) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)
    for batch, longest in SHAPES:
        ids, lengths = draw_ragged(0, model.embedding.num_embeddings, longest, batch, draws, least=1)
        places = torch.tensor([0, (longest - 1) * batch])  # in the first row, which has no padding
        given = {"ids": ids, "lengths": lengths, "places": places}
        expected = {"log_probs": model.log_probs(ids, places, lengths)}
        yield Case.of("model", f"{batch} x {longest}", given, expected)
