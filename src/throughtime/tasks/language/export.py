"""A recurrent language model as one graph: ids and a state in, ln P of what comes next and the state out."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from throughtime.export.exported import Case, Exported, named
from throughtime.export.graph import Graph, as_array
from throughtime.export.heads import log_probs
from throughtime.export.stack import run_stack
from throughtime.models.language import NOTHING, RecurrentLanguageModel
from throughtime.tasks.language.predictor import RecurrentLanguage

SHAPES = ((1, 1), (1, 50), (3, 7), (3, 40))
"""Texts and the most tokens of one, that an export is checked at."""


def exported(language: RecurrentLanguage) -> Exported:
    """The one part of a language model."""
    model, framing = language.model, language.framing
    return Exported(
        lambda int8: {"model": language_graph(model, int8)},
        {
            "begin_id": framing.begin_id,
            "end_id": framing.end_id,
            "backward": framing.backward,
            "initial_state": [as_array(part)[0].tolist() for part in model.initial_state(1)],
            "generation": dict(language.generation),
        },
        framing.codec.save,
        lambda: _cases(model),
        'generate("the", max_new_tokens=50)[0].text',
    )


def language_graph(model: RecurrentLanguageModel, int8: bool) -> Graph:
    """Ids [T, B] (-1: nothing was read yet), their lengths [B] and the state, to ln P [T, B, V]."""
    graph = Graph("language", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    sizes = model.stack.state_sizes
    state = tuple(
        graph.input(name, "float32", ["batch", size]) for name, size in named("state", sizes).items()
    )
    outputs, reached = run_stack(graph, model.stack, embedded(graph, model, ids), state, lengths)
    graph.output(
        log_probs(graph, model.head, outputs),
        "log_probs",
        "float32",
        ["time", "batch", model.vocabulary_size],
    )
    for (name, value), size in zip(named("next", reached).items(), sizes, strict=True):
        graph.output(value, name, "float32", ["batch", size])
    return graph


def embedded(graph: Graph, model: RecurrentLanguageModel, ids: str) -> str:
    """Vectors of ids [T, B]; those of NOTHING are zeros."""
    zero = graph.constant(0, "int64")
    real = graph.op("Unsqueeze", graph.op("GreaterOrEqual", ids, zero), graph.axes(-1))
    vectors = graph.lookup(model.embedding.weight, graph.op("Max", ids, zero))
    return graph.op("Where", real, vectors, graph.constant(0.0))


@torch.inference_mode()
def _cases(model: RecurrentLanguageModel) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)
    for batch, longest in SHAPES:
        ids = torch.randint(NOTHING, model.vocabulary_size, (longest, batch), generator=draws)
        lengths = torch.randint(0, longest + 1, (batch,), generator=draws)
        lengths[0] = longest
        state = tuple(torch.randn(batch, size, generator=draws) / 2 for size in model.stack.state_sizes)
        outputs, reached = model.stack(model._embedded(ids), state, lengths)
        found = model.head.log_probs(outputs.flatten(0, 1)).view(longest, batch, -1)
        given = {"ids": ids, "lengths": lengths, **named("state", state)}
        told = {"log_probs": found, **named("next", reached)}
        yield Case(
            "model",
            f"{batch} x {longest}",
            {name: value.numpy() for name, value in given.items()},
            {name: value.numpy() for name, value in told.items()},
        )
