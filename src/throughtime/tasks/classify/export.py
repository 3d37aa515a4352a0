"""The export of a classifier: one graph from ids to ln P of every label."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, draw_ragged
from throughtime.tasks.classify.network import SequenceClassifier
from throughtime.tasks.classify.predictor import Classifier

SHAPES = ((1, 1), (1, 50), (3, 7), (3, 40))


def build_export(classifier: Classifier) -> ModelExport:
    """The graph of a classifier, and the settings and files that its runner needs."""
    model = classifier.model
    return ModelExport(
        lambda int8: {"model": build_classifier_graph(model, int8)},
        {"labels": list(classifier.labels.names), "max_length": classifier.config.max_length},
        classifier.codec.save,
        lambda: _cases(model),
        'classify(["a text"])[0].label',
    )


def build_classifier_graph(model: SequenceClassifier, int8: bool) -> Graph:
    """Ids [T, B] and their lengths [B], to ln P [B, labels]."""
    graph = Graph("classifier", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    encoded = model.encoder.graph(graph, ids, lengths)
    vector = model.pooling.graph(graph, encoded.outputs, encoded.final, lengths)
    labels = model.head.weight.shape[0]
    graph.output(model.head.graph_log_probs(graph, vector), "log_probs", "float32", ["batch", labels])
    return graph


@torch.inference_mode()
def _cases(model: SequenceClassifier) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)
    words = model.encoder.embedding.num_embeddings
    for batch, longest in SHAPES:
        ids, lengths = draw_ragged(0, words, longest, batch, draws)
        expected = {"log_probs": model.log_probs(ids, lengths)}
        yield Case.of("model", f"{batch} x {longest}", {"ids": ids, "lengths": lengths}, expected)
