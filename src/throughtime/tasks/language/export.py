"""The export of a language model: one graph from ids and a state to ln P and the new state."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from throughtime.graphs.graph import Graph, to_array
from throughtime.graphs.write import Case, ModelExport, draw_ragged, number_names
from throughtime.models.language import NOTHING, RecurrentLanguageModel
from throughtime.tasks.language.predictor import RecurrentLanguage

SHAPES = ((1, 1), (1, 50), (3, 7), (3, 40))
"""The numbers of texts and of tokens at which an export is checked."""


def build_export(language: RecurrentLanguage) -> ModelExport:
    """The graph of a language model, and the settings and files that its runner needs."""
    model, framing = language.model, language.framing
    return ModelExport(
        lambda int8: {"model": build_language_graph(model, int8)},
        {
            "begin_id": framing.begin_id,
            "end_id": framing.end_id,
            "backward": framing.backward,
            "initial_state": [to_array(part)[0].tolist() for part in model.initial_state(1)],
            "generation": dict(language.generation),
        },
        framing.codec.save,
        lambda: _cases(model),
        'generate("the", max_new_tokens=50)[0].text',
    )


def build_language_graph(model: RecurrentLanguageModel, int8: bool) -> Graph:
    """Ids [T, B] (-1 before the first one), their lengths [B] and the state, to ln P [T, B, V]."""
    graph = Graph("language", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    sizes = model.stack.state_sizes
    state = graph.state_inputs("state", sizes)
    outputs, reached = model.stack.graph(graph, model.graph_embed(graph, ids), state, lengths)
    graph.output(
        model.head.graph_log_probs(graph, outputs),
        "log_probs",
        "float32",
        ["time", "batch", model.vocabulary_size],
    )
    graph.state_outputs("next", reached, sizes)
    return graph


@torch.inference_mode()
def _cases(model: RecurrentLanguageModel) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)
    for batch, longest in SHAPES:
        ids, lengths = draw_ragged(NOTHING, model.vocabulary_size, longest, batch, draws)
        state = tuple(torch.randn(batch, size, generator=draws) / 2 for size in model.stack.state_sizes)
        outputs, reached = model.stack(model.embed(ids), state, lengths)
        log_probs = model.head.log_probs(outputs.flatten(0, 1)).view(longest, batch, -1)
        given = {"ids": ids, "lengths": lengths, **number_names("state", state)}
        expected = {"log_probs": log_probs, **number_names("next", reached)}
        yield Case.of("model", f"{batch} x {longest}", given, expected)
